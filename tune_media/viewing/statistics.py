"""Statistics over runs: means and their differences, with t intervals.

The interval of a mean is Student's, which covers the true mean of 95 % of configurations with two runs as with ten; a
percentile bootstrap covers that of 52 % with two runs and of 84 % with five. Configurations are compared with variances
that borrow one degree of freedom from all of them: with three runs each, variances of one configuration alone decide
hardly anything, and variances of all together are wrong where one is steady and another is not. The interquartile mean
keeps the bootstrap of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
`tests/benchmarks/bench_statistics.py` simulates coverage, error and power.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tune_media.values.rates import wilson

LEVEL = 0.95
_NOISE = 1e-10  # of the largest score: what sums of floats differ by
_RESAMPLES = 5000
_FEWEST_RESAMPLES = 500  # of many scores
_MAX_NUMBERS = 20_000_000  # that all resamples of some scores draw
_AT_ONCE = 1_000_000  # numbers
_TRIMMED = 0.25  # of the scores at each end

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A statistic and its 95 % interval.

    Attributes:
        low: The lower end of the interval; NaN if there is one run only.

    >>> Estimate(2.0, -1.0, 5.0).has_zero, Estimate(2.0, 1.0, 3.0).has_zero
    (True, False)
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def has_zero(self) -> bool:
        """Whether zero may be the true value: its sign is unknown."""
        return not (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Spread:
    """How far the runs of a configuration lie from its mean.

    Attributes:
        variance: The variance that one run contributes to the mean; the mean's is this divided by the runs.
        freedom: The degrees of freedom of the variance.
    """

    mean: float
    variance: float
    freedom: float
    runs: int


def interquartile_mean(scores: Scores) -> Scores:
    """Return the mean of the middle half over the last axis: a quarter of the values is left out at each end.

    >>> float(interquartile_mean(np.array([1.0, 2.0, 4.0, 100.0])))
    3.0
    """
    count = scores.shape[-1]
    cut = int(_TRIMMED * count)
    return np.asarray(np.mean(np.sort(scores, axis=-1)[..., cut : count - cut], axis=-1))


def estimate(scores: Scores) -> Estimate:
    """Return the mean of the scores of some runs, with Student's t interval over the runs.

    Args:
        scores: The scores, of shape (runs,) or (runs, tasks). The interval is stratified: tasks of different height do
            not widen it.

    >>> estimate(np.array([1.0, 2.0, 3.0])).value, estimate(np.array([1.0])).high
    (2.0, nan)
    """
    (spread,) = spreads([scores], borrowed=0)
    return _estimate(spread.mean, [spread], _largest([scores]))


def interquartile(scores: Scores) -> Estimate:
    """Return the interquartile mean of the scores of some runs, with a percentile bootstrap interval over the runs.

    Args:
        scores: The scores, of shape (runs,) or (runs, tasks). The bootstrap is stratified: it draws runs for each task.
            There are 5,000 samples, and fewer of more than 4,000 scores.

    >>> interquartile(np.array([1.0, 2.0, 4.0, 100.0])).value
    3.0
    """
    table = _table(scores)
    value = float(interquartile_mean(table.reshape(-1)))
    runs, tasks = table.shape
    if runs < 2:
        return Estimate(value)
    size, random = runs * tasks, np.random.default_rng(0)
    left = max(_FEWEST_RESAMPLES, min(_RESAMPLES, _MAX_NUMBERS // size))
    parts = []
    while left:
        count = min(left, max(1, _AT_ONCE // size))
        draws = random.integers(0, runs, (count, runs, tasks))
        parts.append(interquartile_mean(table[draws, np.arange(tasks)].reshape(count, size)))
        left -= count
    low, high = np.quantile(np.concatenate(parts), [round((1 - LEVEL) / 2, 6), round((1 + LEVEL) / 2, 6)])
    return Estimate(value, float(low), float(high))


def spreads(tables: Sequence[Scores], borrowed: int = 1, largest: float | None = None) -> list[Spread]:
    """Return how far the runs of each configuration lie from its mean.

    Args:
        tables: The scores of each configuration, of shape (runs,) or (runs, tasks), with the same tasks.
        borrowed: The degrees of freedom that each variance takes from the mean variance of all configurations.
        largest: The score whose rounding counts as no spread, if it is not in the tables. None: each one's largest.

    >>> [spread.variance for spread in spreads([np.array([1.0, 3.0]), np.array([2.0, 2.0])])]
    [1.5, 0.5]
    """
    shaped = [_table(scores) for scores in tables]
    freedoms = [len(table) - 1 for table in shaped]
    found = []
    with np.errstate(over="ignore", invalid="ignore"):  # of a score near the largest number: it has no interval
        own = [_own_variances(table, _largest([table]) if largest is None else largest) for table in shaped]
        counting = [(of, n) for of, n in zip(own, freedoms, strict=True) if n and np.all(np.isfinite(of))]
        shared = np.zeros(shaped[0].shape[1])
        if borrowed and counting:
            shared = np.average([of for of, _ in counting], axis=0, weights=[n for _, n in counting])
        for table, variance, freedom in zip(shaped, own, freedoms, strict=True):
            tasks, degrees = table.shape[1], freedom + borrowed
            of_tasks = (borrowed * shared + freedom * variance) / max(1, degrees) / tasks**2
            total = float(np.sum(of_tasks))
            degrees_of_sum = float(degrees * tasks)
            if 0 < total < math.inf:  # Welch and Satterthwaite: the degrees of freedom of a sum of variances
                degrees_of_sum = degrees / float(np.sum((of_tasks / total) ** 2))
            found.append(Spread(float(np.mean(table)), total, degrees_of_sum, len(table)))
    return found


def _own_variances(table: Scores, largest: float) -> Scores:
    """Return the variance of each task over the runs; what may be rounding of the largest score is nothing."""
    if len(table) < 2:
        return np.zeros(table.shape[1])
    variances = np.var(table, axis=0, ddof=1)
    return np.where(np.sqrt(variances) <= _NOISE * largest, 0.0, variances)


def differences(tables: Sequence[Scores]) -> list[Estimate]:
    """Return how much larger the mean of the first configuration is than that of each other one, with t intervals.

    Who calls the first the best if it is ahead of each other one by an interval above zero is wrong in one of twenty
    sweeps at most, however many configurations there are: the two highest of several equal ones lie close together. If
    the two best are three times as noisy as the others, it is one of fourteen, and with three runs of each up to one of
    ten.

    Args:
        tables: The scores of each configuration, of shape (runs,) or (runs, tasks); they may have several numbers of
            runs. One with a single run has no interval.

    >>> differences([np.array([3.0, 3.0]), np.array([1.0, 1.0])])
    [Estimate(value=2.0, low=2.0, high=2.0)]
    """
    first, *others = spreads(tables)
    most = float(sum(np.size(table) - _table(table).shape[1] for table in tables))
    return [
        _estimate(first.mean - other.mean, [first, other], _largest([tables[0], table]), most)
        for other, table in zip(others, tables[1:], strict=True)
    ]


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
    ours, theirs = (np.array([scores[seed] for seed in common]) for scores in (first, second))
    largest = _largest([ours, theirs])
    (spread,) = spreads([ours - theirs], borrowed=0, largest=largest)
    return _estimate(spread.mean, [spread], largest), len(common)


def paired_rates(first: Mapping[int, bool], second: Mapping[int, bool]) -> tuple[Estimate, int]:
    """Return how much larger the first success rate is on the same seeds, with Newcombe's interval for paired rates.

    It is made of the Wilson intervals of both rates and of their correlation (method 10 of Newcombe, Statistics in
    Medicine 17, 1998), so that 40 of 40 beside 40 of 40 is no certain tie.

    Args:
        first: For each evaluation seed whether the episode succeeded.
        second: The other's. Seeds that only one has are left out.

    Returns:
        The difference of the rates, and the number of common seeds.

    >>> estimate, seeds = paired_rates(dict.fromkeys(range(40), True), dict.fromkeys(range(40), False))
    >>> estimate.value, round(estimate.low, 2), seeds
    (1.0, 0.88, 40)
    """
    common = first.keys() & second.keys()
    total = len(common)
    if not total:
        return Estimate(math.nan), 0
    both = sum(first[seed] and second[seed] for seed in common)
    ours, theirs = (sum(own[seed] for seed in common) for own in (first, second))
    neither = total - ours - theirs + both
    product = both * neither - (ours - both) * (theirs - both)
    scale = math.sqrt(ours * (total - ours) * theirs * (total - theirs))
    correlation = (max(product - total / 2, 0) if product > 0 else product) / scale if scale else 0.0
    (low, high), (other_low, other_high) = wilson(ours, total), wilson(theirs, total)
    rate, other = ours / total, theirs / total

    def end(own: float, others: float) -> float:
        return math.sqrt(max(0.0, own**2 - 2 * correlation * own * others + others**2))

    down, up = end(rate - low, other_high - other), end(high - rate, other - other_low)
    return Estimate((ours - theirs) / total, (ours - theirs) / total - down, (ours - theirs) / total + up), total


def ranks_of(values: Scores) -> Scores:
    """Return the ranks of values from 1 on; equal ones share the mean of theirs.

    >>> ranks_of(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[at])


def _estimate(value: float, found: Sequence[Spread], largest: float, most: float = math.inf) -> Estimate:
    """Return a mean, or a difference of means, with its t interval; what floats are rounded by counts as nothing.

    Args:
        found: The spreads of the configurations that it is made of.
        most: The most degrees of freedom.
    """
    value = 0.0 if abs(value) <= _NOISE * largest else value
    variances = [one.variance / one.runs for one in found]
    variance = sum(variances)
    if any(one.runs < 2 for one in found) or not math.isfinite(variance):
        return Estimate(value)
    if variance == 0:
        return Estimate(value, value, value)
    freedom = 1 / sum((own / variance) ** 2 / one.freedom for own, one in zip(variances, found, strict=True))
    half = _quantile(min(freedom, most)) * math.sqrt(variance)
    return Estimate(value, value - half, value + half)


def _quantile(freedom: float, level: float = LEVEL) -> float:
    """Return how many standard errors from zero the two-sided interval of Student's t distribution ends."""
    from scipy import special

    return float(special.stdtrit(freedom, (1 + level) / 2))


def _table(scores: Scores) -> Scores:
    return scores[:, None] if scores.ndim == 1 else scores


def _largest(tables: Sequence[Scores]) -> float:
    return max((float(np.max(np.abs(table))) for table in tables if np.size(table)), default=0.0)
