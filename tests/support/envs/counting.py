"""An env whose frames can be read back: each holds the number of its env, of its episode, and of its step."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np

_BLOCK, _BITS = 8, 24
_FIELDS = 4


class COUNTS(NamedTuple):
    """What a frame says."""

    env: int
    episode: int
    step: int
    agent: int


def draw_frame(counts: COUNTS) -> np.ndarray:
    """Draw the numbers as rows of black and white blocks, the lowest bit first."""
    bits = np.array([[(value >> bit) & 1 for bit in range(_BITS)] for value in counts], np.uint8)
    grey = np.kron(bits * 255, np.ones((_BLOCK, _BLOCK), np.uint8))
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


class Counter:
    """Counts episodes and steps, draws them, and writes each finished episode to a file of its own.

    Config: ``length`` (fixed length), ``log_dir``, ``render_mode``, ``pause`` (seconds that a step takes), ``fail_at``
    (the step at which it raises, twice in a run), ``die_at`` (the step at which its process dies, once in a run).
    """

    def __init__(self, config: dict | None) -> None:
        self.config = dict(config or {})
        self.number = int.from_bytes(os.urandom(3), "little")
        self.episode, self.step_count, self.renders = -1, 0, 0
        self._buffer = draw_frame(COUNTS(0, 0, 0, 0))
        self._rng = np.random.default_rng()

    def reset(self, seed: int | None) -> None:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.episode += 1
        self.step_count, self.total = 0, 0.0
        self.length = self.config.get("length") or int(self._rng.integers(5, 21))

    def step(self) -> tuple[float, bool]:
        """Return the reward of the step and whether it was the last."""
        self.step_count += 1
        if pause := self.config.get("pause"):
            time.sleep(pause)
        if self.step_count == self.config.get("fail_at") and self._first_times("failed", 2):
            raise RuntimeError("the env fails, as it was told to")
        if self.step_count == self.config.get("die_at") and self._first_times("died", 1):
            os._exit(1)
        reward = float(self._rng.normal())
        self.total += reward
        over = self.step_count >= self.length
        if over and self.config.get("log_dir"):
            self.write({"env": self.number, "episode": self.episode}, ".json")
        return reward, over

    def write(self, facts: dict, suffix: str) -> None:
        """Write facts of the episode that has ended, and its length and return, to a file of its own in ``log_dir``."""
        line = {**facts, "length": self.step_count, "return": self.total}
        (Path(self.config["log_dir"]) / f"{uuid.uuid4().hex}{suffix}").write_text(json.dumps(line))

    def render(self, agent: int = 0) -> np.ndarray | None:
        """Draw into the buffer that every frame is drawn into."""
        self.renders += 1
        if self.config.get("render_mode", "rgb_array") is None:
            return None
        self._buffer[:] = draw_frame(COUNTS(self.number, self.episode, self.step_count, agent))
        return self._buffer

    def _first_times(self, what: str, times: int) -> bool:
        """Return whether this is one of the first times, over all envs of a run."""
        for turn in range(times):
            try:  # atomically: env runners come here at the same time
                (Path(self.config["log_dir"]) / f"{what}-{turn}").touch(exist_ok=False)
            except FileExistsError:
                continue
            return True
        return False


class CountingEnv(gym.Env):
    """Episodes of 5 to 20 steps with random rewards; the frame is the same buffer every time."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}  # noqa: RUF012
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: dict | None = None) -> None:
        self.counter = Counter(config)
        self.render_mode = self.counter.config.get("render_mode", "rgb_array")
        self.task = 0

    def __getattr__(self, name: str):
        if name in ("number", "episode", "length", "total", "renders"):
            return getattr(self.counter, name)
        raise AttributeError(name)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        self.counter.reset(seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        reward, over = self.counter.step()
        return np.zeros(2, np.float32), reward, over, False, {}

    def render(self):
        return self.counter.render()

    def get_task(self):
        return self.task

    def set_task(self, task):
        self.task = task
