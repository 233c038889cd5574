"""Envs whose pictures, or whose episodes, do not follow from their resets and actions."""

import os
import signal
import time

import gymnasium as gym
import numpy as np


class Plain(gym.Env):
    """Shows a number that it drew in its reset, and the number of the step."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, config=None):
        self.config, self.episodes, self.count = dict(config or {}), 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes, self.count = self.episodes + 1, 0
        self.drawn = int(self.np_random.integers(200))
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(2, np.float32), 1.0, self.count == 5, False, {}

    def shade(self):
        return self.drawn

    def render(self):
        picture = np.full((16, 16, 3), self.shade(), np.uint8)
        picture[0, 0] = self.count
        return picture


class CountsEpisodes(Plain):
    """Its pictures show the number of the episode."""

    def shade(self):
        return self.episodes


class ShowsTheClock(Plain):
    """Its pictures show the time."""

    def shade(self):
        return time.monotonic_ns() // 1000 % 251


class DrawsFromTheSystem(Plain):
    """Its observations come from a generator that no seed reaches."""

    def step(self, action):
        _, *rest = super().step(action)
        return np.frombuffer(os.urandom(8), np.float32), *rest


class HasNoPicture(Plain):
    """Returns no frame."""

    def render(self):
        return None


class CannotBeMade(Plain):
    """Can be made in one process only."""

    def __init__(self, config=None):
        super().__init__(config)
        if os.getpid() != self.config["process"]:
            raise OSError("the port is taken")


class DiesElsewhere(Plain):
    """Ends any process but the one that made it first, as for want of memory."""

    def step(self, action):
        if os.getpid() != self.config["process"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)
