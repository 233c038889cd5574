"""An env whose frames can be read back: each holds the number of its env, of its episode, and of its step."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np

_BLOCK, _BITS = 8, 16
_FIELDS = 4


class COUNTS(NamedTuple):
    """What a frame says."""

    env: int
    episode: int
    step: int
    agent: int


def draw_frame(counts: COUNTS, scale: int = 1) -> np.ndarray:
    """Draw the numbers as rows of black and white blocks, the lowest bit first."""
    bits = np.array([[(value >> bit) & 1 for bit in range(_BITS)] for value in counts], np.uint8)
    grey = np.kron(bits * 255, np.ones((_BLOCK * scale, _BLOCK * scale), np.uint8))
    return np.repeat(grey[:, :, None], 3, axis=2)


def read_frame(frame: np.ndarray) -> COUNTS:
    """Read the numbers back, from a frame of any size."""
    rows, columns = frame.shape[0] / _FIELDS, frame.shape[1] / _BITS
    values = []
    for row in range(_FIELDS):
        value = 0
        for bit in range(_BITS):
            y, x = int((row + 0.5) * rows), int((bit + 0.5) * columns)
            value |= int(frame[y, x].mean() > 127) << bit
        values.append(value)
    return COUNTS(*values)


class CountingEnv(gym.Env):
    """Episodes of 5 to 20 steps with random rewards; the frame is the same buffer every time.

    Config: ``length`` (fixed length), ``log_dir`` (each finished episode is written there), ``render_mode``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}  # noqa: RUF012

    def __init__(self, config: dict | None = None) -> None:
        config = dict(config or {})
        self.render_mode = config.get("render_mode", "rgb_array")
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.number = int.from_bytes(os.urandom(2), "little")
        self.episode = -1
        self.renders = 0
        self._length = config.get("length")
        self._log_dir = config.get("log_dir")
        self._buffer = draw_frame(COUNTS(0, 0, 0, 0))
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.episode += 1
        self.step_count = 0
        self.total = 0.0
        self.length = self._length or int(self._rng.integers(5, 21))
        return self._observation(), {}

    def step(self, action):
        self.step_count += 1
        reward = float(self._rng.normal())
        self.total += reward
        done = self.step_count >= self.length
        if done:
            self._log()
        return self._observation(), reward, done, False, {}

    def render(self):
        self.renders += 1
        if self.render_mode is None:
            return None
        self._buffer[:] = draw_frame(COUNTS(self.number, self.episode, self.step_count, 0))
        return self._buffer

    def _observation(self):
        return np.array([self.step_count / 20, 0], np.float32)

    def _log(self) -> None:
        if self._log_dir:
            line = {
                "env": self.number,
                "episode": self.episode,
                "length": self.step_count,
                "return": self.total,
                "pid": os.getpid(),
            }
            path = Path(self._log_dir) / f"{uuid.uuid4().hex}.json"
            path.write_text(json.dumps(line))
