"""Functions that ``tune-media render`` is told by name."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def without_rllib(env: Any) -> np.ndarray:
    """Render, in a process that has not imported RLlib."""
    assert "ray.rllib" not in sys.modules
    return env.render()


def larger(config: dict) -> Any:
    """Make CartPole with a screen of twice the size."""
    import gymnasium as gym

    env = gym.make("CartPole-v1", **config)
    env.unwrapped.screen_width, env.unwrapped.screen_height = 1200, 800
    return env
