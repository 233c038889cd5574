"""Which episodes are recorded, decided before the first frame: triggers for ``trigger=``.

They are public as ``tune_media.selection.every`` and so on.
"""

from __future__ import annotations

import numbers
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Trigger = Callable[[int], bool]
"""A function of the index of an episode on its sub-env (0, 1, ...) that returns whether to record the episode."""


def every(n: int, start: int = 0) -> Trigger:
    """Record every n-th episode of each sub-env, from the one with index ``start`` on.

    >>> [index for index in range(10) if every(4, start=1)(index)]
    [1, 5, 9]
    """
    check_positive("every", n, "n")
    if not isinstance(start, numbers.Integral) or isinstance(start, bool):
        raise TypeError(f"every(n, start=...) takes the index of an episode, got {start!r}.")
    return lambda index: index >= start and (index - start) % n == 0


def first_episodes(n: int) -> Trigger:
    """Record the first n episodes of each sub-env.

    >>> [index for index in range(10) if first_episodes(3)(index)]
    [0, 1, 2]
    """
    check_positive("first_episodes", n)
    return lambda index: index < n


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
    if not isinstance(probability, numbers.Real):
        raise TypeError(f"sometimes(probability) takes a number in 0..1, got {probability!r}.")
    if not 0 <= probability <= 1:
        raise ValueError(f"sometimes(probability) needs a probability in 0..1, got {probability!r}.")
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
        if not isinstance(self.share, numbers.Real):
            raise TypeError(f"RenderBudget(share) takes a number in 0..1, got {self.share!r}.")
        if not 0 < self.share <= 1:
            raise ValueError(f"RenderBudget(share) needs a share in 0..1, got {self.share!r}.")

    def allows(self, rendering_seconds: float, sampling_seconds: float) -> bool:
        """Return whether one more episode may be recorded; the first one may, since its cost is not known yet."""
        return rendering_seconds <= self.share * sampling_seconds


class _Sometimes:
    """A random trigger. Without a seed, every process that it is sent to draws other random numbers."""

    def __init__(self, probability: float, seed: int | None) -> None:
        self._probability, self._seed = probability, seed
        self._generator = random.Random(seed)

    def __call__(self, index: int) -> bool:
        return self._generator.random() < self._probability

    def __reduce__(self) -> tuple[Any, ...]:
        return _Sometimes, (self._probability, self._seed)


def check_positive(name: str, count: object, letter: str = "k") -> None:
    """Check a number of episodes that a user passed to the function ``name``.

    Raises:
        TypeError: It is not a whole number.
        ValueError: It is below 1.
    """
    if not isinstance(count, numbers.Integral) or isinstance(count, bool):
        raise TypeError(f"{name}({letter}) takes a whole number of episodes, {letter} >= 1, got {count!r}.")
    if int(count) < 1:
        raise ValueError(f"{name}({letter}) needs {letter} >= 1, got {count!r}.")
