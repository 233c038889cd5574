"""Seeded runs with and without the recorder, whose numbers and weights are compared.

The envs draw their rewards, their observations and the noise in their frames from one generator: a frame that is
rendered for the recorder, and whose numbers are not given back to the generator, changes the rest of the run.
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.callbacks import DefaultCallbacks, make_multi_callbacks
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.rllib_configs import STACK, built, evaluation, small

LEARN = {"train_batch_size": 64, "minibatch_size": 64, "num_epochs": 1}
ITERATIONS = 2
TAKES_TIME = ("time", "timer", "sec", "_ms", "perf", "throughput", "env_step")
BOTH = ("train", "evaluation")
_SEED = 7


@dataclass(frozen=True)
class Setting:
    """How a run is made.

    Attributes:
        runners: The number of env runners of the evaluation; 0: the algorithm's process evaluates.
        drawn_from: The generator of the env, which its ``render()`` uses, too; empty: its frames hold no noise.
        sections: What is recorded.
    """

    stack: str = "new"
    runners: int = 0
    sub_envs: int = 1
    drawn_from: str = ""
    sections: tuple[str, ...] = BOTH

    @property
    def name(self) -> str:
        of = "all" if self.sections == BOTH else "+".join(self.sections)
        return f"{self.stack}-{self.runners}-{self.sub_envs}-{self.drawn_from or 'plain'}-{of}"


_TRAIN = ("train",)
SETTINGS = (
    Setting("new", 0, 1, "random"),
    Setting("new", 0, 4, "np_random"),
    Setting("new", 1, 1, "numpy"),
    Setting("new", 1, 4, ""),
    Setting("old", 0, 1, "np_random"),
    Setting("old", 0, 4, "random"),
    Setting("old", 1, 1, ""),
    Setting("old", 1, 4, "numpy"),
    Setting("new", 0, 1, "random", _TRAIN),
    Setting("old", 0, 4, "random", _TRAIN),
)
"""Each stack, place of the evaluation, number of sub-envs and generator; the last two share the run without."""


class NoisyEnv(gym.Env):
    """An env whose ``step()`` and ``render()`` draw from the same generator, which ``drawn_from`` names."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: dict | None = None) -> None:
        self.render_mode = "rgb_array"
        self._drawn_from = (config or {}).get("drawn_from", "np_random")
        random.seed(_SEED)
        np.random.seed(_SEED)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._step, self._length = 0, 4 + int(4 * self._drawn())
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._step += 1
        return self._observation(), float(action) + self._drawn(), self._step >= self._length, False, {}

    def render(self) -> np.ndarray:
        frame = np.full((32, 32, 3), 16 * self._step % 256, np.uint8)
        frame[:, : int(32 * self._drawn())] = 255
        return frame

    def _observation(self) -> np.ndarray:
        return np.array([self._step, self._drawn()], np.float32)

    def _drawn(self) -> float:
        if self._drawn_from == "random":
            return random.random()
        return float(np.random.random() if self._drawn_from == "numpy" else self.np_random.random())


class OwnOld(DefaultCallbacks):
    def on_episode_end(self, *, episode: Any, **told: Any) -> None:
        episode.custom_metrics["pos"] = episode.total_reward


class OwnNew(RLlibCallback):
    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **told: Any) -> None:
        metrics_logger.log_value("pos", episode.get_return())


def recorder(render: str = "direct", sections: tuple[str, ...] = BOTH, *, strict: bool = True) -> Any:
    return tm.rllib.record_episodes(
        sections=sections,
        keep=("best", "worst"),
        collect=lambda step: {"r": step.reward},
        strict=strict,
        render=render,
    )


def run(stack: str, recorder: Any, runners: int, sub_envs: int = 1, drawn_from: str = "") -> list[dict]:
    """Return the results of a seeded run; the last one has the weights that it ends with, too."""
    config = small(
        PPOConfig,
        LEARN,
        NoisyEnv if drawn_from else CountingEnv,
        evaluation=evaluation(runners, 3),
        debugging={"seed": _SEED},
        env_runners={"num_envs_per_env_runner": sub_envs},
        **(STACK if stack == "old" else {}),
    )({"drawn_from": drawn_from} if drawn_from else {})
    own = OwnOld if stack == "old" else OwnNew
    both = [recorder, own] if recorder else [own]
    config.callbacks(make_multi_callbacks(both) if stack == "old" else both)
    with built(config) as algorithm:
        results = [algorithm.train() for _ in range(ITERATIONS)]
        weights = algorithm.get_weights()["default_policy"]
        results[-1]["weights"] = {name: float(np.abs(value).sum()) for name, value in weights.items()}
    return results


def numbers(result: dict) -> dict[str, float]:
    """Return the numbers of a result, but for those that measure time, by path."""
    found = {}
    sections = {"train": result["env_runners"], "evaluation": result["evaluation"]["env_runners"]}
    todo: list = list((sections | {"weights": result.get("weights", {})}).items())
    while todo:
        path, value = todo.pop()
        if any(word in path for word in TAKES_TIME) or path.endswith("/sample"):
            continue
        if isinstance(value, dict):
            todo += [(f"{path}/{key}", item) for key, item in value.items()]
        elif isinstance(value, (list, tuple)):
            todo += [(f"{path}/{index}", item) for index, item in enumerate(value)]
        elif isinstance(value, (int, float)) or getattr(value, "shape", None) == ():
            found[path] = float(value)
    return found


def changed(without: list[dict], with_it: list[dict]) -> list[str]:
    """Return each number of the run without the recorder that the other one does not have, or has otherwise."""
    lines = []
    for iteration, (plain, recorded) in enumerate(zip(without, with_it, strict=True), start=1):
        found = numbers(recorded)
        for path, value in sorted(numbers(plain).items()):
            if not math.isnan(value) and found.get(path) != value:
                lines.append(f"iteration {iteration}: {path} is {found.get(path)} instead of {value}")
    return lines


@functools.cache
def _without(stack: str, runners: int, sub_envs: int, drawn_from: str) -> list[dict]:
    return run(stack, None, runners, sub_envs, drawn_from)


def changed_by_recorder(setting: Setting) -> list[str]:
    """Run a setting with and without the recorder; return what is not the same."""
    where = (setting.runners, setting.sub_envs, setting.drawn_from)
    without = _without(setting.stack, *where)
    with_it = run(setting.stack, recorder("auto", setting.sections, strict=False), *where)
    assert any("pos" in path for path in numbers(without[0]))
    assert all(clips_of(result, setting.sections) for result in with_it), "nothing is recorded, so nothing is shown"
    return changed(without, with_it)


def clips_of(result: dict, sections: tuple[str, ...]) -> list[tm.Video]:
    """Return the clips of a result, of these sections."""
    by_section = {"train": result["env_runners"], "evaluation": result["evaluation"]["env_runners"]}
    found = [value for section in sections for value in by_section[section].get("episodes", {}).values()]
    return [value for value in found if isinstance(value, tm.Video)]
