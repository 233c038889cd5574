"""What is said of the configurations: which one is the best, whether that is sure, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tune_media.experiment.status import UNENDED, TrialStatus
from tune_media.values.number import counted
from tune_media.viewing.configurations import Judged, masked, short, titles
from tune_media.viewing.statistics import Estimate, Scores
from tune_media.viewing.wording import (
    CLOSE,
    EQUAL,
    ERRS,
    FEW_EQUAL,
    ONE_RUN,
    ONE_RUN_EACH,
    ahead,
    claim,
    doubt,
    places_of_close,
    with_interval,
)

_FAR = 3.0  # times the range of the other runs
_FEWEST_OTHERS = 3
_MAX_TITLE = 60
_MOST_OF_TWO_KINDS = 3
_DIGITS = 4


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
    names = [_cut(title) for title in titles([masked(entry.configuration) for entry in scored])]
    close = [place for place, entry in enumerate(scored, 1) if entry.is_not_surely_worse]
    unended = _unended(scored, statuses) if statuses else 0
    mean, runs = scored[0].mean, counted(scored[0].n, "run")
    why = [f"Its {label} is {with_interval(mean.value, mean.low, mean.high, _DIGITS)} over {runs}."]
    why += _second(scored[0], scored[1], f"#2, {names[1]},")
    if len(close) > 1:
        why.append(places_of_close(close))
    if unended:
        why.append(f"{counted(unended, 'run')} {'has' if unended == 1 else 'have'} not ended and may change it.")
    why += [*_of_two_kinds(scored), *_best_run(scored, names, sign), ERRS]
    rest = doubt(*_why_unsure(scored, close)) if close else ""
    return Verdict(claim(is_sure=not close, is_final=not unended), names[0], rest, why, not close)


def _unended(scored: Sequence[Judged], statuses: Sequence[TrialStatus]) -> int:
    """Return how many of the runs that count have not ended."""
    counting = (number for entry in scored for number in entry.configuration.trials if number not in entry.left_out)
    return sum(statuses[number].word in UNENDED for number in counting)


def _second(best: Judged, second: Judged, name: str) -> Iterator[str]:
    """Yield how far the best one is ahead of the second, or, of policies on the seeds of both, the second of it."""
    lead = second.behind
    if lead is None:
        return
    if lead.value == 0:
        yield f"{name} has the same score."
        return
    over = f", over runs and {second.seeds} evaluation seeds" if second.seeds else ", over runs"
    over = f", on {second.seeds} evaluation seeds" if second.seeds and best.n == second.n == 1 else over
    text = ahead(lead, name, _DIGITS)
    yield f"{text[:1].upper()}{text[1:]}{'' if _is_alone(lead) else over}."


def _why_unsure(scored: Sequence[Judged], close: Sequence[int]) -> tuple[str, int]:
    """Return why the first one is not surely the best, and because of how many others."""
    equal = sum(entry.behind is not None and entry.behind.value == 0 for entry in scored[1:])
    if equal:
        return EQUAL, equal
    unknown = [scored[place - 1] for place in close if _is_alone(scored[place - 1].behind)]
    if not unknown:
        return CLOSE, len(close)
    if all(entry.n == 1 for entry in scored):
        return ONE_RUN_EACH, 1
    return ONE_RUN if any(entry.n == 1 for entry in (scored[0], *unknown)) else FEW_EQUAL, 1


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


def _cut(title: str) -> str:
    return title if len(title) <= _MAX_TITLE else f"{title[: _MAX_TITLE - 1]}…"
