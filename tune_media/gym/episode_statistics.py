"""Return, length and duration of episodes, as Gymnasium's ``RecordEpisodeStatistics`` keeps them."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tune_media.values.convert import as_array

Reward: TypeAlias = "float | npt.NDArray[np.float64]"
"""One number, or a vector of them (MO-Gymnasium), one for each objective."""

KEY = "episode"  # of an episode's statistics in ``info``


class EpisodeStatistics:
    """The statistics of the running episodes of each sub-env, and of the last ``buffer_length`` that ended."""

    def __init__(self, count: int, buffer_length: int | None) -> None:
        self.returns: list[Reward] = [0.0] * count  # so far, of each running episode; vectors if rewards are
        self.lengths = [0] * count  # steps so far of each
        self.episode_count = 0  # episodes that ended
        self.return_queue: deque[Reward] = deque(maxlen=buffer_length)
        self.length_queue: deque[int] = deque(maxlen=buffer_length)
        self.time_queue: deque[float] = deque(maxlen=buffer_length)
        self._started = [time.perf_counter()] * count

    def begin(self, index: int) -> None:
        """Start an episode of a sub-env."""
        self.returns[index], self.lengths[index] = 0.0, 0
        self._started[index] = time.perf_counter()

    def add(self, index: int, reward: Reward) -> None:
        """Count a step of a sub-env."""
        self.returns[index] = self.returns[index] + reward  # a new array: += would change the one that the env holds
        self.lengths[index] += 1

    def end(self, index: int) -> dict[str, Any]:
        """End a sub-env's episode: return its return ``r``, length ``l`` in steps and duration ``t`` in seconds."""
        episode_return, length = self.returns[index], self.lengths[index]
        duration = round(time.perf_counter() - self._started[index], 6)
        self.return_queue.append(episode_return)
        self.length_queue.append(length)
        self.time_queue.append(duration)
        self.episode_count += 1
        return {"r": episode_return, "l": length, "t": duration}


def as_reward(reward: Any) -> Reward:
    """Return a reward as a float, or as a vector of floats if it has several components. Raises TypeError."""
    if isinstance(reward, (float, int)) or not np.ndim(reward):
        return float(reward)
    vector = np.array(as_array(reward), np.float64)
    return float(vector.item()) if vector.size == 1 else vector


def total(reward: Reward) -> float:
    """Return a reward or a return as one number: the sum of its components."""
    return reward if isinstance(reward, float) else float(np.sum(reward))


def by_objective(episode_return: Reward) -> dict[str, float]:
    """Return the components of a vector return as metrics ``return/0``, ``return/1``, ...; none if it is a number."""
    components = episode_return.ravel() if isinstance(episode_return, np.ndarray) else ()
    return {f"return/{index}": float(value) for index, value in enumerate(components)}
