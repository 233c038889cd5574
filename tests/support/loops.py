"""Loops over Gymnasium envs, and the files that they leave."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest


def play(env, episodes, seed=None):
    """Play whole episodes; return their (return, length)."""
    played = []
    for _ in range(episodes):
        env.reset(seed=seed)
        total, length, over = 0.0, 0, False
        while not over:
            _, reward, terminated, truncated, info = env.step(0)
            total, length, over = total + reward, length + 1, terminated or truncated
        assert info["episode"]["r"] == pytest.approx(total)
        assert info["episode"]["l"] == length
        played.append((total, length))
    return played


def stepped(env, steps, **reset):
    """Reset an env or a vector env, step it, and return what the last step returned."""
    env.reset(**reset)
    action = np.zeros(env.num_envs, int) if isinstance(env, gym.vector.VectorEnv) else 0
    for _ in range(steps):
        result = env.step(action)
    return result


def names(folder):
    """Return the names of the files directly in a folder."""
    return sorted(path.name for path in Path(folder).iterdir() if path.is_file())
