"""A small env whose seed decides how lucky an episode is, and policies in files that say how well they aim."""

import json
from pathlib import Path
from typing import ClassVar

import gymnasium as gym
import numpy as np

STEPS = 3


class Aim(gym.Env):
    """Each step is rewarded by the action and by the seed's luck; the wind of ``env_config`` makes bold actions worse.

    Args:
        config: ``wind``: taken from the reward of each step, times the action. ``breaks_at``: the seed whose episode
            raises if the action is below 0.5. ``nan_at``: the seed whose reward is NaN then. ``says``: the values of
            success after the reset and after each step, instead of one in the last info that depends on luck.
    """

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, config=None, render_mode="rgb_array"):
        self.config, self.render_mode = dict(config or {}), render_mode
        self.observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
        self.action_space = gym.spaces.Box(-9, 9, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.step_count, self.luck = seed, 0, float(self.np_random.normal(10, 1))
        return np.array([self.luck], np.float32), self._says({})

    def step(self, action):
        aim = float(np.asarray(action).reshape(-1)[0])
        if aim < 0.5 and self.seed == self.config.get("breaks_at"):
            raise RuntimeError("the motor is hot")
        self.step_count += 1
        reward = self.luck + aim - self.config.get("wind", 0) * aim
        if aim < 0.5 and self.seed == self.config.get("nan_at"):
            reward = float("nan")
        is_over = self.step_count == STEPS
        info = {"success": bool(self.luck + aim > 10)} if is_over and self.config.get("tells", True) else {}
        return np.array([self.luck], np.float32), reward, is_over, False, self._says(info)

    def _says(self, info):
        says = self.config.get("says")
        return {"success": says[self.step_count]} if says else info

    def render(self):
        return np.full((32, 32, 3), int(10 * self.luck + 20 * self.step_count) % 256, np.uint8)


def make_env(config):
    return Aim(config)


def saved(folder, aim):
    """Write a policy that always aims so, and return its path."""
    path = Path(folder, f"aim_{aim}.json")
    path.write_text(json.dumps({"aim": aim}))
    return path


def saved_sweep(folder, *aims):
    """Make a folder an experiment with a trial for each aim, whose checkpoint is the policy's file."""
    for aim in aims:
        checkpoint = Path(folder, f"trial_{aim}", "checkpoint_000000")
        checkpoint.mkdir(parents=True)
        saved(checkpoint, aim)
        (checkpoint.parent / "params.json").write_text(json.dumps({"skill": aim}))
        (checkpoint.parent / "result.json").write_text(json.dumps({"training_iteration": 1, "score": aim}) + "\n")


def load_policy(path):
    aim = json.loads(Path(path).read_text())["aim"]
    return lambda observation: np.array([aim], np.float32)


def load_only_file(folder):
    """Load the policy of the only file of a folder."""
    (file,) = Path(folder).iterdir()
    return load_policy(file)
