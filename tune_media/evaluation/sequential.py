"""Whether a candidate is worse than a base by more than a margin, or reaches a floor, asked after each seed.

A fixed test holds its level for one look. With a look after each seed, and a stop at the first yes, it errs far more
often. Here gamblers bet on each seed, some against «worse by the margin or more», some against «not worse than that».
If what a gambler bets against is true, no seed brings him anything on average, so that his wealth ever gets to 20 times
the stake in one of twenty gates at most (Ville). He bets shares of what a seed can cost him. With bounds, that is known
and the error holds exactly. Without, it is read off the differences: no seed falls more than 1.5 times as deep below
their median as any seen does, or 3 times where falls are deeper than rises. A pass needs so many seeds, besides, that a
collapse which is just too frequent would have shown on one of them in 19 of 20 gates. How deep one falls is assumed,
unless a lower score is known: the worst one that there can be, or one that these seeds or earlier episodes had.
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tune_media.viewing import inference

Scores = inference.Scores
LEVEL = 0.95  # of each verdict, and of each end of the interval
FIRST = 14  # seeds before the first look, unless bounds are known
FORECAST = 10  # seeds after which it can be foreseen how many it will take
_BETS, _FINE = (1.0, 0.5, 0.25), (1.0, 0.5, 0.25, 0.12, 0.06)  # shares of the cost; fine ones if that is known
_DEEPER, _MOST_LEAN = 1.5, 2.0  # how much deeper than the deepest fall one may be, and twice that if falls are deeper
_COLLAPSE = 5.0  # times the range of the differences: how far a collapse falls
_KNOWN = 1.15  # times the seeds of the formula, if the depth of a collapse is known and not assumed: by simulation
_EQUAL = 1e-9  # of the largest score: differences that are nothing
_TINY = 1e-12
_HALVINGS = 60

PASS, WORSE, UNDECIDED = "pass", "worse", "undecided"
WORST, HISTORY, GATE, ASSUMED = "worst", "history", "gate", "assumed"  # where the depth of a collapse is from


class Lowest(NamedTuple):
    """The lowest score that an episode of these policies is known to have, and where that is known from."""

    score: float = math.inf
    source: str = ASSUMED


UNKNOWN = Lowest()


@dataclass(frozen=True)
class Standing:
    """What the seeds played so far say.

    Attributes:
        verdict: ``pass``: not worse by more than the margin. ``worse``: worse by more than it. Or ``undecided``.
        seeds: The number of seeds that it took; what was played after them does not count.
        base, candidate: The mean of each over these seeds; of a floor, ``base`` is the floor.
        margin: The margin, above zero or zero.
        low, high: The ends of the interval of the difference. Each holds in 95 of 100 gates, however many seeds are
            played; infinite if nothing is known yet.
        cost: The largest gain on one seed that ``worse`` reckons with.
        depth: How far an episode is reckoned to fall below the base's mean (of a floor, the candidate's), on as many
            seeds as a pass may miss; NaN with bounds, and before a seed is played.
        depth_from: Where that is known from: ``worst`` (the caller), ``history`` (earlier episodes), ``gate`` (these
            seeds), or ``assumed``; None with bounds.
        is_same: Whether both had the same score on each of these seeds.

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
    depth: float = math.nan
    depth_from: str | None = None
    is_same: bool = False

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
    after: int = 0,
    lowest: Lowest = UNKNOWN,
) -> Standing:
    """Return what the scores on the same seeds, in their order, say, as soon as they say it; a higher one is better.

    ``bounds`` are the lowest and the highest score that there can be, if they are known; ``level`` is that of each end
    of the interval; ``after`` so many seeds it is known to be undecided; ``lowest`` is known besides these scores.

    >>> standing(np.full(100, 500.0), np.full(100, 500.0), Margin(0.05, True)).seeds
    60
    >>> standing(np.full(20, 500.0), np.full(20, 100.0), Margin(0.05, True)).verdict
    'worse'
    >>> found = standing(np.full(200, 500.0), np.full(200, 500.0), Margin(0.05, True), lowest=Lowest(-100.0, WORST))
    >>> found.seeds, found.depth, found.depth_from
    (83, 600.0, 'worst')
    """
    return _decided(np.asarray(base, float), np.asarray(candidate, float), margin, bounds, level, after, lowest)


def floor_standing(
    candidate: Scores,
    at_least: float,
    bounds: tuple[float, float] | None = None,
    level: float = LEVEL,
    after: int = 0,
    lowest: Lowest = UNKNOWN,
) -> Standing:
    """Return whether the mean score is at least a floor, as ``standing``; ``worse``: it is below.

    >>> floor_standing(np.full(100, 500.0), 450.0).seeds, floor_standing(np.ones(100), 0.9, (0.0, 1.0)).seeds
    (30, 43)
    """
    scores = np.asarray(candidate, float)
    return _decided(np.full(len(scores), float(at_least)), scores, None, bounds, level, after, lowest)


def fewest_seeds(at_least: float, bounds: tuple[float, float] | None, level: float = LEVEL) -> int | None:
    """Return how many seeds a floor takes at least, if all episodes are the best there can be, or None.

    >>> fewest_seeds(0.9, (0.0, 1.0)), fewest_seeds(450.0, None), fewest_seeds(1.0, (0.0, 1.0))
    (43, 14, None)
    """
    if bounds is None:
        return FIRST
    gain, goal = float(bounds[1] - at_least), _goal(level)
    if gain <= 0:
        return None
    growths = np.log1p(np.array(_FINE) * gain / (at_least - bounds[0]))  # of each gambler's log wealth with a seed

    def lacks(seeds: int) -> bool:
        return bool(np.logaddexp.reduce(seeds * growths) - math.log(len(growths)) < goal)

    most = 1
    while lacks(most):
        most *= 2
    return bisect.bisect_left(range(most + 1), True, lo=1, key=lambda seeds: not lacks(seeds))


def evidence(gains: Scores, cost: float | Scores | None = None) -> Scores:
    """Return the log wealth of gamblers against «the mean is at most 0», for each row of gains, (gates, seeds).

    ``cost`` is the most that a seed can cost, if that is known; of shape (), or (gates,).
    """
    bets, most = (_BETS, 1.0) if cost is None else (_FINE, math.inf)
    costs = np.maximum(cost_of(gains) if cost is None else cost, _TINY)
    shares = np.clip(gains / np.reshape(costs, (-1, 1)), -1, most)
    wealth = [np.sum(np.log1p(np.maximum(bet * shares, _TINY - 1)), axis=1) for bet in bets]
    return np.asarray(np.logaddexp.reduce(wealth) - math.log(len(bets)))


def cost_of(gains: Scores) -> Scores:
    """Return the most that a seed is taken to cost, as the seeds of each row show it."""
    middle = np.median(gains, axis=1)
    falls, rises = middle - np.min(gains, axis=1), np.max(gains, axis=1) - middle
    lean = np.clip(falls / np.maximum(rises, _TINY), 1, _MOST_LEAN)
    reach = _DEEPER * (1 + 4 / gains.shape[1]) * np.maximum(falls * lean, rises / 2)
    return np.asarray(np.maximum(reach - middle, np.abs(middle)))


def depth_of(gains: Scores, base: Scores, candidate: Scores, lowest: float | Scores) -> tuple[Scores, Scores, Scores]:
    """Return how far below its mean a collapse falls, for each row: what is assumed, seen, and known besides.

    It is assumed to fall to nothing; if the differences are wide, as far below zero.
    """
    means, spreads = np.mean(base, axis=1), np.ptp(gains, axis=1)
    largest = np.maximum(np.max(np.abs(base), axis=1), np.max(np.abs(candidate), axis=1))
    assumed = np.clip(_COLLAPSE * spreads, np.abs(means), 2 * np.abs(means))
    assumed = np.where(spreads <= _EQUAL * largest, largest, assumed)
    seen = np.minimum(np.min(base, axis=1), np.min(candidate, axis=1))
    return assumed, means - seen, means - lowest


def verdicts(
    base: Scores,
    candidate: Scores,
    margin: Margin | None,
    bounds: tuple[float, float] | None = None,
    level: float = LEVEL,
    after: int = 0,
    lowest: float | Scores = math.inf,
) -> tuple[list[str], list[int]]:
    """Return the verdict of each of some gates, and the seeds that it took; the scores are of shape (gates, seeds).

    Without a margin, ``base`` has the floor. ``lowest`` is a known score, of shape () or (gates,). The other arguments
    are those of ``standing``.

    >>> verdicts(np.full((2, 20), 9.0), np.full((2, 20), [[9.0], [1.0]]), Margin(5.0))
    (['pass', 'worse'], [14, 14])
    """
    gates, count = base.shape
    said, taken = [UNDECIDED] * gates, [count] * gates
    left, known = np.arange(gates), np.broadcast_to(lowest, gates)
    for seeds in range(max(1 if bounds is not None else FIRST, after + 1), count + 1):
        if not len(left):
            break
        look = _Look(base[left, :seeds], candidate[left, :seeds], margin, bounds, _goal(level), known[left])
        worse, passes = look.has_won(-1), look.passes
        for number in np.flatnonzero(worse | passes):
            said[left[number]], taken[left[number]] = WORSE if worse[number] else PASS, seeds
        left = left[~(worse | passes)]
    return said, taken


@dataclass(frozen=True)
class _Look:
    """What some seeds bring, of shape (gates, seeds): how much better than allowed the candidate is on each."""

    base: Scores
    candidate: Scores
    margin: Margin | None  # None: the base is a floor
    bounds: tuple[float, float] | None
    goal: float
    lowest: float | Scores = math.inf

    @functools.cached_property
    def gains(self) -> Scores:
        return self.candidate - self.base + self.allowed

    @functools.cached_property
    def allowed(self) -> Scores:
        """How much worse each seed may be: of a share, so that their mean is that share of the base's mean."""
        if self.margin is None:
            return np.zeros_like(self.base)
        if not self.margin.is_share:
            return np.full_like(self.base, self.margin.amount)
        signs = np.sign(np.mean(self.base, axis=1, keepdims=True))
        return np.asarray(self.margin.amount * signs * self.base)

    def _allowed_at(self, base: float | Scores) -> float | Scores:
        """Return how much worse a seed may be on which the base has this score."""
        if self.margin is None:
            return 0.0
        if not self.margin.is_share:
            return self.margin.amount
        return np.asarray(self.margin.amount * np.sign(np.mean(self.base, axis=1)) * base)

    @property
    def slack(self) -> Scores:
        """How much worse the candidate may be on average: the margin."""
        if self.margin is None or self.margin.is_share:
            return np.asarray(np.mean(self.allowed, axis=1))
        return np.full(len(self.base), self.margin.amount)

    def has_won(self, sign: int, shift: float = 0.0) -> npt.NDArray[np.bool_]:
        """Return whether a gambler has won against «the mean gain less ``shift`` is at most zero»; -1: at least."""
        cost = None
        if self.bounds is not None:
            low, high = self.bounds
            worst, best = (high, low) if self.margin is not None else (self.base[:, 0],) * 2  # of the base, for a gain
            most = worst - low - self._allowed_at(worst) if sign > 0 else high - best + self._allowed_at(best)
            cost = np.maximum(most + sign * shift, _TINY)
        return np.asarray(evidence(sign * (self.gains - shift), cost) >= self.goal)

    @property
    def passes(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.has_won(1) & (self.gains.shape[1] >= self.fewest))

    @functools.cached_property
    def depths(self) -> tuple[Scores, Scores, Scores]:
        """How far a collapse falls: assumed, seen on these seeds, and known besides."""
        return depth_of(self.gains, self.candidate if self.margin is None else self.base, self.candidate, self.lowest)

    @property
    def fewest(self) -> Scores:
        """How many seeds a pass takes at least: on fewer, a collapse that costs the slack may not show."""
        if self.bounds is not None:
            return np.zeros(len(self.base))
        slack = np.maximum(np.mean(self.gains, axis=1), _TINY) if self.margin is None else self.slack
        assumed, *others = (self._fewest_of(depth, slack) for depth in self.depths)
        has_depth = np.maximum.reduce(self.depths) > 0
        return np.where(has_depth, np.maximum.reduce([assumed, *(_KNOWN * other for other in others)]), math.inf)

    def _fewest_of(self, depth: Scores, slack: Scores) -> Scores:
        share = np.clip(slack / np.maximum(depth, _TINY), _TINY, 1 - _TINY)
        return np.asarray(1 - self.goal / np.log1p(-share))

    def unseen(self) -> float:
        """What a collapse of the first gate costs on average that may not have shown on these seeds: see ``fewest``."""
        assumed, *others = (float(depth[0]) for depth in self.depths)
        seeds = self.gains.shape[1]
        costs = [self._unseen_of(assumed, seeds), *(self._unseen_of(depth, seeds / _KNOWN) for depth in others)]
        return max(costs) if max(assumed, *others) > 0 else math.inf

    def _unseen_of(self, depth: float, seeds: float) -> float:
        return max(depth, 0.0) * -math.expm1(-self.goal / (seeds - 1)) if seeds > 1 else math.inf

    def low(self) -> float:
        """Return less the smallest margin with which the first gate would pass; of a floor, how far it may be above."""
        evident = self.end(1)
        if self.bounds is not None:
            return evident
        return min(evident, (float(np.mean(self.gains)) if self.margin is None else 0.0) - self.unseen())

    def end(self, sign: int) -> float:
        """Return the lower end of the interval of the first gate's difference (-1: the upper one), by bisection."""
        middle, slack = float(np.mean(self.gains[0])), float(self.slack[0])
        width = 2 * max(float(cost_of(sign * self.gains)[0]), abs(middle), slack, _TINY)
        inside, outside = middle, middle - sign * width
        for _ in range(_HALVINGS):
            if self.has_won(sign, outside)[0]:
                break
            width *= 2
            outside = middle - sign * width
        else:
            return -sign * math.inf
        for _ in range(_HALVINGS):
            halfway = (inside + outside) / 2
            inside, outside = (inside, halfway) if self.has_won(sign, halfway)[0] else (halfway, outside)
        return outside - slack


def _decided(
    base: Scores,
    candidate: Scores,
    margin: Margin | None,
    bounds: tuple[float, float] | None,
    level: float,
    after: int,
    lowest: Lowest,
) -> Standing:
    """Return the standing at the first decisive seed, else at the last."""
    count = len(base)
    if not count:
        return Standing(UNDECIDED, 0)
    (verdict,), (seeds,) = verdicts(base[None], candidate[None], margin, bounds, level, after, lowest.score)
    look = _Look(base[None, :seeds], candidate[None, :seeds], margin, bounds, _goal(level), lowest.score)
    is_early = bounds is None and count < FIRST
    slack = float(look.slack[0])
    low, high = (-math.inf, math.inf) if is_early else (look.low(), look.end(-1))
    low = max(low, math.nextafter(-slack, math.inf)) if verdict == PASS else min(low, -slack)
    cost = float(cost_of(-look.gains)[0]) - slack
    means = float(np.mean(look.base)), float(np.mean(look.candidate))
    is_same = margin is not None and bool(np.all(look.base == look.candidate))
    standing = Standing(verdict, seeds, *means, slack, low, high, cost, is_same=is_same)
    if bounds is not None:
        return standing
    depths = [float(depth[0]) for depth in look.depths]
    source = (ASSUMED, GATE, lowest.source)[int(np.argmax(depths))]
    return replace(standing, depth=max(depths), depth_from=source)


def _goal(level: float) -> float:
    """Return the logarithm of the wealth that wins."""
    return math.log(1 / (1 - level))
