"""The picture of the verdict as a figure, for papers: ``tune-media figure --verdict``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_media.values.number import counted
from tune_media.viewing import comparison, verdict_picture, wording
from tune_media.viewing.configurations import FAILED, RUNNING, Judged, masked, titles
from tune_media.viewing.figure import (
    INK,
    PALE,
    TEXT,
    Drawn,
    WrittenFigure,
    failures,
    label_of,
    matplotlib_figure,
    metric_of,
)
from tune_media.viewing.looks import color_of

if TYPE_CHECKING:
    from tune_media.viewing.catalog import Catalog

_WIDTH, _ROW = 7.0, 0.3  # inches, without names and words
_BAR = 0.34  # of a row
_BAR_COLOR = "#2f7d6b"
_DIGITS = 3


def write_verdict(
    catalog: Catalog, path: Path, metric: str | None = None, by: Sequence[str] | None = None
) -> WrittenFigure:
    """Draw the rows of the picture; for ``metric`` and ``by``, see ``write_figure``."""
    name = metric_of(catalog, metric)
    scores = comparison.scores_by(catalog.trials, name)
    ranking = comparison.judged(catalog.trials, catalog.statuses, scores, by=by, metric=name)
    configurations = [_drawn(entry) for entry in ranking[: verdict_picture.FIRST]]
    rows = verdict_picture.rows(ranking, catalog.statuses)[: verdict_picture.FIRST]
    with matplotlib_figure(_WIDTH, 0.7 + _ROW * len(rows), path) as figure:
        colors = [color_of(entry.configuration.place) for entry in ranking[: len(rows)]]
        _draw(figure, rows, titles([masked(entry.configuration) for entry in ranking]), label_of(name), colors)
    first = f"the first {len(rows)} of " if len(ranking) > len(rows) else ""
    sentence = f"The verdict on {first}{counted(len(ranking), 'configuration')} in {path}"
    return WrittenFigure(sentence, failures(ranking, name), name, configurations)


def _drawn(entry: Judged) -> Drawn:
    counting = [number for number, run in entry.runs.items() if run.counts]
    return Drawn(entry.configuration, counting, entry.step, entry.mean if counting else None)


def _draw(
    figure: Any, rows: Sequence[verdict_picture.Row], names: Sequence[str], label: str, colors: Sequence[str]
) -> None:
    of_scores, of_leads = verdict_picture.axes(rows)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[5, 4])
    for axes, ends, title in ((left, of_scores, label), (right, of_leads or (0.0, 1.0), wording.AHEAD_BY)):
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.grid(axis="x", color=PALE, linewidth=0.6)
        axes.set_axisbelow(True)
        room = 0.04 * (ends[1] - ends[0])
        axes.set_xlim(ends[0] - room, ends[1] + room)
        axes.set_title(title, loc="left", fontsize=TEXT, color=INK, parse_math=False)
        axes.tick_params(axis="y", length=0)
    left.set_ylim(len(rows) - 0.5, -0.5)
    left.set_yticks(range(len(rows)), names[: len(rows)], parse_math=False)
    right.set_visible(of_leads is not None)
    right.axvline(0, color=INK, linewidth=0.8)
    for place, (row, color) in enumerate(zip(rows, colors, strict=True)):
        _bar(left, place, row.mean.low, row.mean.high, 0.3)
        left.plot([row.mean.value], [place], "|", color=INK, ms=11, mew=1.6)
        _far(left, place, [run.score or 0.0 for run in row.runs.values()], of_scores)
        for run in row.runs.values():
            at = min(max(run.score or 0.0, of_scores[0]), of_scores[1])
            face = "white" if run.status == RUNNING else color
            left.plot([at], [place], "x" if run.status == FAILED else "o", color=color, ms=4, mfc=face)
        if row.lead:
            _bar(right, place, row.lead.low, row.lead.high, 0.3)
            half = row.lead.half_runs
            _bar(right, place, max(row.lead.low, row.lead.value - half), min(row.lead.high, row.lead.value + half), 0.5)
            right.plot([row.lead.value], [place], "|", color=INK, ms=9, mew=1.6)
        of_lead = (row.lead.value, row.lead.low, row.lead.high) if row.lead else (math.nan,) * 3
        lead = wording.with_interval(*of_lead, _DIGITS, is_clear=row.lead is not None and row.lead.is_clear)
        look = {"transform": right.get_yaxis_transform(), "va": "center_baseline", "color": INK, "parse_math": False}
        right.text(1.03, place, f"{row.words}  {lead}".strip(), fontsize=TEXT - 1, **look)


def _far(axes: Any, place: int, scores: Sequence[float], ends: verdict_picture.Ends) -> None:
    """Write the numbers of runs that stand at an edge."""
    for far, at in (([x for x in scores if x < ends[0]], ends[0]), ([x for x in scores if x > ends[1]], ends[1])):
        if far:
            text = " to ".join(dict.fromkeys(f"{number:.4g}" for number in (min(far), max(far))))
            axes.text(at, place - 0.25, text, fontsize=TEXT - 2, color=INK, ha="center")


def _bar(axes: Any, place: int, low: float, high: float, alpha: float) -> None:
    if math.isfinite(low) and math.isfinite(high):
        axes.barh([place], [high - low], _BAR, low, color=_BAR_COLOR, alpha=alpha, linewidth=0)
