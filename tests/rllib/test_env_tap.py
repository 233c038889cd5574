import copy

import gymnasium as gym

from tests.support.envs import CountingEnv
from tune_media.rllib.env_tap import tap_of, tapped


def test_a_copy_of_an_env_steps_itself():
    """Tree searches copy envs: what is put in the place of ``step`` must not step the original."""
    env = CountingEnv({"length": 9})
    tapped(env)
    env.reset(seed=1)
    other = copy.deepcopy(env)
    other.step(0)
    assert (env.counter.step_count, other.counter.step_count) == (0, 1)
    assert tap_of(env).last.action is None


def test_observations_that_gymnasium_does_not_stack_are_told_from_the_parts_of_a_tuple():
    text, count = gym.spaces.Text(9), gym.spaces.Discrete(9)

    class Telling(gym.Env):
        observation_space = gym.spaces.Dict({"text": text, "both": gym.spaces.Tuple((count, text))})
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return {"text": f"text {seed}", "both": (seed, f"more {seed}")}, {}

    env = gym.vector.SyncVectorEnv([Telling] * 3)
    tap = tapped(env)
    env.reset(seed=[1, 2, 3])
    assert tap.last.of_sub_env(1, space=tap.space).observation == {"text": "text 2", "both": (2, "more 2")}


def test_an_env_that_nobody_steps_is_left_alone():
    """The old API stack's ``ExternalEnv`` asks for actions itself."""
    assert tapped(object()) is None
