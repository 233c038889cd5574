"""The uncertainty of a mean over episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_RESAMPLES = 10_000
_MAX_NUMBERS = 20_000_000  # that all resamples draw
_FEWEST_RESAMPLES = 500


def mean_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Return the interval in which the mean lies with this confidence: the percentile bootstrap over the values.

    The same values give the same interval. A single value tells nothing of the uncertainty.

    Args:
        values: Finite numbers, such as the returns of episodes.
        level: The confidence.

    Example:
        >>> low, high = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
        >>> (round(low, 1), round(high, 1))
        (1.8, 4.2)
        >>> mean_interval([3.0])
        (nan, nan)
    """
    numbers = np.asarray(values, np.float64)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return math.nan, math.nan
    count = max(_FEWEST_RESAMPLES, min(_RESAMPLES, _MAX_NUMBERS // len(numbers)))
    generator = np.random.default_rng(0)
    parts = np.array_split(np.arange(count), max(1, count * len(numbers) // 1_000_000))
    means = [numbers[generator.integers(len(numbers), size=(len(part), len(numbers)))].mean(axis=1) for part in parts]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
