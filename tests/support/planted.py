"""Small envs in which one known thing decides who wins, and policies for them, to be named in a command."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

STEPS = 6
_DECOYS = 6


class Planted(gym.Env[Any, Any]):
    """An env whose reward is the number of good actions and luck; ``env_config`` says what is planted.

    Args:
        config: ``cause``: what a good action does besides; ``wind``: a good action is a bad one if it is above 2.

    The decoys differ between policies, since they depend on all actions, and tell nothing.
    """

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 4}
    render_mode = "rgb_array"

    def __init__(self, config: dict[str, Any]) -> None:
        self.cause, self.wind = config.get("cause", ""), config.get("wind")
        self.text = config.get("text", "edge")
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.actions: list[int] = []
        self.start, self.luck = float(self.np_random.uniform()), float(self.np_random.normal())
        observation = np.array([self.start if self.cause == "observation" else 0.0, self.luck])
        return observation, {"friction": self.start} if self.cause == "info at the reset" else {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(int(action))
        is_turned = self.cause in ("observation", "info at the reset") and self.start > 0.5
        gain = float(action) * (-1 if is_turned or (self.wind is not None and self.wind > 2) else 1)
        good, is_last = sum(self.actions), len(self.actions) == STEPS
        luck = float(self.np_random.normal()) / 4
        decoys = [random.Random(f"{number} {self.luck} {self.actions}").gauss() for number in range(_DECOYS)]
        running: dict[str, float] = {"reward_luck": luck}
        running |= {f"decoy_{number}": value for number, value in enumerate(decoys)}
        final: dict[str, Any] = {}
        if self.cause == "reward term":
            running["reward_forward"] = gain
        if self.cause == "running value":
            running["speed"] = action + decoys[0] / 2
        if self.cause == "final value":
            final["clearance"] = good + decoys[1]
        if self.cause == "text" and is_last:
            final["ended"] = "goal" if good > STEPS // 2 else self.text
        terminated = self.cause == "length" and len(self.actions) > 1 and not any(self.actions[-2:])
        info: dict[str, Any] = {"data": {"running": running, "final": final}}
        if self.cause == "success":
            info["is_success"] = good > STEPS // 2
        return np.zeros(2), gain + luck, terminated, is_last and not terminated, info

    def render(self) -> Any:
        frame, at = np.full((48, 64, 3), 240, np.uint8), 6 * len(self.actions)
        frame[20:40, at : at + 8] = (200, 60, 40) if sum(self.actions) % 2 else (40, 90, 200)
        return frame


def make_env(env_config: dict[str, Any]) -> Planted:
    return Planted(dict(env_config))


def load_policy(folder: str) -> Callable[[Any], int]:
    """A policy that does the good thing as often as its file says, with draws of its own."""
    share, salt = Path(folder, "policy.txt").read_text().split(maxsplit=1)
    if share == "broken":
        raise RuntimeError("this policy has no weights")
    # the episode's seed has set Python's generator
    return lambda observation: int(random.Random(f"{salt} {random.random()}").random() < float(share))


def write_policy(folder: Path, share: float | str, salt: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "policy.txt").write_text(f"{share} {salt}")
    return folder
