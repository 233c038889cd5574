"""The verdict as a picture: a row for each configuration, with its runs, its mean, and how far the best is ahead of it.

The page and Matplotlib draw the same rows on the same axes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tune_media.experiment.status import TrialStatus
from tune_media.viewing import wording
from tune_media.viewing.configurations import FAILED, NOT_FINITE, Judged, Run
from tune_media.viewing.inference import Estimate, Lead

FIRST = 12
"""So many rows are drawn unless somebody asks for more."""
_ALONE = 3.0  # times as long is an axis that one dot alone makes too long
Ends = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """A configuration.

    Attributes:
        runs: Its runs that have a score, by the numbers of their trials; also those that failed.
        mean: Their mean, with its interval; NaN if none counts.
        lead: How far the best one is ahead of it; None if that is not judged.
        words: What that means, or why it is not judged; empty for the best one.
    """

    runs: dict[int, Run]
    mean: Estimate
    lead: Lead | None
    words: str
    is_judged: bool


def rows(ranking: Sequence[Judged], statuses: Sequence[TrialStatus], *, has_verdict: bool = True) -> list[Row]:
    """Return the rows of judged configurations, in their order.

    Args:
        statuses: What became of each trial; empty if not known.
        has_verdict: Whether they are compared; otherwise the rows have dots only.

    >>> rows([], [])
    []
    """
    scored = [entry for entry in ranking if entry.n]
    has_verdict = has_verdict and len(scored) > 1
    has_steps = max((entry.n for entry in scored), default=0) == 1 and len({entry.step for entry in scored}) > 1
    return [_row(entry, statuses, has_verdict=has_verdict, has_steps=has_steps) for entry in ranking]


def _row(entry: Judged, statuses: Sequence[TrialStatus], *, has_verdict: bool, has_steps: bool) -> Row:
    scores = {trial: run for trial, run in entry.runs.items() if run.score is not None and math.isfinite(run.score)}
    words = _words(entry, statuses, has_steps=has_steps) if has_verdict or not entry.n else ""
    if not has_verdict:
        return Row(scores, Estimate(math.nan), None, words, is_judged=False)
    return Row(scores, entry.mean, None if entry.set_apart else entry.ahead, words, is_judged=not entry.set_apart)


def _words(entry: Judged, statuses: Sequence[TrialStatus], *, has_steps: bool) -> str:
    if not entry.n:
        failed = [trial for trial, run in entry.runs.items() if run.status == FAILED]
        if entry.set_apart == NOT_FINITE:
            return "not finite"
        return wording.without_score(len(failed), statuses[failed[0]].error if failed and statuses else "")
    step = f"step {entry.step:,.0f}" if entry.step is not None else ""
    if entry.set_apart:
        return wording.apart(entry.set_apart, step, led=entry.led, goes_on=entry.going_on > 0)
    words = wording.beside_best(entry.ahead) if entry.ahead else ""
    return ", ".join(filter(None, [words, step if has_steps else ""]))  # policies are judged as they stand


def axes(drawn: Sequence[Row]) -> tuple[Ends, Ends | None]:
    """Return the ends of both axes: of the scores, and of the lead of the best one; None if nothing is compared.

    >>> axes([])
    ((0.0, 1.0), None)
    """
    judged = [row for row in drawn if row.is_judged]
    return _of_scores(judged or drawn), _of_leads(judged) if judged else None


def _of_leads(judged: Sequence[Row]) -> Ends:
    leads = [row.lead for row in judged if row.lead]
    most = min(max((abs(lead.value) for lead in leads), default=0.0), sys.float_info.max / 2)  # which overflows
    if most == 0:  # all are equal
        most = max((lead.high for lead in leads if 0 < lead.high < math.inf), default=1.0)
    return -most, 2 * most


def _of_scores(judged: Sequence[Row]) -> Ends:
    """Return the range of dots, with room for intervals, at each end no more than the range itself.

    A dot that alone makes it more than three times as long is left out: it stands at the edge.
    """
    dots = sorted(run.score for row in judged for run in row.runs.values() if run.score is not None)
    if not dots:
        return 0.0, 1.0
    ends = [end for row in judged for end in (row.mean.value, row.mean.low, row.mean.high) if math.isfinite(end)]
    low, high = _without_far_dots(dots)
    if low == high:
        least, most = min(ends, default=low), max(ends, default=high)
        return (least, most) if least < most else (low - (abs(low) or 1.0) / 10, high + (abs(high) or 1.0) / 10)
    room = high - low
    return max(min([low, *ends]), low - room), min(max([high, *ends]), high + room)


def _without_far_dots(dots: Sequence[float]) -> Ends:
    low, high = dots[0], dots[-1]
    if len(dots) > 2 and high - low > _ALONE * (high - dots[1]) > 0:
        low = dots[1]
    if len(dots) > 2 and high - low > _ALONE * (dots[-2] - low) > 0:
        high = dots[-2]
    return low, high
