"""The envs in which recording is measured: their episodes have a fixed length."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym

ENVS = {
    "CartPole": ("CartPole-v1", 200),
    "Breakout": ("ALE/Breakout-v5", 200),
    "HalfCheetah": ("HalfCheetah-v5", 15),
}
"""The name of each env and the number of steps of an episode; a frame of HalfCheetah takes 100 times as long."""


class Endless(gym.Wrapper):
    """Never ends an episode, so that a time limit gives all episodes the same length.

    If the env ends one, it is reset: the cart of CartPole would leave the numbers that pygame can draw.
    """

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            observation, info = self.env.reset()
        return observation, reward, False, False, info


def make_env(name: str, steps: int) -> gym.Env:
    """Return an env that renders and whose episodes have this many steps."""
    os.environ.setdefault("MUJOCO_GL", "osmesa")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if name == "Breakout":
        import ale_py

        gym.register_envs(ale_py)
    env = gym.make(ENVS[name][0], render_mode="rgb_array", max_episode_steps=10**9)
    return gym.wrappers.TimeLimit(Endless(env), steps)
