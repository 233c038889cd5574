"""A natively vectorised env: one object with one render call that returns all frames."""

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from tests.support.envs.counting import CountingEnv


class Batch(gym.vector.VectorEnv):
    """A natively vectorised env: one object, one render call that returns all frames."""

    metadata = {"render_fps": 12, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, num_envs, config=None):
        self.num_envs = num_envs
        self.members = [CountingEnv(config) for _ in range(num_envs)]
        self.single_observation_space = self.members[0].observation_space
        self.single_action_space = self.members[0].action_space
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self.over = np.zeros(num_envs, bool)

    def reset(self, *, seed=None, options=None):
        self.over[:] = False
        return np.stack([member.reset()[0] for member in self.members]), {}

    def step(self, actions):
        results = []
        for member, over in zip(self.members, self.over, strict=True):
            results.append((member.reset()[0], 0.0, False, False, {}) if over else member.step(0))
        observations, rewards, terminations, truncations, _ = zip(*results, strict=True)
        self.over = np.array(terminations)
        return np.stack(observations), np.array(rewards), self.over.copy(), np.array(truncations), {}

    def render(self):
        return np.stack([member.render().copy() for member in self.members])
