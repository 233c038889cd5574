"""Which episodes are recorded, decided before the first frame: triggers for ``trigger=``.

They are public as ``tune_media.selection.every`` and so on.
"""

from __future__ import annotations

import math
import numbers
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tune_media.values.calls import call_text
from tune_media.values.checks import Takes, a_count, above_0, between

EPISODES = Takes(
    "a whole number of episodes from 1",
    lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool),
    lambda value: bool(value > 0),
)
"""The values that a number of episodes to record or to choose takes."""
Trigger = Callable[[int], bool]
"""A function of the index of an episode on its sub-env (0, 1, ...) that returns whether to record the episode."""


def every(n: int, start: int = 0) -> Trigger:
    """Record every n-th episode of each sub-env, from the one with index ``start`` on.

    >>> [index for index in range(10) if every(4, start=1)(index)]
    [1, 5, 9]
    """
    EPISODES.check("every(n)", n)
    a_count("the index of an episode", -math.inf).check("every(n, start=...)", start)
    return _Every(int(n), start)


def first_episodes(n: int) -> Trigger:
    """Record the first n episodes of each sub-env.

    >>> [index for index in range(10) if first_episodes(3)(index)]
    [0, 1, 2]
    """
    EPISODES.check("first_episodes(n)", n)
    return _FirstEpisodes(int(n))


def sometimes(probability: float, seed: int | None = None) -> Trigger:
    """Record a random share of the episodes.

    Args:
        probability: The share, 0 to 1.
        seed: With a seed, every env runner draws the same random numbers.

    Raises:
        ValueError: ``probability`` is outside 0 to 1.
        TypeError: ``probability`` is not a number.

    Example:
        >>> trigger = sometimes(0.25, seed=1)
        >>> 20 < sum(trigger(index) for index in range(100)) < 30
        True
    """
    between(0, 1).check("sometimes(probability)", probability)
    a_count("a whole number", -math.inf, or_none=True).check("sometimes(seed=...)", seed)
    return _Sometimes(probability, seed)


@dataclass(frozen=True)
class RenderBudget:
    """A trigger that records as long as rendering and encoding take at most a share of the sampling time.

    With ``tune_media.gym``, the share is one of all the time that has passed since the env's first reset, including the
    time of training, because a wrapper cannot tell sampling from training.

    Attributes:
        share: The share, above 0 and at most 1; 0.05 is 5 %.

    Raises:
        ValueError: ``share`` is outside 0 to 1.
        TypeError: ``share`` is not a number.

    Example:
        >>> RenderBudget(0.05).allows(rendering_seconds=1.0, sampling_seconds=10.0)
        False
    """

    share: float

    def __post_init__(self) -> None:
        above_0(1).check("RenderBudget(share)", self.share)

    def allows(self, rendering_seconds: float, sampling_seconds: float) -> bool:
        """Return whether one more episode may be recorded; the first one may, since its cost is not known yet."""
        return rendering_seconds <= self.share * sampling_seconds


@dataclass(frozen=True, repr=False)
class _Every:
    n: int
    start: int

    def __call__(self, index: int) -> bool:
        return index >= self.start and (index - self.start) % self.n == 0

    def __repr__(self) -> str:
        return call_text("every", [self.n], {"start": self.start} if self.start else {})


@dataclass(frozen=True, repr=False)
class _FirstEpisodes:
    n: int

    def __call__(self, index: int) -> bool:
        return index < self.n

    def __repr__(self) -> str:
        return call_text("first_episodes", [self.n])


class _Sometimes:
    """A random trigger. Without a seed, every process that it is sent to draws other random numbers."""

    def __init__(self, probability: float, seed: int | None) -> None:
        self._probability, self._seed = probability, seed
        self._generator = random.Random(seed)

    def __call__(self, index: int) -> bool:
        return self._generator.random() < self._probability

    def __repr__(self) -> str:
        return call_text("sometimes", [self._probability], {} if self._seed is None else {"seed": self._seed})

    def __reduce__(self) -> tuple[Any, ...]:
        return _Sometimes, (self._probability, self._seed)
