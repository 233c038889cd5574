import random
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from tune_media.replay.env_state import EnvState
from tune_media.replay.generators import Snapshot, has_emulator, set_states
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.values.plain import pack_exactly, unpack


def test_reading_makes_no_generator_and_the_one_that_is_made_later_is_known_from_its_beginning():
    env, other = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    snapshot = Snapshot(EnvState(env))
    assert "_np_random" not in vars(env.unwrapped)
    assert not snapshot.states
    observation, _ = env.reset()
    set_states(other, snapshot.states)
    assert np.array_equal(other.reset()[0], observation)


class SeedsItself(gym.Env):
    """Gymnasium's public ``np_random`` would make a generator, so that this env would not make its own."""

    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self._np_random is None:
            self._np_random = np.random.default_rng(42)
        return self._np_random.random(1), {}

    def step(self, action):
        return self._np_random.random(1), 0.0, True, False, {}


def test_an_env_that_seeds_itself_if_nobody_else_did_still_does():
    expected = SeedsItself().reset()[0]
    env, other = gym.wrappers.OrderEnforcing(SeedsItself()), SeedsItself()
    recorder = TapeRecorder(env)
    assert not has_emulator(env)
    assert env.reset()[0] == expected
    set_states(other, recorder.tape.generators)
    assert other.reset()[0] == expected


def test_each_generator_of_an_env_and_of_those_inside_it_is_found_once():
    shared = np.random.default_rng(1)
    game = SimpleNamespace(rng=np.random.default_rng(6))
    inner = SimpleNamespace(dice=shared, cards=np.random.RandomState(4), wheel=random.Random(5), game=game)
    outer = SimpleNamespace(np_random=np.random.default_rng(2), par_env=inner, alias=shared)
    assert list(Snapshot(EnvState(outer)).states) == ["0/cards", "0/dice", "0/game/rng", "0/wheel", "1/np_random"]


def test_states_of_all_kinds_are_plain_data_and_copies():
    env = SimpleNamespace(
        a=np.random.default_rng(1), b=np.random.Generator(np.random.MT19937(2)), c=np.random.RandomState(3)
    )
    env.d, env.e = random.Random(4), random.SystemRandom()

    def draw():
        return env.a.random(), env.b.random(), env.c.normal(), env.d.gauss(0, 1)

    draw()
    states = pack_exactly(Snapshot(EnvState(env)).states)
    first = draw()
    set_states(env, unpack(states))
    assert draw() == first


def test_the_spaces_generators_are_among_them():
    env, other = (gym.make("CartPole-v1") for _ in range(2))
    spaces = gym.spaces.Dict(left=gym.spaces.Box(0, 1), right=gym.spaces.Discrete(9))
    env.unwrapped.goals, other.unwrapped.goals = spaces, gym.spaces.Dict(spaces.spaces.copy())
    snapshot = Snapshot(EnvState(env))
    drawn = env.unwrapped.goals.sample(), env.action_space.sample()
    other.unwrapped.goals = gym.spaces.Dict(left=gym.spaces.Box(0, 1), right=gym.spaces.Discrete(9))
    set_states(other, snapshot.states)
    assert (other.unwrapped.goals.sample(), other.action_space.sample()) == drawn


def test_the_state_of_an_emulator_includes_its_generator():
    import ale_py

    gym.register_envs(ale_py)
    env, other = (gym.make("ALE/Pong-v5", frameskip=1) for _ in range(2))
    env.reset(seed=1), other.reset(seed=2)
    states = unpack(pack_exactly(Snapshot(EnvState(env)).states))
    assert "0/ale" in states
    assert "0/ale" not in Snapshot(EnvState(env), with_emulator=False).states
    before = env.unwrapped.clone_state(include_rng=True)
    set_states(other, states)
    assert other.unwrapped.clone_state(include_rng=True) == before


class Refuses:
    @property
    def np_random(self):
        raise RuntimeError("call reset() first")


@pytest.mark.parametrize("env", [object(), SimpleNamespace(np_random=None), Refuses()])
def test_an_env_without_a_generator_has_no_state(env):
    assert Snapshot(EnvState(env)).states == {}
    set_states(env, {})
