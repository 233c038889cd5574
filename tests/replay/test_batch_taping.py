"""The steps of sub-envs are put on their tapes together, as their tape recorders do it, or not at all."""

import copy
import itertools

import gymnasium as gym
import numpy as np
import pytest

from tune_media.replay.batch_taping import BatchTaping
from tune_media.replay.player import replay
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder


class Walk(gym.Env):
    """Ends after ``length`` steps; its rewards are of one type or of several."""

    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    observation_space = gym.spaces.Box(-9.0, 9.0, (3,), np.float32)

    def __init__(self, length=5, reward=lambda steps: 0.5):
        self.length, self.reward, self.steps = length, reward, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(3).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        observation = self.np_random.random(3).astype(np.float32)
        observation[:2] += action
        return observation, self.reward(self.steps), self.steps == self.length, False, {}


class Vector:
    """A vector env whose sub-envs are taped together; it is stepped as RLlib does it."""

    def __init__(self, *makers):
        self.envs = gym.vector.SyncVectorEnv(list(makers))
        self.recorders = [TapeRecorder(env) for env in self.envs.envs]
        self.batch = BatchTaping(dict(enumerate(self.recorders)))
        self.tapes = [[] for _ in makers]
        self.envs.reset(seed=7)
        self.envs.action_space.seed(1)

    def step(self, steps=1, actions=None):
        """Step it, and note the tape of each episode that ends."""
        for _ in range(steps):
            given = self.envs.action_space.sample() if actions is None else actions
            result = self.batch.step(self.envs.step, given)
            for index in np.flatnonzero(result[2] | result[3]):
                self.tapes[index].append(self.recorders[index].tape)
        return result

    def taped(self):
        return [self.batch.tapes(index) for index in range(len(self.recorders))]


def assert_plays(env, tapes):
    """Assert that a fresh env plays tapes, as they are stored, from the first to the last step."""
    for tape in tapes:
        assert len(list(replay(env, Tape.unpacked(tape.packed())))) == len(tape) + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: gym.make("CartPole-v1"),
        lambda: gym.make("Pendulum-v1", max_episode_steps=70),  # more than a block, and truncated
        lambda: gym.make("FrozenLake-v1"),  # its rewards are integers, its observations no arrays
        lambda: gym.wrappers.RescaleAction(gym.make("MountainCarContinuous-v0", max_episode_steps=90), -2.0, 2.0),
        Walk,
        lambda: Walk(3, reward=lambda steps: 1 if steps == 3 else 0.5),
        lambda: Walk(1),
    ],
    ids=[
        "CartPole",
        "Pendulum",
        "FrozenLake",
        "a wrapper of actions",
        "no wrapper",
        "two types of rewards",
        "one step",
    ],
)
def test_the_second_episode_of_a_sub_env_is_taped_so_and_plays_in_a_fresh_env(make):
    vector = Vector(make, make)
    alone = Vector(make, make)
    alone.batch.leave("to compare")
    vector.step(400)
    alone.step(400)
    is_number = isinstance(vector.envs.single_observation_space, gym.spaces.Discrete)
    assert vector.taped() == [not is_number] * 2
    assert not any(alone.taped())
    for tapes, others in zip(vector.tapes, alone.tapes, strict=True):
        assert len(tapes) > 3
        assert [tape.fault for tape in tapes] == [None] * len(tapes)
        assert [tape.of_wrappers for tape in tapes] == [False] + [not is_number] * (len(tapes) - 1)
        assert [list(tape.checks) for tape in tapes] == [list(tape.checks) for tape in others]
        assert [tape.actions.packed()[1] for tape in tapes] == [tape.actions.packed()[1] for tape in others]
        assert_plays(make(), tapes[:4])


def test_each_sub_env_is_judged_by_its_own_first_episode():
    def moved():
        return gym.wrappers.TransformObservation(Walk(4), lambda observation: observation / 2, Walk.observation_space)

    def doubled():
        return gym.wrappers.TransformReward(Walk(6), lambda reward: 2 * reward)

    vector = Vector(Walk, moved, doubled)
    vector.step(60)
    assert vector.taped() == [True, False, False]
    for make, tapes in zip((Walk, moved, doubled), vector.tapes, strict=True):
        assert_plays(make(), tapes)


def test_what_a_wrapper_changes_only_later_is_checked_as_it_returned_it():
    def make():
        late = itertools.count()
        return gym.wrappers.TransformReward(Walk(4), lambda reward: reward if next(late) < 10 else -reward)

    vector = Vector(make)
    vector.step(40)
    assert vector.taped() == [True]
    assert_plays(make(), vector.tapes[0][:2])
    assert [tape.of_wrappers for tape in vector.tapes[0][:2]] == [False, True]
    later = vector.tapes[0][4]
    with pytest.raises(Exception, match="at step 1, the replay has another"):
        list(replay(make(), later))  # a fresh wrapper counts from 0 again


def test_the_length_and_the_rewards_of_the_running_episode_are_known_at_any_time():
    vector = Vector(lambda: Walk(100, reward=lambda steps: 0.1 * steps), lambda: Walk(3))
    vector.step(101 + 70)
    total = 0.0
    for steps in range(1, 71):
        before, total = total, total + 0.1 * steps
    assert vector.batch.reached(0) == (70, total, before)
    vector.step()
    assert vector.batch.reached(0) == (71, total + 0.1 * 71, total)


def test_actions_are_those_that_the_env_was_given_though_it_changes_them():
    class Changes(Walk):
        def step(self, action):
            action *= 0.0
            return super().step(action)

    vector = Vector(Changes)
    vector.step(20)
    assert vector.taped() == [True]
    assert all(np.any(tape.actions[0]) for tape in vector.tapes[0])
    assert_plays(Changes(), vector.tapes[0])


def test_an_episode_in_which_the_vector_env_raised_cannot_be_replayed():
    class Fails(Walk):
        fails = False

        def step(self, action):
            if self.fails:
                raise RuntimeError("no more")
            return super().step(action)

    vector = Vector(Fails, Walk)
    vector.step(8)
    vector.envs.envs[0].fails = True
    with pytest.raises(RuntimeError, match="no more"):
        vector.step()
    assert [recorder.tape.fault for recorder in vector.recorders] == ["the vector env raised in the middle of it"] * 2
    vector.envs.envs[0].fails = False
    vector.envs.reset(seed=1)
    vector.step(20)
    assert vector.taped() == [False, False]
    assert_plays(Fails(), vector.tapes[0][1:])  # step by step again
    assert len(vector.tapes[0]) > 3


def test_arrays_of_another_type_end_it_and_the_next_episodes_are_taped_as_before():
    vector = Vector(Walk)
    vector.step(9)
    vector.step(actions=np.zeros((1, 2)))  # float64
    assert vector.recorders[0].tape.fault is not None
    assert not vector.batch.is_of_use
    vector.step(30)
    assert_plays(Walk(), vector.tapes[0][2:])


@pytest.mark.parametrize(
    "space", [gym.spaces.Box(0, 255, (40, 40), np.uint8), gym.spaces.Dict(x=gym.spaces.Discrete(3))], ids=str
)
def test_observations_that_are_large_or_no_array_are_taped_step_by_step(space):
    class Other(Walk):
        observation_space = space

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return space.sample(), {}

        def step(self, action):
            return (space.sample(), *super().step(action)[1:])

    vector = Vector(Other)
    vector.step(20)
    assert not vector.batch.is_of_use
    assert [len(tape) for tape in vector.tapes[0]] == [5, 5, 5]


def test_a_sub_env_that_somebody_else_steps_is_not_taped_so():
    vector = Vector(Walk, Walk)
    vector.step(2)
    vector.envs.envs[0].step(np.zeros(2, np.float32))
    vector.step(20)
    assert vector.taped() == [False, True]


def test_a_sub_env_whose_step_somebody_has_replaced_is_not_taped_so():
    vector = Vector(Walk)
    own = vector.envs.envs[0].step
    vector.envs.envs[0].step = lambda action: own(action)
    vector.step(20)
    assert vector.taped() == [False]
    assert_plays(Walk(), vector.tapes[0])


def test_an_episode_that_begins_in_mid_game_cannot_be_replayed():
    class Lives(gym.Wrapper):
        """Resets the env inside it in every third episode, but for the first two."""

        count = 0

        def reset(self, **options):
            self.count += 1
            if self.count % 3:
                return self.env.reset(**options)
            self.unwrapped.steps = 0
            return np.zeros(3, np.float32), {}

    vector = Vector(lambda: Lives(Walk()))
    vector.step(40)
    assert vector.taped() == [True]
    faults = [tape.fault for tape in vector.tapes[0]]
    assert [fault is not None for fault in faults[:6]] == [False, False, True, False, False, True]
    assert "in the middle of a game" in faults[2]


def test_tapes_that_nobody_needs_any_more_cost_nothing_and_may_be_needed_again():
    vector = Vector(Walk)
    vector.step(13)
    recorder = vector.recorders[0]
    recorder.leave()
    vector.step(10)
    assert recorder.tape is None
    assert not vector.batch.is_of_use
    recorder.join(None)
    vector.tapes[0].clear()
    vector.step(20)
    assert_plays(Walk(), vector.tapes[0][1:])
    assert len(vector.tapes[0]) > 2


def test_a_copy_of_a_sub_env_is_of_that_env_alone():
    vector = Vector(Walk, Walk)
    vector.step(13)
    steps = vector.batch.reached(0), len(vector.recorders[0].tape)
    env = copy.deepcopy(vector.envs.envs[0])
    env.reset(seed=3)
    env.step(np.ones(2, np.float32))
    assert (vector.batch.reached(0), len(vector.recorders[0].tape)) == steps
    vector.step(20)
    assert vector.taped() == [True, True]
    assert_plays(Walk(), vector.tapes[0])


def test_a_tape_that_is_too_large_is_none_and_the_steps_are_counted(monkeypatch):
    monkeypatch.setattr("tune_media.replay.tape.MAX_BYTES", 1200)
    vector = Vector(lambda: Walk(8))
    vector.step(9)
    vector.envs.envs[0].length = 300
    vector.step(200)
    assert vector.taped() == [True]
    assert vector.batch.reached(0)[0] == 200
    assert "take more than" in vector.recorders[0].tape.fault
