"""The page of a sweep in MLflow: a chart and a table of its trials, the best first, each with its best clip."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tune_media.callbacks.best_clip import BestClip
from tune_media.callbacks.mlflow.sweep_chart import Points, color_of, sweep_chart
from tune_media.values.score import CLIP_LABEL, Scores

_MAX_CLIPS, _MAX_CLIP_BYTES, _MAX_BYTES = 50, 4_000_000, 30_000_000
_MAX_PLAYING = 9  # clips that play at once on a slow machine; the others start at a click
_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:1em}table{border-collapse:collapse}"
    "td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}"
    "td{max-width:30em;overflow-wrap:break-word}td:first-child,small{overflow-wrap:anywhere}"
    "video{max-width:30em;max-height:12em}"
)


@dataclass(frozen=True)
class TrialLine:
    """A line of the page.

    Attributes:
        name: The trial's name.
        status: MLflow's status of its run.
        params: The hyperparameters that Tune chose.
        best: Its best clip.
        run_id: The id of its run.
        curve: The steps at which it had a new best clip, and the returns.
        metrics: Its last metrics.
    """

    name: str
    status: str
    params: Mapping[str, Any]
    best: BestClip | None
    run_id: str = ""
    curve: Points = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


def best_first(lines: Sequence[TrialLine]) -> tuple[str, list[tuple[TrialLine, float | None]]]:
    """Return the name of the score, and the lines with their scores, the highest first, as all views rank trials.

    Example:
        >>> scores = {"a": 1, "b": 2}
        >>> lines = [TrialLine(name, "FINISHED", {}, None, metrics={"score": scores[name]}) for name in scores]
        >>> label, ranked = best_first(lines)
        >>> label, [line.name for line, _ in ranked]
        ('score', ['b', 'a'])
    """
    scores = Scores.of(
        [{name: value for name, value in line.metrics.items() if math.isfinite(value)} for line in lines],
        [line.best.episode_return if line.best else None for line in lines],
    )
    return scores.label, [(lines[number], scores.values[number]) for number in scores.best_first()]


def sweep_page(sweep: str, lines: Sequence[TrialLine], clip: Callable[[TrialLine], bytes]) -> str:
    """Return a page that needs no other file. The first 50 lines have their clips in it.

    Args:
        sweep: The name of the sweep.
        lines: Its trials, in any order.
        clip: Returns the mp4 of a trial's best clip.
    """
    score_label, ranked = best_first(lines)
    scores = [] if score_label == CLIP_LABEL else [score_label]
    names = list(dict.fromkeys(name for line, _ in ranked for name in line.params))
    titles = ("trial", *scores, "best return", "best clip", *names, "status")
    head = "".join(f"<th>{html.escape(name)}</th>" for name in titles)
    rows, room = [], _MAX_BYTES
    for number, (line, score) in enumerate(ranked):
        data = clip(line) if line.best and number < _MAX_CLIPS else b""
        shown = _video(data, plays=number < _MAX_PLAYING) if 0 < len(data) <= min(room, _MAX_CLIP_BYTES) else ""
        room -= len(data) if shown else 0
        caption = html.escape(f"{line.best.section}, {line.best.caption}: {line.best.file}") if line.best else ""
        color = f" style='border-left:6px solid {color_of(number)}'" if line.curve else ""
        best = line.best.episode_return if line.best else None
        first = _cells([line.name, *(as_text(score) for _ in scores), as_text(best)])
        rest = _cells([*(line.params.get(name, "") for name in names), line.status])
        rows.append(f"<tr{color}>{first}<td>{shown}<br><small>{caption}</small></td>{rest}</tr>")
    title = html.escape(sweep)
    chart = sweep_chart({line.name: line.curve for line, _ in ranked})
    return (
        f"<!doctype html><meta charset='utf-8'><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        f"{chart}<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def as_text(value: float | None) -> str:
    """Return a return for people; nothing if there is none.

    Example:
        >>> as_text(0.1 + 0.2), as_text(None)
        ('0.3', '')
    """
    return "" if value is None else f"{value:.6g}"


def _cells(values: Sequence[Any]) -> str:
    return "".join(f"<td>{html.escape(str(value))}</td>" for value in values)


def _video(data: bytes, *, plays: bool) -> str:
    encoded = base64.b64encode(data).decode()
    return f"<video controls loop muted playsinline{' autoplay' * plays} src='data:video/mp4;base64,{encoded}'></video>"
