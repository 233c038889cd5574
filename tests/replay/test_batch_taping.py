"""The steps of sub-envs are put on their tapes together, as their tape recorders do it, or not at all."""

import copy

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

    def __init__(self, *makers, included=None):
        self.envs = gym.vector.SyncVectorEnv(list(makers))
        self.recorders = [TapeRecorder(env) for env in self.envs.envs]
        self.batch = BatchTaping(dict(list(enumerate(self.recorders))[:included]))
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
        stored = Tape.unpacked(tape.packed())
        steps = list(replay(env, stored))
        assert len(steps) == len(tape) + 1
        assert list(stored.rewards) == [float(step.reward) for step in steps[1:]]


class ChangesTypes(Walk):
    """What it returns is of other types in later episodes."""

    episodes = 0

    def reset(self, **options):
        self.episodes += 1
        return super().reset(**options)

    def step(self, action):
        observation, reward, *more = super().step(action)
        if self.episodes > 2:
            observation, reward = observation.astype(np.float64) if self.steps % 2 else [1, 2, 3], np.array(reward)
        if self.episodes > 4:
            more[:2] = map(np.bool_, more[:2])
        if self.episodes > 6:
            reward, more[0], more[1] = np.bool_(self.steps % 2), 2 * bool(more[0]), None
        return observation, np.float32(reward) if self.episodes == 6 else reward, *more


class ChangesActions(Walk):
    def step(self, action):
        action *= 0.0
        return super().step(action)


class Trials(Walk):
    """Resets itself in a step, twice an episode."""

    def step(self, action):
        observation, reward, _, *more = super().step(action)
        if self.steps == self.length:
            self.reset(options={"inner": True})
            self.trials += 1
        return observation, reward, self.trials == 3, *more

    def reset(self, **options):
        if not options.get("options"):
            self.trials = 0
        return super().reset(**options)


class Skips(Walk):
    """Steps itself in its reset."""

    def reset(self, **options):
        super().reset(**options)
        for _ in range(4):
            observation, *_, info = self.step(np.ones(2, np.float32))
        return observation, info


class Levels(Walk):
    """Has a second level from its third episode on, for which it resets and steps itself."""

    episodes = 0

    def reset(self, **options):
        self.episodes += not options.get("options")
        return super().reset(**options)

    def step(self, action):
        found = super().step(action)
        if self.episodes > 2 and self.steps == 3:
            self.reset(options={"level": 2})
            found = self.step(action)
        return found


MAKERS = {
    "CartPole": lambda: gym.make("CartPole-v1"),
    "more than a block, and truncated": lambda: gym.make("Pendulum-v1", max_episode_steps=70),
    "integers as rewards at times, observations no arrays": lambda: gym.make("FrozenLake-v1"),
    "a wrapper of actions": lambda: gym.wrappers.RescaleAction(
        gym.make("MountainCarContinuous-v0", max_episode_steps=90), -2.0, 2.0
    ),
    "no wrapper": Walk,
    "two types of rewards": lambda: Walk(3, reward=lambda steps: 1 if steps == 3 else 0.5),
    "one step": lambda: Walk(1),
    "other types in later episodes": ChangesTypes,
    "changes its actions": ChangesActions,
    "resets itself in a step": Trials,
    "steps itself in its reset": lambda: Skips(9),
    "resets and steps itself in later episodes": lambda: gym.wrappers.TimeLimit(Levels(), 12),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_second_episode_of_a_sub_env_is_taped_so_and_plays_in_a_fresh_env(make):
    vector = Vector(make, make)
    alone = Vector(make, make)
    alone.batch._give_up(None)
    vector.step(400)
    alone.step(400)
    assert vector.taped() == [True] * 2
    assert not any(alone.taped())
    assert {Trials: {15}, Walk: {5}}.get(make, lengths := {len(tape) for tape in vector.tapes[0]}) == lengths
    for tapes, others in zip(vector.tapes, alone.tapes, strict=True):
        assert len(tapes) > 3
        assert [tape.fault for tape in tapes] == [None] * len(tapes)
        assert [list(tape.checks) for tape in tapes] == [list(tape.checks) for tape in others]
        assert [tape.actions.packed()[1] for tape in tapes] == [tape.actions.packed()[1] for tape in others]
        assert_plays(make(), tapes[:9])


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
    assert vector.taped() == [False, False]
    vector.envs.envs[0].fails = False
    vector.envs.reset(seed=1)
    vector.step(20)
    assert vector.taped() == [False, False]
    assert_plays(Fails(), vector.tapes[0][1:])  # step by step again
    assert len(vector.tapes[0]) > 3


def test_actions_of_another_type_are_on_the_tape_as_they_were():
    vector = Vector(lambda: Walk(70))
    vector.step(100)
    vector.step(5, actions=np.ones((1, 2)))  # float64
    vector.step(80)
    assert vector.taped() == [True]
    actions = vector.tapes[0][1].actions
    assert [actions[step].dtype for step in (28, 29, 33, 34)] == ["float32", "float64", "float64", "float32"]
    assert_plays(Walk(70), vector.tapes[0])


@pytest.mark.parametrize("is_before", [True, False])
def test_what_is_no_array_of_numbers_ends_it_and_the_tape_recorders_go_on(is_before):
    vector = Vector(Walk)
    vector.step(9)
    assert vector.taped() == [True]
    if is_before:
        vector.step(actions=(np.zeros(2, np.float32),))
    else:
        step = vector.envs.step
        vector.envs.step = lambda actions: [list(step(actions)[0]), *step(actions)[1:]]
        vector.step()
        vector.envs.step = step
    assert not vector.batch.is_of_use
    assert (vector.recorders[0].tape.fault is None) == is_before
    vector.step(30)
    assert len(vector.tapes[0]) > 5
    assert_plays(Walk(), vector.tapes[0] if is_before else vector.tapes[0][2:])


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


def test_a_sub_env_that_somebody_resets_between_two_episodes_is_taped_on():
    vector = Vector(Walk)
    for _ in range(40):
        if vector.step()[2][0]:
            vector.envs.envs[0].reset()
    assert vector.taped() == [True]
    assert [len(tape) for tape in vector.tapes[0]] == [5] * 6
    assert_plays(Walk(), vector.tapes[0])


def test_an_episode_that_a_reset_cuts_counts_as_one_of_its_env():
    vector = Vector(Walk)
    vector.step(8)
    for _ in range(4):
        vector.envs.reset()
        vector.step(2)
    assert vector.taped() == [True]
    vector.step(3)
    assert vector.tapes[0][-1].number == 5


def test_what_somebody_puts_in_the_place_of_step_stays_there():
    vector = Vector(Walk)
    vector.step(9)
    env, calls = vector.envs.envs[0], []
    before = env.step
    env.step = lambda action: (calls.append(1), before(action))[1]
    vector.step(2)
    vector.recorders[0].leave()
    vector.step(10)
    assert not vector.batch.is_of_use
    assert len(calls) >= 10


def test_further_sub_envs_may_be_taped_so_after_all_others_were_given_up_in_mid_episode():
    vector = Vector(Walk, Walk, included=1)
    vector.step(13)
    vector.batch._give_up(None)
    vector.step(4)
    assert not vector.batch.is_of_use
    vector.batch.include(dict(enumerate(vector.recorders)))
    vector.step(150)  # more than two blocks
    assert vector.taped() == [False, True]
    assert [len(tapes) for tapes in vector.tapes] == [28, 28]
    for tapes in vector.tapes:
        assert_plays(Walk(), tapes)


def test_tapes_that_nobody_needs_any_more_cost_nothing_and_may_be_needed_again():
    vector = Vector(Walk)
    vector.step(13)
    recorder = vector.recorders[0]
    recorder.leave()
    vector.step(10)
    assert recorder.tape is None
    assert not vector.batch.is_of_use
    recorder.join()
    vector.tapes[0].clear()
    vector.step(20)
    assert_plays(Walk(), vector.tapes[0][1:])
    assert len(vector.tapes[0]) > 2


def test_a_copy_of_a_sub_env_is_of_that_env_alone():
    vector = Vector(Walk, Walk)
    vector.step(13)
    tape = vector.recorders[0].tape
    env = copy.deepcopy(vector.envs.envs[0])
    env.reset(seed=3)
    env.step(np.ones(2, np.float32))
    assert vector.recorders[0].tape is tape
    vector.step(20)
    assert vector.taped() == [True, True]
    assert_plays(Walk(), vector.tapes[0])
