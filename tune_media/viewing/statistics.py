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
FEWEST_EQUAL = 4
"""Runs a side that are all equal, and yet tell: one order in 35 is as clear by chance; of three runs, one in ten."""
_NOISE = 1e-10  # of the largest score: what sums of floats differ by
_RESAMPLES = 5000
_FEWEST_RESAMPLES = 500  # of many scores
_MAX_NUMBERS = 20_000_000  # that all resamples of some scores draw
_AT_ONCE = 1_000_000  # numbers
_TRIMMED = 0.25  # of the scores at each end
_CUT, _NOISIER = 3.0, 4.0  # of the variances of configurations, see _spreads

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
class Runs:
    """The runs of a configuration, or one policy.

    Attributes:
        scores: The score of each run, of shape (runs,) or (runs, tasks).
        by_seed: For each run its return on each evaluation seed; empty if it has none.
    """

    scores: Scores
    by_seed: Sequence[Mapping[int, float]] = ()


@dataclass(frozen=True)
class Spread:
    """The mean of a configuration's runs, its variance (NaN for one run), and the degrees of freedom of that."""

    mean: float
    variance: float
    freedom: float
    runs: int
    most: float = math.inf  # degrees of freedom that all configurations have


@dataclass(frozen=True)
class _Difference:
    """A mean, or a difference of means, its variance (NaN: unknown) and the degrees of freedom of that."""

    value: float
    variance: float
    freedom: float
    largest: float  # of the scores: what they are rounded by counts as nothing

    def estimate(self, count: int) -> Estimate:
        """Return it with the interval that holds if ``count`` means are compared."""
        value = 0.0 if abs(self.value) <= _NOISE * self.largest < math.inf else self.value
        if not math.isfinite(self.variance):
            return Estimate(value)
        half = _critical(count, self.freedom) * math.sqrt(self.variance) if self.variance else 0.0
        return Estimate(value, value - half, value + half)

    @property
    def chance(self) -> float:
        """How likely chance alone makes a difference as large; 1 if that is unknown."""
        from scipy import special

        if not math.isfinite(self.variance) or self.value <= 0:
            return 1.0
        return 2 * float(special.stdtr(self.freedom, -self.value / math.sqrt(self.variance))) if self.variance else 0.0


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
    table = _table(scores)
    with np.errstate(over="ignore", invalid="ignore"):  # of a score near the largest number: it has no interval
        variances = _own_variances(table, _largest([table]))
        spread = _spread(table, variances, np.full(len(variances), len(table) - 1))
    return _Difference(spread.mean, spread.variance, spread.freedom, _largest([table])).estimate(2)


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


def differences(runs: Sequence[Runs]) -> list[Estimate]:
    """Return how much larger the mean of the first configuration is than that of each other one, with 95 % intervals.

    Runs and evaluation seeds are both samples: the variance of a difference is the runs' part plus the seeds' part less
    the residual, which is in both; its degrees of freedom are Satterthwaite's. Without two seeds that all runs of both
    have, it is over runs alone. If one run each is compared (two policies), seeds alone are the sample: the difference
    is the mean over the seeds that both have.

    All intervals hold together. If the first is ahead of each other one by its own t interval, these are returned: who
    calls it the best then is wrong in at most one of twenty sweeps, however many configurations there are, since
    each of these comparisons has to hold. If not, intervals are made wider for all pairs, from the clearest difference
    on with one configuration less at each step, so that «surely worse than the first» is false for any of them in at
    most one of twenty sweeps of equal ones.

    Args:
        runs: The runs of each configuration; the first has the highest mean. One run beside several has no interval.

    >>> differences([Runs(np.array([3.0, 3.5, 4.0])), Runs(np.array([1.0, 1.5, 2.0]))])[0].has_zero
    False
    """
    spreads = _spreads([_table(one.scores) for one in runs])
    return _jointly(
        [_difference(runs[0], other, spreads[0], spread) for other, spread in zip(runs[1:], spreads[1:], strict=True)]
    )


def _difference(first: Runs, other: Runs, spread: Spread, other_spread: Spread) -> _Difference:
    """Return the difference of two configurations with its variance, see ``differences``."""
    value, largest = spread.mean - other_spread.mean, _largest([first.scores, other.scores])
    variance, freedom = _sum([spread, other_spread])
    seeds = common_seeds(first, other)
    if not seeds:
        return _Difference(value, variance, freedom, largest)
    ours, theirs = (np.array([[run[seed] for seed in seeds] for run in one.by_seed]) for one in (first, other))
    apart, largest = np.mean(ours, axis=0) - np.mean(theirs, axis=0), _largest([ours, theirs])
    of_seeds = float(_own_variances(apart[:, None], largest)[0]) / len(seeds) if len(seeds) > 1 else math.nan
    if len(ours) == len(theirs) == 1:
        return _Difference(float(np.mean(apart)), of_seeds, len(seeds) - 1.0, largest)
    both = variance + of_seeds
    if 0 < both < math.inf:  # neither is NaN
        freedom = 1 / ((variance / both) ** 2 / freedom + (of_seeds / both) ** 2 / (len(seeds) - 1))
        variance = max(both - _residual(ours) - _residual(theirs), variance, of_seeds)
    return _Difference(value, variance, freedom, largest)


def common_seeds(first: Runs, other: Runs) -> list[int]:
    """Return the evaluation seeds that all runs of both have."""
    runs = [*first.by_seed, *other.by_seed]
    if len(first.by_seed) < len(first.scores) or len(other.by_seed) < len(other.scores) or not runs:
        return []
    return sorted(set.intersection(*(set(run) for run in runs)))


def _residual(scores: Scores) -> float:
    """Return what chance that is neither a run's nor a seed's adds to the variance of the mean of (runs, seeds)."""
    rest = scores - scores.mean(1, keepdims=True) - scores.mean(0, keepdims=True) + scores.mean()
    return float(np.sum(rest**2) / ((scores.shape[0] - 1) * (scores.shape[1] - 1)) / scores.size)


def _spreads(tables: Sequence[Scores]) -> list[Spread]:
    """Return the variance of the mean of each configuration, of scores of the shape (runs, tasks).

    From three runs on, a variance borrows one degree of freedom from the mean of all, in which none counts for more
    than three times their median: one outlier elsewhere changes little. One that is more than four times that mean
    borrows nothing, nor does that of two runs: what is noisier than the others must not seem steadier than it is.
    """
    found, most_freedom = [], float(sum(table.size - table.shape[1] for table in tables))
    with np.errstate(over="ignore", invalid="ignore"):  # of a score near the largest number: it has no interval
        own = [_own_variances(table, _largest([table])) for table in tables]
        counting = [
            (of, len(t) - 1) for of, t in zip(own, tables, strict=True) if len(t) > 1 and np.all(np.isfinite(of))
        ]
        shared = np.zeros(tables[0].shape[1])
        if counting:
            most = _CUT * np.median([of for of, _ in counting], axis=0)
            shared = np.average([np.minimum(of, most) for of, _ in counting], axis=0, weights=[n for _, n in counting])
        for table, variance in zip(tables, own, strict=True):
            count = len(table)
            borrows = (variance <= _NOISIER * shared) & (count > 2) & (shared > 0)
            mixed = np.where(borrows, (shared + (count - 1) * variance) / count, variance)
            found.append(_spread(table, mixed, np.where(borrows, count, count - 1), most_freedom))
    return found


def _spread(table: Scores, variances: Scores, freedoms: npt.NDArray[np.int_], most: float = math.inf) -> Spread:
    """Return the mean of scores (runs, tasks) with its variance, given that of a run in each task."""
    count, tasks = table.shape
    of_tasks, freedom = variances / tasks**2, 1.0
    total = float(np.sum(of_tasks))
    if count > 1 and 0 < total < math.inf:  # Welch and Satterthwaite: the degrees of freedom of a sum of variances
        freedom = 1 / float(np.sum((of_tasks / total) ** 2 / freedoms))
    return Spread(float(np.mean(table)), total / count if count > 1 else math.nan, freedom, count, most)


def _own_variances(table: Scores, largest: float) -> Scores:
    """Return the variance of each column; what may be rounding of the largest score is nothing."""
    if len(table) < 2:
        return np.zeros(table.shape[1])
    variances = np.var(table, axis=0, ddof=1)
    return np.where(np.sqrt(variances) <= _NOISE * largest, 0.0, variances)


def _sum(spreads: Sequence[Spread]) -> tuple[float, float]:
    """Return the variance of a difference of means, and its degrees of freedom."""
    variance = float(sum(one.variance for one in spreads))
    if not 0 < variance < math.inf:
        return variance if variance == 0 and min(one.runs for one in spreads) >= FEWEST_EQUAL else math.nan, 1.0
    freedom = 1 / sum((one.variance / variance) ** 2 / one.freedom for one in spreads)
    return variance, min(freedom, spreads[0].most)


def _jointly(apart: Sequence[_Difference]) -> list[Estimate]:
    """Return differences to one configuration with intervals that hold together, see ``differences``."""
    alone = [one.estimate(2) for one in apart]
    if all(estimate.low > 0 for estimate in alone):
        return alone
    left = len(apart) + 1  # configurations that may be equal: the first, and those that are not surely worse yet
    found: dict[int, Estimate] = {}
    for number in sorted(range(len(apart)), key=lambda number: apart[number].chance):
        estimate = found[number] = apart[number].estimate(left)
        left -= estimate.low > 0
    return [found[number] for number in range(len(apart))]


def paired_rates(first: Mapping[int, bool], second: Mapping[int, bool], count: int = 2) -> tuple[Estimate, int]:
    """Return how much larger the first success rate is on the same seeds, with Newcombe's interval for paired rates.

    It is made of the Wilson intervals of both rates and of their correlation (method 10 of Newcombe, Statistics in
    Medicine 17, 1998), so that 40 of 40 beside 40 of 40 is no certain tie.

    Args:
        first: For each evaluation seed whether the episode succeeded.
        second: The other's. Seeds that only one has are left out.
        count: How many policies are compared; the intervals of all pairs hold together.

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
    errors = _critical(count, math.inf)
    (low, high), (other_low, other_high) = wilson(ours, total, errors), wilson(theirs, total, errors)
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


def _critical(count: int, freedom: float) -> float:
    """Return how many standard errors the 95 % interval of a difference reaches, if ``count`` means are compared.

    It is Student's t with Sidak's level for all pairs of them, as Dunnett's T3, since each pair has a variance of its
    own: Tukey's range, which takes one for all, errs in 12 of 100 evaluations of 30 equal policies on ten seeds.
    """
    from scipy import special

    level = LEVEL ** (2 / (count * (count - 1)))
    end = (1 + level) / 2
    return float(special.ndtri(end) if math.isinf(freedom) else special.stdtrit(freedom, end))


def _table(scores: Scores) -> Scores:
    return scores[:, None] if scores.ndim == 1 else scores


def _largest(tables: Sequence[Scores]) -> float:
    return max((float(np.max(np.abs(table))) for table in tables if np.size(table)), default=0.0)
