"""What is said of the configurations: which one is the best, whether that is sure, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tune_media.experiment.status import UNENDED, TrialStatus
from tune_media.values.number import counted
from tune_media.viewing.configurations import Judged, masked, short, titles
from tune_media.viewing.statistics import Estimate, Scores

_FAR = 3.0  # times the range of the other runs
_FEWEST_OTHERS = 3
_MAX_TITLE = 60
_MOST_OF_TWO_KINDS = 3
_SURE = "«Surely» errs in at most one of twenty sweeps of equal configurations. Intervals: 95 %."


@dataclass(frozen=True)
class Verdict:
    """Which configuration is the best.

    Attributes:
        lead: What is claimed of it, such as ``Surely the best``.
        title: Its hyperparameters.
        rest: Why it is not sure, in a sentence; empty if it is.
        why: The numbers, in sentences.
        is_sure: Whether it is surely the best of these runs.
    """

    lead: str
    title: str
    rest: str
    why: Sequence[str]
    is_sure: bool

    @property
    def sentence(self) -> str:
        """All but the numbers.

        >>> Verdict("Best so far", "lr 0.01", "One run each cannot tell.", [], False).sentence
        'Best so far: lr 0.01. One run each cannot tell.'
        """
        return f"{self.lead}: {self.title}. {self.rest}".rstrip()


def verdict(ranking: Sequence[Judged], statuses: Sequence[TrialStatus], label: str, *, sign: int = 1) -> Verdict | None:
    """Return what is said of judged configurations; None if fewer than two of them have a score.

    Args:
        ranking: The configurations, the best first.
        statuses: What became of each trial; empty if not known.
        label: What the score is, in words.
        sign: -1 if the lowest score is the best.

    >>> verdict([], [], "mean return")
    """
    scored = [entry for entry in ranking if entry.n]
    if len(scored) < 2:
        return None
    best, second, *_ = scored
    names = [_cut(title) for title in titles([masked(entry.configuration) for entry in scored])]
    counting = [number for entry in scored for number in entry.configuration.trials if number not in entry.left_out]
    unended = sum(statuses[number].word in UNENDED for number in counting) if statuses else 0
    close = [place for place, entry in enumerate(scored, 1) if entry.is_not_surely_worse]
    lead = ("So far surely the best" if unended else "Surely the best") if not close else "Best so far"
    why = [f"Its {label} is {_text(best.mean)} over {counted(best.n, 'run')}."]
    if second.behind is not None:
        over = f"over runs and {second.seeds} evaluation seeds" if second.seeds else "over runs"
        over = f"on {second.seeds} evaluation seeds" if second.seeds and best.n == second.n == 1 else over
        over = "" if _is_alone(second.behind) else f", {over}"
        if second.behind.value == 0:
            why.append(f"#2, {names[1]}, has the same score.")
        elif second.behind.value > 0:
            why.append(f"It is ahead of #2, {names[1]}, by {_text(second.behind)}{over}.")
        else:  # of policies: on the seeds that both have played
            ahead = Estimate(-second.behind.value, -second.behind.high, -second.behind.low)
            why.append(f"#2, {names[1]}, is ahead of it by {_text(ahead)}{over}.")
    if len(close) > 1:
        why.append(f"Not surely worse are #{', #'.join(map(str, close))}.")
    if unended:
        why.append(f"{counted(unended, 'run')} {'has' if unended == 1 else 'have'} not ended and may change it.")
    why += _of_two_kinds(scored)
    why += _best_run(scored, names, sign)
    return Verdict(lead, names[0], _doubt(scored, close), [*why, _SURE], not close)


def _doubt(scored: Sequence[Judged], close: Sequence[int]) -> str:
    """Return why the first one is not surely the best, in a sentence; empty if it is."""
    if not close:
        return ""
    equal = sum(entry.behind is not None and entry.behind.value == 0 for entry in scored[1:])
    if equal:
        return "Another one has the same score." if equal == 1 else f"{equal} others have the same score."
    unknown = [place for place in close if _is_alone(scored[place - 1].behind)]
    if unknown and all(entry.n == 1 for entry in scored):
        return "One run each cannot tell."
    if unknown and (scored[0].n == 1 or any(scored[place - 1].n == 1 for place in unknown)):
        return "One run cannot tell."
    if unknown:
        return "All its runs are equal."
    return "Another one may be as good." if len(close) == 1 else f"{len(close)} others may be as good."


def far_runs(scores: Scores) -> int:
    """Return how many runs lie far from the others, on one side: they collapsed, or alone did not.

    They are fewer than the others, of which there are three at least, and the gap between them is more than three
    times the range of the others.

    >>> far_runs(np.array([500.0, 480.0, 490.0, 10.0])), far_runs(np.array([1.0, 2.0, 3.0, 4.0]))
    (1, 0)
    """
    values = np.sort(scores.ravel())
    for count in range(1, (len(values) - 1) // 2 + 1):
        if len(values) - count < _FEWEST_OTHERS:
            break
        for others, far in ((values[count:], values[count - 1]), (-values[:-count][::-1], -values[-count])):
            if others[0] - far > _FAR * max(others[-1] - others[0], 1e-9 * abs(others[0])):
                return count
    return 0


def _of_two_kinds(scored: Sequence[Judged]) -> list[str]:
    lines: list[str] = []
    for place, entry in enumerate(scored, 1):
        may_win = (place == 1 or entry.is_not_surely_worse) and len(lines) < _MOST_OF_TWO_KINDS
        if may_win and entry.scores.shape[1] == 1 and (far := far_runs(entry.scores)):
            runs = f"{far} of the {entry.n} runs of #{place} {'lies' if far == 1 else 'lie'} far from the others"
            lines.append(f"{runs}: the mean describes neither kind, and its interval may miss.")
    return lines


def _best_run(scored: Sequence[Judged], names: Sequence[str], sign: int) -> list[str]:
    """Return which single run has a better score than all runs of the best configuration, in a sentence."""
    tops = [sign * float(np.max(sign * entry.scores)) for entry in scored]
    place = max(range(len(scored)), key=lambda at: sign * tops[at])
    if place == 0 or tops[place] == tops[0]:
        return []
    entry = scored[place]
    which = "highest" if sign > 0 else "lowest"
    top, mean = short(tops[place]), short(entry.mean.value)
    return [f"The {which} single run is one of #{place + 1}, {names[place]}, with {top}; their mean is {mean}."]


def _is_alone(estimate: Estimate | None) -> bool:
    return estimate is None or math.isnan(estimate.low)


def _text(estimate: Estimate) -> str:
    value = short(estimate.value, digits=4)
    return value if _is_alone(estimate) else f"{value} [{estimate.low:.4g}, {estimate.high:.4g}]"


def _cut(title: str) -> str:
    return title if len(title) <= _MAX_TITLE else f"{title[: _MAX_TITLE - 1]}…"
