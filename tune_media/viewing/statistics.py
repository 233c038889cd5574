"""Means and interquartile means over runs, with stratified bootstrap intervals, and differences with t intervals.

The first are the statistics of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
With few runs their intervals are too narrow to decide by: if two equal configurations have two runs each, a bootstrap
interval of the difference excludes zero in a third of the sweeps. Welch's t interval does so in one of twenty at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
RESAMPLES = 5000
_FEWEST_RESAMPLES = 500  # of many scores
_MAX_NUMBERS = 20_000_000  # that all resamples of some scores draw
_AT_ONCE = 1_000_000  # numbers
_TRIMMED = 0.25  # of the scores at each end

Scores = npt.NDArray[np.float64]
Statistic = Callable[[Scores], Scores]


@dataclass(frozen=True)
class Estimate:
    """A statistic and its 95 % interval.

    Attributes:
        value: The statistic.
        low: The lower end of the interval; NaN if there is one run only.
        high: The upper end.

    >>> Estimate(2.0, -1.0, 5.0).has_zero, Estimate(2.0, 1.0, 3.0).has_zero
    (True, False)
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def has_zero(self) -> bool:
        """Whether zero may be the true value: nobody can say if it is positive or negative."""
        return not (self.low > 0 or self.high < 0)


def mean(scores: Scores) -> Scores:
    """Return the mean over the last axis.

    >>> float(mean(np.array([1.0, 3.0])))
    2.0
    """
    return np.asarray(np.mean(scores, axis=-1))


def interquartile_mean(scores: Scores) -> Scores:
    """Return the mean of the middle half over the last axis: a quarter of the values is left out at each end.

    >>> float(interquartile_mean(np.array([1.0, 2.0, 4.0, 100.0])))
    3.0
    """
    count = scores.shape[-1]
    cut = int(_TRIMMED * count)
    return np.asarray(np.mean(np.sort(scores, axis=-1)[..., cut : count - cut], axis=-1))


def estimate(scores: Scores, statistic: Statistic = mean) -> Estimate:
    """Return a statistic of the scores of some runs, with a percentile bootstrap interval over the runs.

    Args:
        scores: The scores, of shape (runs,) or (runs, tasks). The bootstrap is stratified: it draws runs for each task.
        statistic: ``mean`` or ``interquartile_mean``, of all scores together.

    >>> estimate(np.array([1.0, 2.0, 3.0])).value, estimate(np.array([1.0])).high
    (2.0, nan)
    """
    table = scores[:, None] if scores.ndim == 1 else scores
    value = float(statistic(table.reshape(-1)))
    if len(table) < 2:
        return Estimate(value)
    return Estimate(value, *interval(resampled(table, statistic)))


def resampled(table: Scores, statistic: Statistic) -> Scores:
    """Return a statistic of many bootstrap samples of the scores of some runs.

    Args:
        table: The scores, of shape (runs, tasks).
        statistic: Of all scores together.

    Returns:
        An array of shape (samples,). There are 5,000 samples, and fewer of more than 4,000 scores.

    >>> resampled(np.ones((3, 1)), mean).shape
    (5000,)
    """
    runs, tasks = table.shape
    size, random = runs * tasks, np.random.default_rng(0)
    left = max(_FEWEST_RESAMPLES, min(RESAMPLES, _MAX_NUMBERS // size))
    parts = []
    while left:
        count = min(left, max(1, _AT_ONCE // size))
        draws = random.integers(0, runs, (count, runs, tasks))
        parts.append(statistic(table[draws, np.arange(tasks)].reshape(count, size)))
        left -= count
    return np.concatenate(parts)


def interval(samples: Scores) -> tuple[float, float]:
    """Return the ends of the 95 % percentile interval of bootstrap samples.

    >>> interval(np.arange(1001.0))
    (25.0, 975.0)
    """
    low, high = np.quantile(samples, [round((1 - LEVEL) / 2, 6), round((1 + LEVEL) / 2, 6)])
    return float(low), float(high)


def difference(first: Scores, second: Scores) -> Estimate:
    """Return how much larger the mean of some runs is than that of others, with Welch's t interval.

    Args:
        first: Scores of shape (runs,) or (runs, tasks); the mean is over all tasks.
        second: The others'; they may have another number of runs.

    >>> difference(np.array([3.0, 3.0]), np.array([1.0, 1.0]))
    Estimate(value=2.0, low=2.0, high=2.0)
    """
    tables = [scores[:, None] if scores.ndim == 1 else scores for scores in (first, second)]
    value = float(np.mean(tables[0]) - np.mean(tables[1]))
    if min(map(len, tables)) < 2:
        return Estimate(value)
    tasks = tables[0].shape[1]
    variances = [np.var(table, axis=0, ddof=1) / len(table) / tasks**2 for table in tables]
    freedoms = [np.full(tasks, len(table) - 1) for table in tables]
    return _with_t_interval(value, np.concatenate(variances), np.concatenate(freedoms))


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> tuple[Estimate, int]:
    """Return how much larger the first scores are on the same seeds, with Student's t interval over the seeds.

    Args:
        first: A score for each evaluation seed.
        second: The other's. Seeds that only one has are left out.

    Returns:
        The mean difference, and the number of common seeds.

    >>> paired_difference({1: 5.0, 2: 7.0, 3: 0.0}, {1: 4.0, 2: 6.0})
    (Estimate(value=1.0, low=1.0, high=1.0), 2)
    """
    common = sorted(first.keys() & second.keys())
    if not common:
        return Estimate(math.nan), 0
    pairs = np.array([first[seed] - second[seed] for seed in common])
    value, count = float(np.mean(pairs)), len(common)
    if count < 2:
        return Estimate(value), count
    return _with_t_interval(value, np.array([np.var(pairs, ddof=1) / count]), np.array([count - 1])), count


def _with_t_interval(value: float, variances: Scores, freedoms: npt.NDArray[np.int64]) -> Estimate:
    """Return a sum of means with its t interval: the variance of each mean, and its degrees of freedom."""
    variance = float(np.sum(variances))
    if variance == 0:
        return Estimate(value, value, value)
    freedom = 1 / float(np.sum((variances / variance) ** 2 / freedoms))  # Welch and Satterthwaite
    half = _t_quantile(freedom) * math.sqrt(variance)
    return Estimate(value, value - half, value + half)


def _t_quantile(freedom: float) -> float:
    """Return how many standard errors from zero the 95 % interval of Student's t distribution ends.

    >>> round(_t_quantile(1), 2), round(_t_quantile(4.5), 3), round(_t_quantile(1e9), 2)
    (12.71, 2.659, 1.96)
    """
    freedom = min(freedom, 10_000)
    angles = np.linspace(0, math.pi / 2, 20_001)  # of t / sqrt(freedom), which make the density a power of a cosine
    density = np.cos(angles) ** (freedom - 1)
    mass = np.append(0.0, np.cumsum(density[1:] + density[:-1]))
    return math.sqrt(freedom) * math.tan(np.interp(LEVEL, mass / mass[-1], angles))
