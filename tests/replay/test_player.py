"""Episodes of real envs, played again in a fresh env: each frame is the one that the episode itself showed."""

import importlib.util
import random

import gymnasium as gym
import numpy as np
import pytest

from tests.support.envs import CountingEnv
from tune_media.recording.seeding import SeededResets
from tune_media.replay.player import ReplayDiffers, replay
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder

STEPS = 30


def atari(**options):
    import ale_py

    gym.register_envs(ale_py)
    return gym.make("ALE/Breakout-v5", render_mode="rgb_array", **options)


def preprocessed():
    env = gym.wrappers.MaxAndSkipObservation(atari(frameskip=1), 4)
    return gym.wrappers.FrameStackObservation(env, 4)


def normalised():
    env = gym.make("Pendulum-v1", render_mode="rgb_array")
    return gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(env))


def make(name, **options):
    return lambda: gym.make(name, render_mode="rgb_array", **options)


ENVS = {
    "CartPole": make("CartPole-v1"),
    "Pendulum": make("Pendulum-v1", max_episode_steps=20),
    "MountainCarContinuous": make("MountainCarContinuous-v0"),
    "FrozenLake": make("FrozenLake-v1", is_slippery=True),
    "Taxi": make("Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"),  # Gymnasium 1.4 has v4 alone
    "Blackjack": make("Blackjack-v1"),
    "Breakout, sticky actions": atari,
    "Breakout, preprocessed and stacked": preprocessed,
    "Pendulum, normalised": normalised,
    "HalfCheetah": make("HalfCheetah-v5"),
}
NO_PICTURE = {"HalfCheetah"}  # rendering it needs a GL library; the benchmark does


@pytest.mark.parametrize("name", ENVS)
def test_a_fresh_env_shows_the_same_frames(name):
    if name in NO_PICTURE and importlib.util.find_spec("mujoco") is None:
        pytest.skip("mujoco is not installed")
    renders = name not in NO_PICTURE
    env = ENVS[name]()
    taping = TapeRecorder(env)
    env.action_space.seed(3)
    for seed in (1000, 1001):  # an episode that is not the env's first
        env.reset(seed=seed)
        frames, over = [env.render()] if renders else [None], False
        while not over and len(frames) < STEPS:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            frames.append(env.render() if renders else None)
            over = terminated or truncated
    other, stored = ENVS[name](), Tape.unpacked(taping.tape.packed())
    for steps in (replay(other, taping.tape), replay(other, stored)):  # the env is kept for the next time
        count = 0
        for step in steps:
            assert step.step == count
            assert not renders or np.array_equal(other.render(), frames[count])
            count += 1
        assert count == len(frames)


class Uneasy(gym.Wrapper):
    """An env whose ``at``-th step after a reset depends on a generator that no seed reaches."""

    def __init__(self, env, at):
        super().__init__(env)
        self.at, self.count = at, 0

    def reset(self, **kwargs):
        self.count = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        self.count += 1
        if self.count == self.at:
            state = np.array(self.unwrapped.state)
            self.unwrapped.state = tuple(state + random.SystemRandom().uniform(0.001, 0.01))
        return self.env.step(action)


@pytest.mark.parametrize("at", [1, 5])
def test_an_env_that_does_not_repeat_itself_is_caught_at_its_first_differing_step(at):
    env = Uneasy(gym.make("CartPole-v1"), at)
    taping = TapeRecorder(env)
    env.reset()
    for step in range(8):
        env.step(step % 2)
    steps = replay(Uneasy(gym.make("CartPole-v1"), at), taping.tape)
    seen = []
    with pytest.raises(ReplayDiffers, match=f"at step {at}, the replay has another observation") as caught:
        seen.extend(step.step for step in steps)
    assert caught.value.step == at
    assert seen == list(range(at))


def taped(env, steps=3, **reset):
    taping = TapeRecorder(env)
    env.reset(**reset)
    for _ in range(steps):
        env.step(0)
    return taping.tape


def test_a_reset_that_differs_is_caught():
    tape = taped(gym.make("CartPole-v1"), seed=5)
    tape.seed += 1
    with pytest.raises(ReplayDiffers, match="at the reset, the replay has another observation"):
        list(replay(gym.make("CartPole-v1"), tape))


def test_an_env_that_fails_in_the_replay_is_a_difference(tmp_path):
    tape = taped(CountingEnv({"length": 9}), 4)
    with pytest.raises(ReplayDiffers, match="at step 2, the replay raised RuntimeError: the env fails"):
        list(replay(CountingEnv({"length": 9, "fail_at": 2, "log_dir": str(tmp_path)}), tape))


WITHOUT_SEED = [
    "CartPole",
    "FrozenLake",
    "Blackjack",
    "Pendulum, normalised",
    *(name for name in ENVS if "Breakout" in name),
]


@pytest.mark.parametrize("name", WITHOUT_SEED)
def test_an_episode_without_a_seed_is_repeated_from_the_state_of_the_generator(name):
    env, plain = ENVS[name](), ENVS[name]()
    taping, tapes = TapeRecorder(env), []
    env.reset(seed=5), plain.reset(seed=5)
    env.action_space.seed(3)
    for _ in range(3):
        for _ in range(STEPS):
            action = env.action_space.sample()
            taped, untaped = env.step(action), plain.step(action)
            assert np.array_equal(taped[0], untaped[0])
            assert taped[1:4] == untaped[1:4]
            if taped[2] or taped[3]:
                break
        tapes.append(taping.tape)
        assert np.array_equal(env.reset()[0], plain.reset()[0])
    other = ENVS[name]()
    for tape in map(Tape.unpacked, [tape.packed() for tape in reversed(tapes)]):  # each on its own
        assert len(list(replay(other, tape))) == len(tape) + 1
    assert [tape.seed for tape in tapes] == [5, None, None]


def test_sticky_actions_are_drawn_again_without_a_seed_from_the_first_episode_on():
    """The emulator was never given a seed. Without its state, the replay differs, so the actions do stick."""
    env, others = atari(), [atari(), atari()]
    taping, tapes, frames = TapeRecorder(env), [], []
    env.action_space.seed(3)
    for _ in range(2):
        env.reset()
        shown = [env.render()]
        for _ in range(4 * STEPS):
            env.step(env.action_space.sample())
            shown.append(env.render())
        tapes.append(taping.tape)
        frames.append(shown)
    for tape, shown in zip(tapes, frames, strict=True):
        tape = Tape.unpacked(tape.packed())
        assert tape.seed is None
        for step in replay(others[0], tape):
            assert np.array_equal(others[0].render(), shown[step.step])
    without = Tape(tapes[0].seed)
    without.actions, without.checks, without.fault = tapes[0].actions, tapes[0].checks, None
    with pytest.raises(ReplayDiffers, match="has another observation"):
        list(replay(others[1], without))


def test_options_and_the_task_are_those_of_the_episode():
    tape = taped(gym.make("CartPole-v1"), options={"low": 0.04, "high": 0.05})
    first = next(replay(gym.make("CartPole-v1"), tape))
    assert first.observation.min() >= 0.04
    env = gym.wrappers.TimeLimit(CountingEnv(), 10)
    env.unwrapped.set_task(3)
    tape, other = taped(env), CountingEnv()
    next(replay(other, tape))
    assert other.get_task() == 3


def test_an_env_with_seeds_of_its_own_takes_the_episodes():
    def make_env():
        env = gym.make("CartPole-v1")
        SeededResets(env, [3, 4, 5])
        return gym.wrappers.TimeLimit(env, 50)

    env = make_env()
    taping = TapeRecorder(env)
    for _ in range(2):
        env.reset()
        env.step(0)
    assert taping.tape.seed == 4
    assert len(list(replay(make_env(), taping.tape))) == 2


def test_a_tape_with_a_fault_is_not_replayed():
    tape = taped(gym.make("CartPole-v1"))
    tape.fault = "its actions take more than 32 MB (step 9)"
    with pytest.raises(ReplayDiffers, match="is impossible: its actions take more than 32 MB"):
        next(replay(gym.make("CartPole-v1"), tape))
