"""What the episodes of two policies on the same seeds show: who wins, what differs with it, and on which seeds.

Nothing is said that chance explains in one of twenty comparisons of equal policies. First comes the difference of the
metric; only if that is sure are the other values of the episodes looked at, with Holm's correction for how many there
are. No sign test could be sure of a difference that fewer than six seeds show, so nothing is. A split of the seeds is
found on half of them, and said only if it holds on the other half (Fisher's exact test). It looks at what both
episodes of each seed have in common, such as the reset's observation: that base episodes with low returns are easy to
beat is true of equal policies, too.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tune_media.evaluation.measure import LENGTH, RETURN, SUCCESS, Measure
from tune_media.evaluation.sequential import UNDECIDED, Margin, Standing, standing
from tune_media.storage.episode_files import values_of
from tune_media.values.convert import as_numbers
from tune_media.values.episodes import STATISTICS
from tune_media.values.number import counted
from tune_media.viewing.list_formats import latex_of
from tune_media.viewing.statistics import paired_difference, paired_rates

ERROR = 0.05
"""How often equal policies are said to differ."""
_ERROR_OF_SPLIT = 0.01  # if no difference is found, so that both together hardly exceed the one
_LEAST_IN_SPLIT = 3  # seeds on each side
_MOST_TEXTS = 8  # that an ending may have
_TERM = re.compile("reward|cost|penalty", re.IGNORECASE)  # values of which the sum counts

Values = dict[int, float]  # by seed


@dataclass(frozen=True)
class Pair:
    """The episodes of both policies on one seed.

    Attributes:
        seed: The seed.
        base, candidate: The rows of the episodes.
        condition: The keys of the ``env_config`` that were changed, the same for both.
        facts: What is known of the episode before its first step.
    """

    seed: int
    base: Mapping[str, Any]
    candidate: Mapping[str, Any]
    condition: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared:
    """A value of the episodes, compared over the seeds.

    Attributes:
        name: Its name.
        base, candidate: The means.
        difference: The candidate's less the base's; of a metric that is better if smaller, too.
        low, high: The 95 % interval of the difference; None: infinite.
        p: The probability of such a difference of equal policies, corrected for how many values were looked at. None:
            the interval is a gate's, and corrected itself.
        is_sure: Whether it is said to differ.
        is_rate: Whether it is a share of the episodes.

    >>> Compared("length", 10.0, 12.5, 2.5, 1.0, 4.0, 0.01, True, False).sentence
    'length is higher: 12.5 against 10, +2.5 [1, 4]'
    >>> Compared("crash", 0.5, 0.0, -0.5, -0.7, -0.3, 0.01, True, True).sentence
    'crash is less frequent: 0% against 50%, -50% [-70%, -30%]'
    """

    name: str
    base: float
    candidate: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    is_sure: bool
    is_rate: bool

    @property
    def cells(self) -> list[str]:
        """The mean of the base, that of the candidate, their difference, and its interval, as text."""
        low, high = ("?" if end is None else self._shown(end) for end in (self.low, self.high))
        return [*map(self._shown, (self.base, self.candidate)), self._shown(self.difference, "+"), f"[{low}, {high}]"]

    @property
    def figures(self) -> str:
        """The same in a row."""
        base, candidate, difference, interval = self.cells
        return f"{candidate} against {base}, {difference} {interval}"

    @property
    def sentence(self) -> str:
        """What is said of it if it is sure."""
        more = ("more frequent", "less frequent") if self.is_rate else ("higher", "lower")
        return f"{self.name} is {more[self.difference < 0]}: {self.figures}"

    def _shown(self, value: float, sign: str = "") -> str:
        return f"{100 * value:{sign}.3g}%" if self.is_rate else _shown(value, sign)


@dataclass(frozen=True)
class Split:
    """What tells the seeds that the candidate wins from those that it loses.

    Attributes:
        name: The fact of the seeds, or the key of the ``env_config``.
        threshold: From which value on. None: the value is ``text``.
        text: The value, if it is no number.
        won, seeds: How many of the seeds that were held out the candidate wins there, of how many.
        others_won, others: The same of the other seeds.
        p: The probability of so large a difference by chance.

    >>> Split("wind", 0.5, "", 1, 9, 8, 9, 0.002).sentence
    'it wins 1 of 9 seeds with wind >= 0.5, and 8 of 9 others'
    """

    name: str
    threshold: float | None
    text: str
    won: int
    seeds: int
    others_won: int
    others: int
    p: float

    @property
    def condition(self) -> str:
        """What holds of the seeds."""
        return f"{self.name} = {self.text}" if self.threshold is None else f"{self.name} >= {_shown(self.threshold)}"

    @property
    def sentence(self) -> str:
        """What is said of it."""
        seeds = counted(self.seeds, "seed")
        return f"it wins {self.won} of {seeds} with {self.condition}, and {self.others_won} of {self.others} others"


@dataclass(frozen=True)
class Ending:
    """How many episodes ended in a way.

    Attributes:
        name: The way.
        base, candidate: How many episodes of each.
    """

    name: str
    base: int
    candidate: int


@dataclass(frozen=True)
class Findings:
    """What is to be said of the pairs.

    Attributes:
        metric: What decides who wins a seed.
        sign: 1: larger is better. -1: smaller is.
        main: The comparison of the metric.
        is_sequential: Whether the intervals are a gate's, which stopped as soon as it was sure.
        scores: On each seed the metric of the base, and of the candidate.
        values: The other values that were compared; the surest first.
        split: What tells the seeds that it wins from the others, or None.
        facts_tried: The facts of the seeds among which a split was looked for.
        endings: How the episodes ended.
        decisive: The indices of the pairs with the largest differences, the largest first.
    """

    metric: str
    sign: int
    main: Compared
    is_sequential: bool
    scores: Mapping[int, tuple[float, float]]
    values: Sequence[Compared]
    split: Split | None
    facts_tried: Sequence[str]
    endings: Sequence[Ending]
    decisive: Sequence[int]

    @property
    def won(self) -> int:
        """The number of seeds on which the candidate is better."""
        return sum(self.sign * _difference(ours, theirs) > 0 for ours, theirs in self.scores.values())

    @property
    def lost(self) -> int:
        """The number of seeds on which it is worse."""
        return sum(self.sign * _difference(ours, theirs) < 0 for ours, theirs in self.scores.values())

    @property
    def reasons(self) -> list[Compared]:
        """The values that surely differ, if the metric does."""
        return [value for value in self.values if value.is_sure]

    @property
    def sentence(self) -> str:
        """What it comes to."""
        seeds, figures = counted(len(self.scores), "seed"), f"{self.metric} {self.main.figures}"
        if not self.main.is_sure:
            said = f"No difference found: the candidate wins {self.won} of {seeds} and loses {self.lost}; {figures}"
        else:
            is_better = self.main.difference * self.sign > 0
            verb, count = ("wins", self.won) if is_better else ("loses", self.lost)
            said = f"The candidate {verb} {count} of {seeds}; {figures}"
        said += "".join(f"; {reason.sentence}" for reason in self.reasons[:1])
        return said + (f". On seeds that were held out, {self.split.sentence}." if self.split else ".")

    @property
    def table(self) -> list[list[str]]:
        """The comparison as the lines of a table, the header first."""
        head = ["", "base", "candidate", "difference", "95% interval"]
        return [head, *([one.name, *one.cells] for one in (self.main, *self.values))]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        head, *rows = ([cell.replace("|", r"\|") for cell in line] for line in self.table)
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def latex(self) -> str:
        """Return the table as a LaTeX tabular."""
        return latex_of(self.table)

    def facts(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "sentence": self.sentence,
            "metric": self.metric,
            "mode": "max" if self.sign > 0 else "min",
            "difference": _told(self.main),
            "interval": "sequential" if self.is_sequential else "fixed",
            "seeds": len(self.scores),
            "won": self.won,
            "lost": self.lost,
            "by_seed": [
                {"seed": seed, "base": ours, "candidate": theirs, "better_by": self.sign * _difference(ours, theirs)}
                for seed, (ours, theirs) in self.scores.items()
            ],
            "reasons": [_told(one) for one in self.reasons],
            "values": [_told(one) for one in self.values],
            "split": None if self.split is None else {**asdict(self.split), "condition": self.split.condition},
            "facts_tried": list(self.facts_tried),
            "endings": [asdict(one) for one in self.endings],
        }


def findings(pairs: Sequence[Pair], measure: Measure, of_gate: Standing | None = None) -> Findings:
    """Return what pairs of episodes show.

    Args:
        pairs: The pairs, in the order of their seeds; under several conditions, a pair for each.
        measure: What decides who wins.
        of_gate: How a gate stands that played them, and stopped when it was sure. None: all seeds were played.

    Raises:
        ValueError: An episode has no such metric, or there is no pair.
    """
    if not pairs:
        raise ValueError("there is no seed that both have played")
    ours, theirs = ([measure.sign * measure.value(row) for row in rows] for rows in _rows(pairs))
    is_rate = measure.metric == SUCCESS
    main = _compared(measure.metric, pairs, ours, theirs, is_rate=is_rate)
    if of_gate is not None:
        ends = sorted((measure.sign * of_gate.low, measure.sign * of_gate.high))
        low, high = (end if math.isfinite(end) else None for end in ends)
        is_sure = (low is not None and low > 0) or (high is not None and high < 0)
        main = replace(main, low=low, high=high, p=None, is_sure=is_sure)
    better = [measure.sign * _difference(*both) for both in zip(ours, theirs, strict=True)]
    numbers = [[_numbers(row) for row in rows] for rows in _rows(pairs)]
    names = _comparable(numbers, measure.metric, [ours, theirs])
    values = _values(pairs, numbers, names, is_sure=main.is_sure, is_sequential=of_gate is not None)
    facts = _facts(pairs, numbers)
    split = _split(pairs, better, facts, ERROR if main.is_sure else _ERROR_OF_SPLIT)
    order = sorted((at for at, one in enumerate(better) if one), key=lambda at: -abs(better[at]))
    candidates = _by_seed(pairs, theirs)
    tried = [*facts, *(f"env_config {name}" for name in _changing(pairs))]
    return Findings(
        measure.metric,
        measure.sign,
        main,
        of_gate is not None,
        {seed: (own, candidates[seed]) for seed, own in _by_seed(pairs, ours).items()},
        values,
        split,
        tried,
        _endings(pairs),
        order,
    )


def _told(one: Compared) -> dict[str, Any]:
    return {**asdict(one), "sentence": one.sentence if one.is_sure else None, "cells": one.cells}


def _rows(pairs: Sequence[Pair]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    return [pair.base for pair in pairs], [pair.candidate for pair in pairs]


def _difference(base: float, candidate: float) -> float:
    """Return how much larger the candidate's number is; nothing, if only sums of floats are rounded differently."""
    return 0.0 if math.isclose(base, candidate, rel_tol=1e-10, abs_tol=1e-12) else candidate - base


def _by_seed(pairs: Sequence[Pair], values: Sequence[float]) -> Values:
    """Return the mean of each seed over the conditions: episodes of one seed do not count as several."""
    found: dict[int, list[float]] = {}
    for pair, value in zip(pairs, values, strict=True):
        found.setdefault(pair.seed, []).append(value)
    return {seed: math.fsum(own) / len(own) for seed, own in found.items()}


def _compared(
    name: str, pairs: Sequence[Pair], ours: Sequence[float], theirs: Sequence[float], *, is_rate: bool
) -> Compared:
    """Compare a value for a fixed number of seeds; nothing is corrected."""
    base, candidate = _by_seed(pairs, ours), _by_seed(pairs, theirs)
    means = [math.fsum(own.values()) / len(own) for own in (base, candidate)]
    if is_rate and len(base) == len(pairs):
        found, _ = paired_rates(_as_bools(candidate), _as_bools(base))
    else:
        found, _ = paired_difference(candidate, base)
    p = _chance(np.array([candidate[seed] - base[seed] for seed in base]))
    low, high = (end if math.isfinite(end) else None for end in (found.low, found.high))
    is_sure = p <= ERROR and not found.has_zero
    return Compared(name, means[0], means[1], found.value, low, high, p, is_sure, is_rate)


def _as_bools(values: Values) -> dict[int, bool]:
    return {seed: value > 0 for seed, value in values.items()}


def _chance(differences: Any) -> float:
    """Return how probable such a mean difference of equal policies is, by Student's t test of the differences.

    The signs of the differences of equal policies are tosses of a coin, so no result is less probable than all alike.
    """
    from scipy import special  # when it is needed: it takes longer to import than all of tune_media.load

    size, count = float(np.max(np.abs(differences))), len(differences)
    differing = int(np.sum(np.abs(differences) > 1e-10 * size)) if size else 0
    if not differing or count < 2:
        return 1.0
    least = 2.0 ** (1 - differing)
    error = float(np.std(differences, ddof=1)) / math.sqrt(count)
    if error <= 1e-10 * size:
        return least
    return max(least, float(2 * special.stdtr(count - 1, -abs(float(np.mean(differences))) / error)))


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of an episode that are compared, by name."""
    told = values_of(row)
    series, metrics = told["series"], told["metrics"]
    found = {LENGTH: float(row["episode_length"]), RETURN: float(row["episode_return"])}
    if row["success"] is not None:
        found[SUCCESS] = float(row["success"])
    if row["terminated"] is not None:
        found["terminated"] = float(row["terminated"])
    for name, value in metrics.items():
        base, _, statistic = name.rpartition("_")
        if not (base in series and statistic in STATISTICS):  # of a series, one statistic is enough
            found[name] = value
    for name, values in series.items():
        numbers = as_numbers(values)
        if numbers is not None and numbers.ndim == 1 and numbers.size:
            mean = metrics.get(f"{name}_avg", float(np.mean(numbers)))
            total = float(np.sum(numbers)) if not told["every"].get(name) else mean * float(row["episode_length"])
            is_term = _TERM.search(name)
            found[f"{name}_sum" if is_term else f"{name}_avg"] = total if is_term else mean
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the last text of each value that has texts."""
    told = values_of(row)
    last = {name: values[-1] for name, values in told["series"].items() if len(values)}
    return {name: value for name, value in {**last, **told["values"]}.items() if isinstance(value, str)}


def _comparable(numbers: Sequence[Sequence[Mapping[str, float]]], metric: str, scores: Any) -> list[str]:
    """Return the names that all episodes have, without the metric, and what is always the same number as that."""
    rows = [row for of_side in numbers for row in of_side]
    known = [score for of_side in scores for score in of_side]
    common = [name for name in rows[0] if all(name in row for row in rows)]
    return [
        name for name in common if name != metric and any(row[name] != k for row, k in zip(rows, known, strict=True))
    ]


def _values(
    pairs: Sequence[Pair],
    numbers: Sequence[Sequence[Mapping[str, float]]],
    names: Sequence[str],
    *,
    is_sure: bool,
    is_sequential: bool,
) -> list[Compared]:
    """Return the comparison of the named values that differ at all, the surest first.

    Nothing is sure unless the metric is; ``is_sequential``: the pairs are a gate's.
    """
    columns = {name: tuple([row[name] for row in of_side] for of_side in numbers) for name in names}
    columns |= _columns_of_texts(pairs)
    differing = {name: both for name, both in columns.items() if both[0] != both[1]}
    found = []
    for name, (ours, theirs) in differing.items():
        is_rate = all(value in (0, 1) for value in (*ours, *theirs))
        one = _compared(name, pairs, ours, theirs, is_rate=is_rate)
        found.append(_of_gate(one, ours, theirs, len(differing)) if is_sequential else one)
    if not is_sequential:
        found = _corrected(found)
    found = [replace(one, is_sure=one.is_sure and is_sure) for one in found]
    return sorted(found, key=lambda one: (not one.is_sure, _p(one), -_size(one)))


def _columns_of_texts(pairs: Sequence[Pair]) -> dict[str, tuple[list[float], ...]]:
    """Return for each text that episodes end with whether they do."""
    texts = [[_texts(row) for row in rows] for rows in _rows(pairs)]
    found: dict[str, tuple[list[float], ...]] = {}
    for name in dict.fromkeys(name for of_side in texts for row in of_side for name in row):
        known = dict.fromkeys(row[name] for of_side in texts for row in of_side if name in row)
        for text in known if len(known) <= _MOST_TEXTS else ():
            found[f"{name} = {text}"] = tuple([float(row.get(name) == text) for row in of_side] for of_side in texts)
    return found


def _corrected(found: Sequence[Compared]) -> list[Compared]:
    """Correct for how many values there are (Holm): one of equal values is sure in one of twenty reports."""
    order = sorted(range(len(found)), key=lambda at: _p(found[at]))
    largest, changed = 0.0, list(found)
    for rank, at in enumerate(order):
        largest = min(1.0, max(largest, _p(found[at]) * (len(found) - rank)))
        changed[at] = replace(found[at], p=largest, is_sure=largest <= ERROR and found[at].is_sure)
    return changed


def _of_gate(one: Compared, ours: Sequence[float], theirs: Sequence[float], tried: int) -> Compared:
    """Return a value with an interval that holds although the gate stopped when it was sure, corrected for how many."""
    level = 1 - ERROR / 2 / tried
    stood = standing(np.array(ours), np.array(theirs), Margin(0.0), (0.0, 1.0) if one.is_rate else None, level)
    most = 1.0 if one.is_rate else math.inf
    ends = max(stood.low, -most), min(stood.high, most)
    low, high = (end if math.isfinite(end) else None for end in ends)
    return replace(one, low=low, high=high, p=None, is_sure=stood.verdict != UNDECIDED)


def _p(one: Compared) -> float:
    return 1.0 if one.p is None else one.p


def _size(one: Compared) -> float:
    """Return how large a difference is beside its interval."""
    if one.low is None or one.high is None:
        return 0.0
    return abs(one.difference) / max(one.high - one.low, 1e-12)


def _facts(pairs: Sequence[Pair], numbers: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, list[float]]:
    """Return what the episodes of each seed have in common, whoever plays, and not all seeds have."""
    ours, theirs = numbers
    starts = [[_starts(row) for row in rows] for rows in _rows(pairs)]
    found: dict[str, list[float]] = {}
    for one, other in ((ours, theirs), (starts[0], starts[1])):
        for name in one[0]:
            values = [row.get(name, math.nan) for row in one]
            if values == [row.get(name, math.nan) for row in other]:
                found[name] = values
    for name in pairs[0].facts:
        found[name] = [float(pair.facts.get(name, math.nan)) for pair in pairs]
    for name, (own, others) in _columns_of_texts(pairs).items():
        if own == others:
            found[name] = own
    shown: dict[str, list[float]] = {}
    for name, values in found.items():
        if len(set(values)) > 1 and all(map(math.isfinite, values)) and values not in shown.values():
            shown[name] = values
    return shown


def _starts(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the first value of each series of numbers."""
    found = {}
    for name, values in values_of(row)["series"].items():
        numbers = as_numbers(values)
        if numbers is not None and numbers.ndim == 1 and numbers.size:
            found[f"{name} at first"] = float(numbers[0])
    return found


def _split(
    pairs: Sequence[Pair], better: Sequence[float], facts: Mapping[str, Sequence[float]], error: float
) -> Split | None:
    """Return the fact that best separates the seeds that the candidate wins from those that it loses, if it holds.

    Chance is taken for such a fact in a share of ``error`` of all reports.
    """
    order = {seed: at for at, seed in enumerate(dict.fromkeys(pair.seed for pair in pairs))}
    by_seed = _by_seed(pairs, better)
    of_seeds = {pair.seed: at for at, pair in enumerate(pairs)}  # one pair of each: facts are those of the seed
    seeds = [(of_seeds[seed], value) for seed, value in by_seed.items() if abs(value) > 1e-12]
    of_pairs = [(at, value) for at, value in enumerate(better) if value]
    config = {f"env_config {name}": [pair.condition.get(name) for pair in pairs] for name in _changing(pairs)}
    best, most = None, 0.0
    for units, columns in ((seeds, facts), (of_pairs, config)):
        wins = np.array([value > 0 for _, value in units], dtype=bool)
        held_out = np.array([order[pairs[at].seed] % 2 == 1 for at, _ in units], dtype=bool)
        for name, values in columns.items():
            for threshold, text, is_there in _ways([values[at] for at, _ in units], held_out):
                strength = _strength(is_there[~held_out], wins[~held_out])
                if strength > most:
                    best, most = (Split(name, threshold, text, 0, 0, 0, 0, 1.0), is_there, wins, held_out), strength
    split = None if best is None else _checked(*best)
    return split if split is not None and split.p <= error else None


def _strength(is_there: Any, wins: Any) -> float:
    """Return how far what holds of some units separates those that are won: the correlation, without its sign."""
    if min(is_there.sum(), (~is_there).sum()) < _LEAST_IN_SPLIT or wins.all() or not wins.any():
        return 0.0
    return abs(float(np.corrcoef(is_there, wins)[0, 1]))


def _checked(found: Split, is_there: Any, wins: Any, held_out: Any) -> Split:
    """Return a split that half of the units show with what the half that was held out says."""
    from scipy import stats

    wins_more = wins[~held_out & is_there].mean() > wins[~held_out & ~is_there].mean()
    inside, others = wins[held_out & is_there], wins[held_out & ~is_there]
    won, others_won = int(inside.sum()), int(others.sum())
    table = [[won, len(inside) - won], [others_won, len(others) - others_won]]
    p = float(stats.fisher_exact(table, "greater" if wins_more else "less")[1])
    return replace(found, won=won, seeds=len(inside), others_won=others_won, others=len(others), p=p)


def _changing(pairs: Sequence[Pair]) -> list[str]:
    """Return the keys of the ``env_config`` that have several values."""
    first = pairs[0].condition
    names = dict.fromkeys(name for pair in pairs for name in pair.condition)
    return [name for name in names if any(pair.condition.get(name) != first.get(name) for pair in pairs)]


def _ways(values: Sequence[Any], held_out: Any) -> Iterator[tuple[float | None, str, Any]]:
    """Yield the ways to split units by a value of each: a threshold between two numbers, or a text.

    With it comes whether it holds for each unit. Thresholds are between the numbers that are not held out.
    """
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        numbers = np.array(values, dtype=float)
        known = np.unique(numbers[~held_out])
        for middle in (known[:-1] + known[1:]) / 2:
            yield float(middle), "", numbers >= middle
        return
    texts = [value if isinstance(value, str) else json.dumps(value, default=str) for value in values]
    for text in dict.fromkeys(texts):
        yield None, text, np.array([own == text for own in texts], dtype=bool)


def _endings(pairs: Sequence[Pair]) -> list[Ending]:
    """Return how the episodes ended; every way that is known is counted."""
    told: list[Callable[[Mapping[str, Any]], list[str]]] = [
        lambda row: [{True: "terminated", False: "truncated"}.get(row["terminated"], "end not known")],
        lambda row: [{True: "success", False: "no success"}[row["success"]]] if row["success"] is not None else [],
    ]
    of_texts = _columns_of_texts(pairs).keys()
    told.append(lambda row: [one for name, text in _texts(row).items() if (one := f"{name} = {text}") in of_texts])
    counts = [Counter(way for row in rows for tell in told for way in tell(row)) for rows in _rows(pairs)]
    return [Ending(name, counts[0][name], counts[1][name]) for name in dict.fromkeys([*counts[0], *counts[1]])]


def _shown(value: float, sign: str = "") -> str:
    """Return a number as a reader wants it.

    >>> _shown(11.482933, "+"), _shown(0.0)
    ('+11.48', '0')
    """
    return f"{value:{sign}.4g}" if value else "0"
