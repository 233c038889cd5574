"""The cost of ``RecordEpisodes`` for a step that is not recorded, compared with Gymnasium's statistics wrapper.

Run it with ``python -m tests.benchmarks.bench_gym``.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from tests.benchmarks.common import compare, show
from tune_media.gym import RecordVectorEpisodes

SUB_ENVS, STEPS, LENGTH = 64, 600, 200


class Nothing(gym.vector.VectorEnv):
    """A vector env that does nothing; all its episodes have the same length."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    render_mode = "rgb_array"
    num_envs = SUB_ENVS
    single_observation_space = gym.spaces.Box(-1, 1, (2,))
    single_action_space = gym.spaces.Discrete(2)
    observation_space = gym.vector.utils.batch_space(single_observation_space, SUB_ENVS)
    action_space = gym.vector.utils.batch_space(single_action_space, SUB_ENVS)

    def __init__(self) -> None:
        self.steps = 0
        self.observations = np.zeros((SUB_ENVS, 2), np.float32)

    def reset(self, *, seed=None, options=None):
        return self.observations, {}

    def step(self, actions):
        self.steps += 1
        over = np.full(SUB_ENVS, self.steps % LENGTH == 0)
        return self.observations, np.ones(SUB_ENVS), over, np.zeros(SUB_ENVS, bool), {}


def play(env) -> None:
    actions = np.zeros(SUB_ENVS, int)
    env.reset()
    for _ in range(STEPS):
        env.step(actions)


def never(index: int) -> bool:
    return False


if __name__ == "__main__":
    envs = {
        "Gymnasium's RecordEpisodeStatistics": RecordEpisodeStatistics(Nothing()),
        "tune_media, collect=False": RecordVectorEpisodes(Nothing(), episode_trigger=never, collect=False),
        "tune_media, the data of all episodes": RecordVectorEpisodes(Nothing(), episode_trigger=never),
        "the env alone": Nothing(),
    }
    seconds = compare({name: lambda env=env: play(env) for name, env in envs.items()})
    show("A step of a sub-env that is not recorded", seconds, 1e6 / STEPS / SUB_ENVS, "us")
