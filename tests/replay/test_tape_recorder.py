import copy
import threading

import gymnasium as gym
import numpy as np

from tune_media.replay.tape_recorder import TapeRecorder, tape_recorder_of


def stepped(env, steps=3, seed=None, options=None):
    env.reset(seed=seed, options=options)
    for _ in range(steps):
        env.step(env.action_space.sample())


def test_each_reset_begins_a_tape_of_its_own():
    env = gym.make("CartPole-v1")
    taping = TapeRecorder(env)
    stepped(env, 2)
    first = taping.tape
    stepped(env, 3, seed=70, options={"low": -0.01, "high": 0.01})
    assert (first.seed, len(first), len(first.checks)) == (None, 2, 3)
    second = taping.tape
    assert (second.seed, second.options, len(second)) == (70, {"options": {"low": -0.01, "high": 0.01}}, 3)
    assert tape_recorder_of(env) is taping
    assert tape_recorder_of(gym.make("CartPole-v1")) is None


def test_an_env_gets_the_seeds_of_its_user_and_no_others():
    class Env(gym.Env):
        def reset(self, *, seed=None, options=None):
            given.append(seed)
            return 0, {}

    env, given, tapes = Env(), [], []
    taping = TapeRecorder(env)
    for seed in (None, 5, None):
        env.reset(seed=seed)
        tapes.append(taping.tape.seed)
    assert given == tapes == [None, 5, None]


def test_an_episode_that_begins_in_mid_game_cannot_be_replayed():
    class EachLifeIsAnEpisode(gym.Wrapper):
        games = 0

        def reset(self, **kwargs):
            self.games += 1
            if self.games % 2:
                return self.env.reset(**kwargs)
            observation, *_, info = self.env.step(0)
            return observation, info

    env = gym.wrappers.TimeLimit(EachLifeIsAnEpisode(gym.make("CartPole-v1")), 9)
    taping, faults = TapeRecorder(env), []
    for _ in range(3):
        stepped(env)
        faults.append(taping.tape.fault)
    assert (faults[0], faults[2]) == (None, None)
    assert "began it in the middle of a game" in faults[1]


def test_an_action_is_taped_as_it_was_given():
    class Changes(gym.Wrapper):
        def step(self, action):
            action *= 0
            return self.env.step(action)

    env = Changes(gym.make("Pendulum-v1"))
    taping = TapeRecorder(env)
    env.reset()
    env.step(np.array([1.5], np.float32))
    assert taping.tape.actions[0].tolist() == [1.5]


def checks(env, seed, *actions):
    """Return the checksums on the tape of an episode."""
    taping = tape_recorder_of(env) or TapeRecorder(env)
    env.reset(seed=seed)
    for action in actions:
        env.step(action)
    return list(taping.tape.checks)


STILL, PUSH = np.array([0.0], np.float32), np.array([0.5], np.float32)


def test_running_means_of_a_wrapper_are_not_checked_and_the_env_inside_is():
    fresh, used = (gym.wrappers.NormalizeObservation(gym.make("Pendulum-v1")) for _ in range(2))
    for seed in range(3):
        checks(used, seed, PUSH)
    still, pushed = checks(fresh, 8, STILL), checks(used, 8, PUSH)
    assert checks(used, 8, STILL) == still
    assert still[0] == pushed[0]
    assert still[1] != pushed[1]


def test_the_end_that_a_wrapper_adds_is_checked():
    long, short = (
        checks(gym.wrappers.TimeLimit(gym.make("Pendulum-v1").unwrapped, limit), 1, STILL, STILL) for limit in (5, 2)
    )
    assert long[:2] == short[:2]
    assert long[2] != short[2]


class Levels(gym.Wrapper):
    """Makes a new env at each reset; its observations and rewards are its level."""

    def __init__(self, level):
        super().__init__(gym.make("CartPole-v1"))
        self.level = level

    def reset(self, **options):
        self.env = gym.make("CartPole-v1")
        self.env.reset(**options)
        return np.full(2, self.level), {}

    def step(self, action):
        self.env.step(action)
        return np.full(2, self.level), float(self.level), False, False, {}


def test_a_wrapper_that_makes_a_new_env_at_each_reset_is_checked_from_outside():
    """The checksums of the innermost env that the taping saw first would be the same for every level."""
    assert checks(Levels(1), 1, 0) == checks(Levels(1), 1, 0)
    assert all(one != other for one, other in zip(checks(Levels(1), 1, 0), checks(Levels(2), 1, 0), strict=True))


def test_a_copy_of_a_taped_env_steps_itself():
    env = gym.make("CartPole-v1")
    taping = TapeRecorder(env)
    env.reset()
    before = np.array(env.unwrapped.state)
    copy.deepcopy(env.unwrapped).step(1)
    copy.deepcopy(env).step(1)
    assert np.array_equal(env.unwrapped.state, before)
    assert len(taping.tape) == 0


def test_what_cannot_be_compared_or_copied_is_a_fault_and_no_exception():
    class Odd:
        def __array__(self, *args, **kwargs):
            raise TypeError("on another device, https://host/x?sig=Zm9v")

    class Env:
        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return Odd(), 0.0, False, False, {}

    env = Env()
    taping = TapeRecorder(env)
    env.reset(options={"lock": threading.Lock()})
    assert "cannot be copied" in taping.tape.fault
    env.reset()
    assert taping.tape.fault is None
    env.step(0)
    assert "on another device, https://host/x?sig=***" in taping.tape.fault
