"""Whether a candidate is worse than a base by more than a margin, asked after each seed.

A fixed test holds its level for one look. With a look after each seed, and a stop at the first yes, it errs far more
often. Here two gamblers bet on each seed with what the seeds before have shown: one against «the mean difference
is at most m», one against «at least m». If the sentence is true, a gambler's wealth has no drift, so that it ever
gets to 20 times the stake in one of twenty gates at most (Ville). The values of m against which neither has won are
an interval that holds at each number of seeds at once (Waudby-Smith and Ramdas, "Estimating means of bounded random
variables by betting", 2023). This needs no normal distribution, but to know how much one seed may cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tune_media.viewing.statistics import Scores

LEVEL = 0.95  # of each end of the interval
_BETS = ((1.0, 0.9), (2.0, 0.5))  # shares of the best bet on the margin, and the most of what one seed may cost
_SCALING = 4  # seeds that only show how large returns are
_FINEST = 60  # halvings
_AT_ONCE = 64  # looks
_AIM = 0.02  # of what one seed may cost: the smallest difference that the bets are made for
_LEAST = 1e-12  # what is left of a bet that lost everything

PASS, WORSE, UNDECIDED = "pass", "worse", "undecided"


@dataclass(frozen=True)
class Standing:
    """What the seeds played so far say.

    Attributes:
        verdict: ``pass``: not worse by more than the margin. ``worse``: worse by more than it. Or ``undecided``.
        seeds: The number of seeds that it took; what was played after them does not count.
        base, candidate: The mean of each over these seeds.
        margin: The margin, above zero or zero.
        low, high: Each end holds in 95 of 100 gates, however many seeds are played; infinite if nothing is known.
        cost: What one seed was taken to cost at most.

    >>> Standing("pass", 40, 10.0, 11.0, 0.5, 0.2, 1.8).difference
    1.0
    """

    verdict: str
    seeds: int
    base: float = math.nan
    candidate: float = math.nan
    margin: float = math.nan
    low: float = -math.inf
    high: float = math.inf
    cost: float = math.nan

    @property
    def difference(self) -> float:
        """How much better the candidate is on average."""
        return self.candidate - self.base


@dataclass(frozen=True)
class Margin:
    """How much worse the candidate may be: in the units of the metric, or as a share of the base's mean.

    >>> Margin(0.05, True).of(-200.0), Margin(3.0).of(-200.0)
    (10.0, 3.0)
    """

    amount: float
    is_share: bool = False

    def of(self, base: float) -> float:
        """Return it in the units of the metric, given the base's mean."""
        return self.amount * abs(base) if self.is_share else self.amount


def standing(
    base: Scores,
    candidate: Scores,
    margin: Margin,
    bounds: tuple[float, float] | None = None,
    level: float = LEVEL,
) -> Standing:
    """Return what the scores on the same seeds say, in the order of the seeds, as soon as they say it.

    Args:
        base: The base's score on each seed, of shape (seeds,); a higher one is better.
        candidate: The candidate's.
        margin: How much worse the candidate may be.
        bounds: The lowest and the highest score that there can be. None: one seed is taken to cost no more than the
            range of all scores on the seeds before, or the largest of them.
        level: That of each end of the interval.

    >>> standing(np.full(100, 500.0), np.full(100, 500.0), Margin(0.05, True)).seeds
    80
    >>> standing(np.full(20, 500.0), np.full(20, 100.0), Margin(0.05, True)).verdict
    'worse'
    """
    game = _Game.of(
        np.asarray(base, dtype=float), np.asarray(candidate, dtype=float), bounds, math.log(1 / (1 - level))
    )
    count = len(game.differences)
    margins = np.array([margin.of(mean) for mean in game.base_means.tolist()])
    for start in range(0, count, _AT_ONCE):
        seeds = np.arange(start, min(start + _AT_ONCE, count)) + 1
        allowed = margins[seeds - 1]
        passes, worse = (game.wins(sign, -sign * allowed, seeds, allowed) for sign in (1, -1))
        if np.any(passes | worse):
            at = int(np.argmax(passes | worse))
            return game.standing(PASS if passes[at] else WORSE, int(seeds[at]), float(allowed[at]))
    return game.standing(UNDECIDED, count, float(margins[-1])) if count else Standing(UNDECIDED, 0)


@dataclass(frozen=True)
class _Game:
    """What the gamblers know before each seed, and what each seed brings."""

    differences: Scores  # the candidate's score less the base's
    base_means: Scores  # up to each seed
    candidate_means: Scores
    costs: Scores  # the most that each seed may cost, as the seeds before show
    variances: Scores  # of the differences before each seed; at first, half of the cost counts as one deviation
    first: int  # the first seed that the gamblers bet on
    goal: float  # the logarithm of the wealth that wins

    @classmethod
    def of(cls, base: Scores, candidate: Scores, bounds: tuple[float, float] | None, goal: float) -> _Game:
        differences, counts = candidate - base, np.arange(1, len(base) + 1)
        if bounds is None:
            high = np.maximum.accumulate(np.maximum(base, candidate))
            low = np.minimum.accumulate(np.minimum(base, candidate))
            costs = _before(np.maximum(high - low, np.maximum(np.abs(high), np.abs(low))))
        else:
            costs = np.full(len(base), bounds[1] - bounds[0], dtype=float)
        means, squares = np.cumsum(differences) / counts, np.cumsum(differences**2) / counts
        seen = np.maximum(_before(squares - means**2, 0.0), 0.0)
        variances = ((counts - 1) * seen + costs**2 / 4) / counts
        first = 0 if bounds is not None else _SCALING
        base_means, candidate_means = np.cumsum(base) / counts, np.cumsum(candidate) / counts
        return cls(differences, base_means, candidate_means, costs, variances, first, goal)

    def wins(self, sign: int, m: Scores, seeds: npt.NDArray[np.int_], margin: Scores) -> npt.NDArray[np.bool_]:
        """Return whether the gambler against «sign times the mean difference is at most m» has won by then.

        Args:
            sign: 1, or -1.
            m: For each of some looks.
            seeds: The number of seeds at each look.
            margin: What the bets are made for at each look.
        """
        part = slice(self.first, int(seeds.max()))
        costs = self.costs[part]
        is_played = np.arange(part.start, part.stop) < seeds[:, None]
        is_played &= costs > 2 * margin[:, None]  # otherwise hardly anything is known of what a seed may cost
        gains, most = sign * self.differences[part] - m[:, None], np.maximum(costs + m[:, None], _LEAST)
        aims = np.maximum(margin[:, None], _AIM * costs)
        best = aims / (self.variances[part] + aims**2 + _LEAST)
        wealth = []
        for share, cap in _BETS:
            factors = 1 + np.minimum(share * best, cap / most) * gains
            wealth.append(np.sum(np.log(np.maximum(factors, _LEAST)), axis=1, where=is_played))
        return np.asarray(np.logaddexp.reduce(wealth) - math.log(len(_BETS)) >= self.goal)

    def standing(self, verdict: str, seeds: int, margin: float) -> Standing:
        """Return what the first seeds say."""
        low, high = self._end(1, seeds, margin), -self._end(-1, seeds, margin)
        base, candidate = float(self.base_means[seeds - 1]), float(self.candidate_means[seeds - 1])
        return Standing(verdict, seeds, base, candidate, margin, low, high, float(self.costs[seeds - 1]))

    def _end(self, sign: int, seeds: int, margin: float) -> float:
        """Return the largest m against which the gambler has won; his wealth falls with m."""
        lowest = -2 * float(np.max(self.costs[:seeds])) - margin
        highest = sign * float(np.mean(self.differences[:seeds]))

        def wins(m: float) -> bool:
            return bool(self.wins(sign, np.array([m]), np.array([seeds]), np.array([margin]))[0])

        if seeds <= self.first or not wins(lowest):
            return -math.inf
        for _ in range(_FINEST):
            middle = (lowest + highest) / 2
            lowest, highest = (middle, highest) if wins(middle) else (lowest, middle)
        return lowest


def _before(values: Scores, first: float | None = None) -> Scores:
    """Return for each seed what was known before it; for the first one what it shows itself, or ``first``."""
    return np.concatenate([values[:1] if first is None else [first], values[:-1]])
