"""One inference: which configuration is the best, whether that is clear, and how far it is ahead of each other one.

Runs and evaluation seeds are both samples: a configuration is judged over its runs, and over the seeds that runs share.
The highest score is the best. Everything is computed for many sweeps at once, so that a benchmark simulates this code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]

LEVEL = 0.95
EQUAL_RUNS, EQUAL_SEEDS = 4, 6
"""If nothing varies at all, so many tell: chance alone orders fewer in more than one of twenty cases."""
CLOSE, EQUAL, ONE_RUN, ONE_SEED = "close", "equal", "one_run", "one_seed"
FEW_COMMON_SEEDS, FEW_EQUAL, UNEQUAL_TRAINING = "few_common_seeds", "few_equal", "unequal_training"
NOT_COMPARABLE, OTHER_RETURN = "not_comparable", "other_return"
RUNS, SEEDS, BOTH = "runs", "seeds", "both"
NO_SEEDS, COPIES = "no_seeds", "copies"
_NOISE = 1e-10  # of the largest score: the rounding of floats


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its 95 % interval, which are NaN if it has none."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Sample:
    """The scores of one configuration.

    Attributes:
        table: The scores (sweeps, runs, columns). Columns are evaluation seeds, the same ones for all samples that have
            seeds, with NaN for those not played; or tasks; or there is one.
        has_seeds: Whether the columns are evaluation seeds.
        episodes: How many episodes each run's score is the mean of, copies once; it counts if scores have bounds.
        copies: Numbers (runs, columns), equal for the episodes of a run that are copies of each other.
    """

    table: Scores
    has_seeds: bool = False
    episodes: int = 1
    copies: npt.NDArray[np.int64] | None = None

    @property
    def runs(self) -> int:
        """The number of its runs."""
        return int(self.table.shape[-2])

    @cached_property
    def scores(self) -> Scores:
        """The score of each run, of shape (sweeps, runs)."""
        return np.asarray(np.nanmean(self.table, -1))

    @cached_property
    def full(self) -> npt.NDArray[np.bool_]:
        """Which columns all runs have."""
        return np.asarray(np.isfinite(self.table).all((0, 1)))

    @cached_property
    def largest(self) -> Scores:
        """The largest number of the table, whatever its sign, of shape (sweeps,)."""
        return np.asarray(np.nanmax(np.abs(self.table), (-2, -1)))

    @property
    def form(self) -> tuple[Any, ...]:
        """Equal for samples that are computed together: all but the scores."""
        there, copies = np.isfinite(self.table), b"" if self.copies is None else self.copies.tobytes()
        return self.table.shape, self.has_seeds, self.episodes, there.all(0).tobytes(), there.any(0).tobytes(), copies

    @cached_property
    def between_runs(self) -> _Spread:
        """The variance between runs of one run's score, and its degrees of freedom; of tasks, stratified by them."""
        table, count = self.table, self.runs
        if count < 2:
            return _Spread(np.zeros(len(table)), np.zeros(len(table)))
        columns = self.scores[..., None] if self.has_seeds else table  # each column is a task's
        variances = np.var(columns, -2, ddof=1)
        variances = np.where(np.sqrt(variances) <= _NOISE * self.largest[:, None], 0, variances)
        variances = variances / columns.shape[-1] ** 2
        total = variances.sum(-1)
        shares = variances / np.where(total > 0, total, 1)[..., None]
        freedom = np.where(total > 0, (count - 1) / np.maximum((shares**2).sum(-1), 1e-9), count - 1)
        return _Spread(total, np.nan_to_num(freedom, nan=1.0))


@dataclass(frozen=True)
class Lead:
    """How far the best configuration is ahead of another one.

    Attributes:
        value: The difference of their scores; on evaluation seeds, of those that all runs of both have.
        low, high: The ends of its 95 % interval; those of all leads hold at once. Infinite if nothing is known. ``low``
            is not below zero if the other one is clearly worse, and not above if it is not: ask ``is_clear``.
        half_runs: Half of the interval over runs alone, which is a part of this one; 0 of policies.
        is_clear: Whether the other one is clearly worse.
        why: Why it is not: ``close`` (chance may explain it), ``equal``, ``one_run``, ``one_seed``,
            ``few_common_seeds``, ``few_equal``, ``unequal_training``, ``other_return`` or ``not_comparable``; None if
            it is.
        over: The sample: ``runs``, ``seeds`` or ``both``.
        remark: ``no_seeds`` if only one of the two has evaluation seeds, ``copies`` if episodes are copies, or empty.
        seeds: The number of evaluation seeds that all runs of both have, copies once; 0 if they are no sample.
        all_seeds: The number of these with copies, which is at least one if there are any.
    """

    value: float
    low: float
    high: float
    half_runs: float
    is_clear: bool
    why: str | None
    over: str
    remark: str
    seeds: int
    all_seeds: int = 0


def not_judged(value: float, why: str) -> Lead:
    """Return the lead over a configuration that is not judged.

    >>> not_judged(3.0, UNEQUAL_TRAINING).is_clear
    False
    """
    return Lead(value, -math.inf, math.inf, math.inf, False, why, RUNS, "", 0)


class Pair(NamedTuple):
    """What two configurations are compared on."""

    over: str
    remark: str
    why: str  # nothing can be known for this reason, or ""
    seeds: int
    all_seeds: int = 0


@dataclass(frozen=True)
class Answer:
    """What follows from the scores of configurations in some sweeps: arrays (sweeps, configurations), see ``Lead``.

    Attributes:
        mean, mean_low, mean_high: Each one's own score, with its interval (NaN: none).
        best: The number of the best one (sweeps,).
        is_clear: Whether it is clearly the best (sweeps,).
        is_worse: Which are clearly worse than the best one.
        pairs: For each pair of a best one and another what is compared.
    """

    mean: Scores
    mean_low: Scores
    mean_high: Scores
    best: npt.NDArray[np.int64]
    is_clear: npt.NDArray[np.bool_]
    lead: Scores
    low: Scores
    high: Scores
    half_runs: Scores
    is_worse: npt.NDArray[np.bool_]
    pairs: dict[tuple[int, int], Pair]

    def of_one_sweep(self) -> tuple[list[Estimate], list[Lead | None]]:
        """Return the mean of each configuration, and the best one's lead over it, of the only sweep."""
        best, leads = int(self.best[0]), list[Lead | None]()
        for number in range(self.mean.shape[1]):
            pair = self.pairs.get((best, number))
            if pair is None:
                leads.append(None)
                continue
            value, is_clear = float(self.lead[0, number]), bool(self.is_worse[0, number])
            why = None if is_clear else EQUAL if value == 0 else pair.why or CLOSE
            ends = float(self.low[0, number]), float(self.high[0, number]), float(self.half_runs[0, number])
            leads.append(Lead(value, *ends, is_clear, why, pair.over, pair.remark, pair.seeds, pair.all_seeds))
        means = zip(self.mean[0].tolist(), self.mean_low[0].tolist(), self.mean_high[0].tolist(), strict=True)
        return [Estimate(*ends) for ends in means], leads


class _Spread(NamedTuple):
    """The variance of a configuration's score between runs (sweeps,), and its degrees of freedom."""

    variance: Scores
    freedom: Scores


class _OverSeeds(NamedTuple):
    """A score, or a difference of two, on evaluation seeds; arrays (sweeps,)."""

    value: Scores
    variance: Scores
    wider: Scores  # as if on one more seed each had done as well as can be, and on one more as badly
    residual: Scores  # what is in the variance over runs, too
    seeds: int  # copies once


def infer(samples: Sequence[Sample], bounds: tuple[float, float] | None = None, best_one: int | None = None) -> Answer:
    """Judge configurations; with one run each they are policies, and seeds alone are the sample.

    Args:
        bounds: The lowest and the highest score that an episode can have, such as (0, 1) if it succeeds or not.
        best_one: The number of the one that the others are compared with. None: the one with the highest mean.

    >>> worse, better = np.array([[[1.0], [2.0], [3.0]]]), np.array([[[11.0], [12.0], [13.0]]])
    >>> answer = infer([Sample(worse), Sample(better)])
    >>> int(answer.best[0]), bool(answer.is_clear[0]), float(answer.lead[0, 0])
    (1, True, 10.0)
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of a score near the largest number: it has no interval
        return _inferred(samples, bounds, best_one)


def _inferred(samples: Sequence[Sample], bounds: tuple[float, float] | None, best_one: int | None) -> Answer:
    spreads, counts = _spreads(samples), [sample.runs for sample in samples]
    are_policies = max(counts) == 1
    mean = np.stack([sample.scores.mean(-1) for sample in samples], -1)
    top = mean.max(-1, keepdims=True)
    best = np.asarray((mean >= top - _NOISE * np.abs(top)).argmax(-1))  # of equal ones the first
    best = best if best_one is None else np.full_like(best, best_one)
    forms: dict[Any, list[int]] = {}
    for number, sample in enumerate(samples):
        forms.setdefault(sample.form, []).append(number)
    ends = np.empty((2, *mean.shape))
    for numbers in forms.values():
        own = _own_interval(_joined([samples[n] for n in numbers]), bounds, are_policies=are_policies)
        ends[:, :, numbers] = own.reshape(2, len(numbers), -1).transpose(0, 2, 1)
    if not are_policies:  # two or three equal runs tell nothing
        ends[:, (ends[0] == ends[1]) & (np.array(counts) < EQUAL_RUNS)] = np.nan
    arrays = _Arrays(*(np.zeros(mean.shape) for _ in range(6)))
    pairs: dict[tuple[int, int], Pair] = {}
    for first, numbers in itertools.product(np.unique(best).tolist(), forms.values()):
        if others := [number for number in numbers if number != first]:
            pairs |= _compare(samples, counts, spreads, bounds, best == first, first, others, arrays)
    lead, alone, together, printed, of_runs, shift = arrays
    is_best = np.arange(mean.shape[1]) == best[:, None]
    is_clear = np.all((lead > alone) | is_best, -1)
    is_worse = ((lead > together) | is_clear[:, None]) & ~is_best
    low, high = (1 - shift) * lead - printed, (1 - shift) * lead + printed
    low = np.where(is_worse, np.maximum(low, 0), np.minimum(low, 0))  # the decision is sharper: then "more than 0"
    return Answer(mean, ends[0], ends[1], best, is_clear, lead, low, np.maximum(high, lead), of_runs, is_worse, pairs)


class _Arrays(NamedTuple):
    """What is filled in for each sweep and configuration, and the halves of three intervals of the lead over it."""

    lead: Scores
    alone: Scores  # half of an interval that holds by itself
    together: Scores  # half of one that holds for all pairs at once
    printed: Scores  # the same with room for the bounds
    of_runs: Scores
    shift: Scores


def _joined(samples: Sequence[Sample]) -> Sample:
    """Return samples of one form as one, with the sweeps of each after those of the one before."""
    return samples[0] if len(samples) == 1 else replace(samples[0], table=np.concatenate([s.table for s in samples]))


def _compare(
    samples: Sequence[Sample],
    runs: Sequence[int],
    spreads: Sequence[_Spread],
    bounds: tuple[float, float] | None,
    where: npt.NDArray[np.bool_],
    best: int,
    others: Sequence[int],
    into: _Arrays,
) -> dict[tuple[int, int], Pair]:
    """Fill in what is known of a best one and others of one form in some sweeps; return what they are compared on."""
    count, are_policies = len(samples), max(runs) == 1
    sides = [[best] * len(others), others]
    first, second = (_joined([replace(samples[n], table=samples[n].table[where]) for n in side]) for side in sides)
    apart, found = _apart(first, second, bounds, are_policies=are_policies)
    own = [_Spread(*(np.concatenate([spreads[n][part][where] for n in side]) for part in (0, 1))) for side in sides]
    freedom = _freedom(own, [runs[best], runs[others[0]]], sum(runs) - count)
    variance = own[0].variance + own[1].variance
    tells = variance + apart.variance > 0
    if are_policies or min(runs[best], runs[others[0]]) >= EQUAL_RUNS:
        tells |= found.over == RUNS or found.seeds >= EQUAL_SEEDS
    known, place = tells & (not found.why), np.ix_(np.flatnonzero(where), np.array(others))

    def fill(array: Scores, values: Scores) -> None:
        array[place] = values.reshape(len(others), -1).T

    for compared, intervals in (
        (2, [(into.alone, apart.variance)]),
        (count, [(into.together, apart.variance), (into.printed, apart.wider)]),
    ):
        over = critical(freedom, compared), critical(max(apart.seeds - 1, 1), compared)
        for halves, of_seeds in intervals:
            half = _half(variance, of_seeds, apart.residual, over, has_seeds=found.over != RUNS)
            fill(halves, np.where(known, half, np.inf))
    fill(into.lead, apart.value)
    fill(into.of_runs, np.where(known, over[0] * np.sqrt(variance), np.inf))
    into.shift[place] = 2 / (apart.seeds + 2) if bounds else 0.0
    equal = found if found.why else found._replace(why=FEW_EQUAL)
    each = zip(others, tells.reshape(len(others), -1), strict=True)
    return {(best, n): found if own.all() else equal for n, own in each}


def estimate(
    scores: Scores,
    bounds: tuple[float, float] | None = None,
    episodes: int = 1,
    copies: npt.NDArray[np.int64] | None = None,
) -> Estimate:
    """Return the mean of the scores of some runs, with Student's t interval over the runs.

    Args:
        scores: The scores, of shape (runs,) or (runs, tasks). The interval is stratified: tasks of different height do
            not widen it.
        bounds: See ``infer``.
        episodes: Of how many each score is the mean, which counts if there are bounds.
        copies: Numbers (runs,), if the scores are those of episodes: equal for copies, which count once.

    >>> estimate(np.array([1.0, 2.0, 3.0])).value, estimate(np.array([1.0])).high
    (2.0, nan)
    """
    sample = Sample((scores[:, None] if scores.ndim == 1 else scores)[None], episodes=episodes)
    if copies is not None:
        sample = Sample(scores[None, None], True, episodes, copies[None])
    with np.errstate(over="ignore", invalid="ignore"):  # of a score near the largest number: it has no interval
        low, high = _own_interval(sample, bounds, are_policies=copies is not None)[:, 0].tolist()
    return Estimate(float(np.mean(scores)), low, high)


def estimates(scores: Scores, bounds: tuple[float, float] | None = None, episodes: int = 1) -> list[Estimate]:
    """Return ``estimate`` of the scores of runs at several times, of shape (times, runs).

    >>> [one.value for one in estimates(np.array([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]))]
    [2.0, 4.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _own_interval(Sample(scores[..., None], episodes=episodes), bounds).tolist()
    return [Estimate(*ends) for ends in zip(scores.mean(-1).tolist(), low, high, strict=True)]


def critical(freedom: npt.ArrayLike, compared: int = 2) -> Scores:
    """Return Student's t of a 95 % interval; of more than two that are compared, with Sidak's level for all pairs."""
    from scipy import special

    level = LEVEL ** (2 / (compared * (compared - 1)))
    return np.asarray(special.stdtrit(np.maximum(freedom, 1.0), (1 + level) / 2))


def _spreads(samples: Sequence[Sample]) -> list[_Spread]:
    """Return the variance of each configuration's score between runs.

    It borrows one degree of freedom from the median of all, and becomes no smaller by it: what is noisier than the
    others must not seem steadier. Two runs, or less than half as many as another one has, borrow nothing.
    """
    runs = [sample.runs for sample in samples]
    own = [sample.between_runs for sample in samples]
    several = [spread.variance for spread, count in zip(own, runs, strict=True) if count > 1]
    finite = [np.where(np.isfinite(variance), variance, np.nan) for variance in several]
    middle = np.nanmedian(finite, 0) if np.isfinite(finite).any(0).all() else np.zeros(len(samples[0].table))
    spreads = []
    for spread, count in zip(own, runs, strict=True):
        borrows = count > 2 and 2 * count >= max(runs) and len(several) > 1
        variance = spread.variance
        if borrows:
            variance = np.maximum(variance, (middle + (count - 1) * variance) / count)
        spreads.append(_Spread(variance / count, spread.freedom + borrows))
    return spreads


def _freedom(spreads: Sequence[_Spread], runs: Sequence[int], most: int) -> Scores:
    """Return Satterthwaite's degrees of freedom of a sum of variances.

    They are at most those of equal variances, and those of all configurations together: both borrow the same one.
    """
    first, other = spreads
    equal = [_Spread(np.full_like(own.variance, 1 / n), own.freedom) for own, n in zip(spreads, runs, strict=True)]
    freedom = np.minimum(_satterthwaite(first, other), _satterthwaite(*equal))
    tasks = np.maximum(1.0, np.maximum(first.freedom / runs[0], other.freedom / runs[1]))  # more than runs: of several
    return np.asarray(np.minimum(freedom, np.maximum(np.minimum(sum(runs) - 1, most) * tasks, 1)))


def _satterthwaite(first: _Spread, other: _Spread) -> Scores:
    total, least = first.variance + other.variance, np.minimum(first.freedom, other.freedom)
    shares = [own.variance / np.where(total > 0, total, 1) for own in (first, other)]  # not squares, which overflow
    parts = [share**2 / np.maximum(own.freedom, 1e-9) for share, own in zip(shares, (first, other), strict=True)]
    return np.nan_to_num(np.where(total > 0, 1 / np.maximum(parts[0] + parts[1], 1e-9), least), nan=1.0)


def _apart(
    first: Sample, other: Sample, bounds: tuple[float, float] | None, *, are_policies: bool
) -> tuple[_OverSeeds, Pair]:
    """Return the difference of two configurations, on the seeds that all runs of both have."""
    of_one = ONE_RUN if min(first.runs, other.runs) < 2 else ""
    if not (first.has_seeds and other.has_seeds):
        remark = NO_SEEDS if first.has_seeds != other.has_seeds else ""
        return _of_runs_alone(first, other, bounds), Pair(RUNS, remark, of_one, 0)
    times = np.isfinite(np.concatenate([first.table, other.table], 1)).any(0).sum(0)  # in how many runs each seed is
    if times.max() < 2:
        return _of_runs_alone(first, other, bounds), Pair(RUNS, "", of_one, 0)
    full, over, why = first.full & other.full, SEEDS if are_policies else BOTH, "" if are_policies else of_one
    if full.sum() < 2:
        few = ONE_SEED if np.count_nonzero(times) == 1 else FEW_COMMON_SEEDS
        return _of_runs_alone(first, other, bounds), Pair(over, "", why or few, int(full.sum()), int(full.sum()))
    apart, has_copies = _over_seeds([first, other], full, bounds)
    remark = COPIES if has_copies else ""
    if apart.seeds == 1:  # all episodes are copies of one: runs alone tell
        pair = Pair(RUNS, remark, ONE_SEED if are_policies else of_one, 0, int(full.sum()))
        return _of_runs_alone(first, other, bounds), pair
    return apart, Pair(over, remark, why, apart.seeds, int(full.sum()))


def _of_runs_alone(first: Sample, other: Sample, bounds: tuple[float, float] | None) -> _OverSeeds:
    value = _exactly(first.scores.mean(-1) - other.scores.mean(-1), [first, other])
    nothing, count = np.zeros_like(value), min(first.episodes * first.runs, other.episodes * other.runs)
    return _OverSeeds(value, nothing, _wider(nothing, count, 2, bounds), nothing, count)


def _over_seeds(
    samples: Sequence[Sample], full: npt.NDArray[np.bool_], bounds: tuple[float, float] | None
) -> tuple[_OverSeeds, bool]:
    """Return a score, or the difference of two, on some seeds, and whether any of the episodes are copies.

    Seeds on which all runs played a copy of what they played on another seed count as one, with the weight of all.
    """
    clusters = _clusters(samples, full)
    count, seeds = int(clusters.max()) + 1, int(full.sum())
    into = (clusters[:, None] == np.arange(count)).astype(float)  # (seeds, clusters)
    if 1 < count < seeds:  # so that the variance of a mean with unequal weights has no bias
        weights = into.mean(0)
        squared = float(np.sum(weights**2))
        into *= np.sqrt((count - 1) / count * squared / (1 - squared) / weights)
    value: Scores = np.zeros(len(samples[0].table))
    apart, residual = np.zeros((len(value), count)), np.zeros_like(value)
    for sign, sample in zip((1, -1), samples, strict=False):
        table, runs = sample.table[..., full], sample.runs
        value = value + sign * table.mean((-2, -1))
        rest = (table - table.mean(-1, keepdims=True)) @ into / seeds  # what each cluster adds to the mean of each run
        apart += sign * rest.mean(-2)
        if runs > 1 and count > 1:
            rest = rest - rest.mean(-2, keepdims=True)
            residual += np.sum(rest**2, (-2, -1)) * count / ((runs - 1) * (count - 1) * runs)
    noise = _NOISE * np.max([np.abs(sample.table[..., full]).max((-2, -1)) for sample in samples], 0)
    apart = np.where(np.abs(apart) * seeds <= noise[:, None], 0, apart)
    squares = np.sum(apart**2, -1) * count**2
    variance = squares / max(count - 1, 1) / count
    wider = np.maximum(variance, _wider(squares, count, len(samples), bounds))
    return _OverSeeds(_exactly(value, samples), variance, wider, residual, count), count < seeds


def _clusters(samples: Sequence[Sample], full: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the number of each seed's cluster: the seeds on which all runs played copies of one episode each."""
    if any(sample.copies is None for sample in samples):
        return np.arange(int(full.sum()))
    rows = np.concatenate([sample.copies[:, full] for sample in samples if sample.copies is not None])
    return np.asarray(np.unique(rows, axis=1, return_inverse=True)[1]).reshape(-1)


def _wider(squares: Scores, count: int, tables: int, bounds: tuple[float, float] | None) -> Scores:
    """Return a variance over seeds as if each had done as well as can be on one more, and as badly on another."""
    if bounds is None:
        return squares / max(count - 1, 1) / max(count, 1)
    return np.asarray((squares + tables * (bounds[1] - bounds[0]) ** 2) / (count + 1) / (count + 2))


def _exactly(value: Scores, samples: Sequence[Sample]) -> Scores:
    """Return differences with 0 for what may be rounding."""
    largest = np.max([sample.largest for sample in samples], 0)
    return np.where(np.abs(value) <= _NOISE * largest, 0, value)


def _half(
    variance: Scores, of_seeds: Scores, residual: Scores, over: tuple[Scores, Scores], *, has_seeds: bool
) -> Scores:
    """Return half of an interval over runs and seeds; ``over`` has Student's t of both.

    The halves of both intervals are added as squares (Banerjee's inequality); the residual, which is in both, is
    subtracted once. The result is no smaller than either half.
    """
    one, other = over[0] ** 2 * variance, over[1] ** 2 * of_seeds
    if not has_seeds:  # there is a part over seeds if scores have bounds
        return np.sqrt(one + other)
    both = one + other - np.minimum(*over) ** 2 * residual
    return np.sqrt(np.maximum(both, np.maximum(one, other)))


def _own_interval(sample: Sample, bounds: tuple[float, float] | None, *, are_policies: bool = False) -> Scores:
    """Return the ends (2, sweeps) of the interval of a configuration's own score; NaN if it has none."""
    mean, nothing = sample.scores.mean(-1), np.full((2, len(sample.table)), np.nan)
    full, zero = sample.full, np.zeros(len(sample.table))
    has_seeds = sample.has_seeds and full.sum() > 1
    if has_seeds:
        apart, _ = _over_seeds([sample], full, bounds)
        has_seeds = apart.seeds > 1
    if not has_seeds:
        count = sample.episodes * sample.runs
        apart = _OverSeeds(mean, zero, _wider(zero, count, 1, bounds), zero, count)
    has_one_seed = sample.has_seeds and np.isfinite(sample.table).any((0, 1)).sum() == 1  # runs share its luck
    if has_one_seed or (sample.runs < 2 and not (are_policies and has_seeds)):
        return nothing
    variance, freedom = sample.between_runs
    of_seeds = apart.wider if bounds else apart.variance
    over = critical(freedom), critical(max(apart.seeds - 1, 1))
    half = _half(variance / sample.runs, of_seeds, apart.residual, over, has_seeds=has_seeds)
    half = np.where(np.isfinite(half), half, np.nan)
    low, high = bounds or (-np.inf, np.inf)
    centre = (mean * apart.seeds + low + high) / (apart.seeds + 2) if bounds else mean
    return np.asarray(np.clip([centre - half, centre + half], low, high))
