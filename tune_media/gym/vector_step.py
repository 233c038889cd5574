"""One step of a vector env, taken apart sub-env by sub-env, and the layout of Gymnasium's vector infos."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from tune_media.gym.episode_statistics import KEY
from tune_media.values.convert import as_array


class VectorStep:
    """The observations, actions (None after a reset) and infos of one step or reset, by sub-env."""

    def __init__(self, env: gym.vector.VectorEnv, observations: Any, infos: Any, actions: Any) -> None:
        self._env, self._observations, self._infos, self._actions = env, observations, infos, actions
        self._each_observation: list[Any] | None = None
        self._each_action: list[Any] | None = None
        self._few: Any = None  # the infos that ``few`` takes apart

    def observation(self, index: int) -> Any:
        """Return the observation of a sub-env."""
        if self._each_observation is None:
            self._each_observation = list(gym.vector.utils.iterate(self._env.observation_space, self._observations))
        return self._each_observation[index]

    def action(self, index: int) -> Any:
        """Return the action of a sub-env."""
        if self._each_action is None:
            self._each_action = list(gym.vector.utils.iterate(self._env.action_space, self._actions))
        return self._each_action[index]

    def info(self, index: int) -> Any:
        """Return the info of a sub-env."""
        return nth_info(self._infos, index)

    def few(self, index: int, names: Collection[str]) -> Any:
        """Return the values with these names, of each call the same, of the info of a sub-env; or all of the info."""
        if self._few is None:
            is_whole, keys = not isinstance(self._infos, dict), (key for name in names for key in (name, f"_{name}"))
            self._few = self._infos if is_whole else {key: self._infos[key] for key in keys if key in self._infos}
        return nth_info(self._few, index) if self._few else None

    def final_observation(self, index: int) -> Any:
        """Return the last observation of an episode if its sub-env was reset in the same step; None if it is lost."""
        final = self._infos.get("final_obs") if isinstance(self._infos, dict) else None
        return None if final is None else final[index]

    def final_info(self, index: int) -> Any:
        """Return the last info of an episode if its sub-env was reset in the same step."""
        info = self.info(index) or {}
        return info.get("final_info", info)


def nth_info(infos: Any, index: int) -> Any:
    """Return the info of one sub-env from a list of infos, or from Gymnasium's dict of arrays with masks ``_<name>``.

    >>> nth_info({"speed": np.array([1.0, 2.0]), "_speed": np.array([True, False])}, 0) == {"speed": 1.0}
    True
    >>> nth_info({"speed": np.array([1.0, 2.0]), "_speed": np.array([True, False])}, 1)
    {}
    """
    if not isinstance(infos, dict):
        return infos[index]
    sub_info = {}
    for name, value in infos.items():
        if str(name).startswith("_"):
            continue
        is_there = True if (mask := infos.get(f"_{name}")) is None else mask[index]
        if not (is_there if isinstance(is_there, (bool, np.bool_)) else np.all(as_array(is_there))):
            continue
        if isinstance(value, dict):
            sub_info[name] = nth_info(value, index)
        elif (isinstance(value, (list, tuple)) or getattr(value, "shape", None)) and len(value) > index:
            sub_info[name] = value[index]
        else:  # one value for all sub-envs
            sub_info[name] = value
    return sub_info


def with_statistics(infos: Any, ended: Mapping[int, Mapping[str, Any]], count: int) -> Any:
    """Return the infos (a list, or Gymnasium's dict) with the statistics of the episodes that just ended.

    >>> infos = with_statistics({}, {1: {"r": 3.0, "l": 2, "t": 0.1}}, count=2)
    >>> infos["episode"]["r"].tolist(), infos["_episode"].tolist()
    ([0.0, 3.0], [False, True])
    """
    if not isinstance(infos, dict):
        return [{**info, KEY: dict(ended[index])} if index in ended else info for index, info in enumerate(infos)]
    mask = np.zeros(count, bool)
    mask[list(ended)] = True
    arrays = {}
    for name, kind in (("r", float), ("l", int), ("t", float)):
        values = {index: np.asarray(statistics[name], kind) for index, statistics in ended.items()}
        arrays[name] = np.zeros((count, *next(iter(values.values())).shape), kind)
        for index, value in values.items():
            arrays[name][index] = value
    return {**infos, KEY: arrays, f"_{KEY}": mask}
