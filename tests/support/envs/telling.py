"""An env that tells numbers of its steps in its info, and writes them to a file of its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.support.envs.counting import CountingEnv


class TellingEnv(CountingEnv):
    """A CountingEnv with ``info["data"]`` and ``info["media"]``; each finished episode is a file in ``log_dir``."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        self.told = {"speed": [], "track": [], "reward": []}
        return observation, info

    def step(self, action):
        observation, reward, over, truncated, info = super().step(action)
        speed = float(np.random.default_rng().normal())
        track = [speed, float(self.counter.step_count)]
        goals = self.counter.step_count // 3
        self.told["speed"].append(speed)
        self.told["track"].append(track)
        self.told["reward"].append(reward)
        if over:
            section = "evaluation" if self.counter.config.get("evaluation") else "train"
            self.counter.write({**self.told, "goals": goals}, f".{section}-told")
        info = {"media": {"track": track}, "data": {"running": {"speed": speed}, "final": {"goals": goals}}}
        return observation, reward, over, truncated, info


def told_by(log_dir: Path, section: str) -> list[dict]:
    """Return what the envs of a section wrote, ordered by return."""
    found = [json.loads(path.read_text()) for path in Path(log_dir).glob(f"*.{section}-told")]
    return sorted(found, key=lambda told: told["return"])
