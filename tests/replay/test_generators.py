from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from tune_media.replay.generators import same_states, set_states, states_of


def test_a_generator_that_wrappers_hand_out_is_one():
    env = gym.make("CartPole-v1")
    assert len(states_of(env)) == 1
    assert states_of(env)[0] == env.unwrapped.np_random.bit_generator.state


def test_a_state_is_a_copy():
    env = gym.make("CartPole-v1")
    before = states_of(env)
    first = env.unwrapped.np_random.random()
    set_states(env, before)
    assert env.unwrapped.np_random.random() == first


def test_each_generator_of_an_env_and_of_those_inside_it_is_found():
    inner = SimpleNamespace(dice=np.random.default_rng(1))
    outer = SimpleNamespace(np_random=np.random.default_rng(2), par_env=inner)
    assert len(states_of(outer)) == 2
    with pytest.raises(ValueError, match="zip"):
        set_states(inner, states_of(outer))


def test_the_state_of_an_emulator_includes_its_generator():
    import ale_py

    gym.register_envs(ale_py)
    env, other = (gym.make("ALE/Pong-v5", frameskip=1) for _ in range(2))
    env.reset(seed=1), other.reset(seed=2)
    states = states_of(env)
    assert len(states) == 2
    for again in (env, other):
        set_states(again, states)
        assert again.unwrapped.clone_state(include_rng=True) == states[1]
    with same_states(env):
        env.step(1)
    assert env.unwrapped.clone_state(include_rng=True) == states[1]
    assert states_of(env)[0] == states[0]


class Refuses:
    @property
    def np_random(self):
        raise RuntimeError("call reset() first")


@pytest.mark.parametrize("env", [object(), SimpleNamespace(np_random=None), Refuses()])
def test_an_env_without_a_generator_has_no_state(env):
    assert states_of(env) == ()
    set_states(env, ())
