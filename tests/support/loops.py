"""Loops over Gymnasium envs, and the files that they leave."""

from pathlib import Path

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


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())
