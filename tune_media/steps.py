"""What is known of a step, and what becomes of the numbers that users take from each step of an episode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class StepFacts:
    """A step of an episode.

    Attributes:
        step: Env steps since the reset; 0 at the reset frame.
        reward: Reward of this step, summed over agents; 0 at the reset frame.
        episode_return: Sum of the rewards so far.
        action: The action that led here; None at the reset frame.
        env: The sub-env, where it is in reach.
        info: The step's info dict; of several agents, a dict of these.
    """

    step: int
    reward: float
    episode_return: float
    action: Any = None
    env: Any = None
    info: Mapping[str, Any] = field(default_factory=dict)


Collect = Callable[[StepFacts], Mapping[str, Any]] | str | Sequence[str]
"""A function of the step that returns numbers by name, or the paths of numbers inside ``info``, as ``data/speed``."""


def check_collect(collect: Collect | None) -> None:
    """Refuse what is no ``collect``.

    Raises:
        TypeError: It is neither a function nor paths.
    """
    if collect is None or callable(collect):
        return
    paths = [collect] if isinstance(collect, str) else collect
    if not isinstance(paths, Sequence) or not paths or not all(isinstance(path, str) and path for path in paths):
        raise TypeError(
            f"collect= takes a function of the step that returns numbers by name, or paths inside info such as "
            f"'data/speed'; got {collect!r}."
        )


def collected(collect: Collect, facts: StepFacts) -> dict[str, float]:
    """Return the numbers that ``collect`` takes from a step; paths that an info dict does not have are left out.

    Raises:
        TypeError: Something that it takes is no number.
    """
    if callable(collect):
        return dict(_numbers(collect(facts), ""))
    paths = [collect] if isinstance(collect, str) else collect
    found = ((path, _at(facts.info, path)) for path in paths)
    return dict(_numbers({path: value for path, value in found if value is not None}, ""))


class Totals:
    """The running values of one episode: for each name their mean, sum, least, largest and last."""

    def __init__(self) -> None:
        self._values: dict[str, _Total] = {}

    def add(self, numbers: Mapping[str, float]) -> None:
        """Take in the numbers of a step."""
        for name, value in numbers.items():
            self._values.setdefault(name, _Total()).add(value)

    def metrics(self) -> dict[str, float]:
        """Return ``<name>_avg``, ``_sum``, ``_min``, ``_max`` and ``_last`` of each name."""
        return {f"{name}_{kind}": value for name, total in self._values.items() for kind, value in total.all().items()}


@dataclass
class _Total:
    count: int = 0
    total: float = 0.0
    least: float = math.inf
    largest: float = -math.inf
    last: float = math.nan

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.least, self.largest, self.last = min(self.least, value), max(self.largest, value), value

    def all(self) -> dict[str, float]:
        average = self.total / self.count
        return {"avg": average, "sum": self.total, "min": self.least, "max": self.largest, "last": self.last}


def _at(info: Any, path: str) -> Any:
    for part in path.split("/"):
        if not isinstance(info, Mapping) or part not in info:
            return None
        info = info[part]
    return info


def _numbers(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}/")
            continue
        array = np.asarray(value)
        if array.size != 1 or array.dtype.kind not in "biuf":
            raise TypeError(f"collect= takes numbers, and {prefix}{name} is {type(value).__name__} {value!r:.60}")
        yield f"{prefix}{name}", float(array.item())
