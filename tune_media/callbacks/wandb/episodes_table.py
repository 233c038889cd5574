"""The tables of a run in W&B: its episodes with their clips, and the line of the trial in the table of all trials."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tune_media.values.score import Scores

MAX_ROWS = 10_000
"""Rows of the table; the oldest are left out."""

_MAX_METRICS = 50  # columns
_FACTS = ("step", "section", "episode_id", "episode_return", "episode_length", "seed")


class WandbTable:
    """Collects a run's episodes until the table is logged, at the end of the run."""

    def __init__(self) -> None:
        self._rows: deque[dict[str, Any]] = deque(maxlen=MAX_ROWS)
        self._clips: dict[str, tuple[Path, str | None]] = {}

    def add(self, step: int, rows: Iterable[dict[str, Any]]) -> None:
        """Add the episodes of a round."""
        self._rows.extend({"step": step, **row} for row in rows)

    def add_clip(self, episode_id: str, file: Path, caption: str | None) -> None:
        """Add the clip of an episode."""
        self._clips[episode_id] = (file, caption)

    @property
    def last_step(self) -> int | None:
        """The training iteration of the last episode; None if there is none."""
        return int(self._rows[-1]["step"]) if self._rows else None

    def make(self, wandb: Any, trial: str) -> Any:
        """Return the ``wandb.Table``.

        Args:
            trial: The id of the run, in a column that tells trials apart when W&B joins their tables.
        """
        metrics = list(dict.fromkeys(name for row in self._rows for name in row["metrics"]))[:_MAX_METRICS]
        clips = [self._clips.get(row["episode_id"]) for row in self._rows]
        columns = {"clip": [clip and video_of(wandb, *clip) for clip in clips]}
        tells = any(row.get("success") is not None for row in self._rows)
        facts = (*_FACTS, "success") if tells else _FACTS
        columns |= {name: _alike([row.get(name) for row in self._rows]) for name in facts}
        columns |= {name: _alike([row["metrics"].get(name) for row in self._rows]) for name in metrics}
        columns["trial"] = [trial] * len(self._rows)
        return _table(wandb, columns)


def video_of(wandb: Any, file: Path, caption: str | None) -> Any:
    """Return the ``wandb.Video`` of a clip's file."""
    return wandb.Video(str(file), caption=caption, format=file.suffix.lstrip("."))


def trial_line(
    wandb: Any,
    trial: str,
    searched: Mapping[str, Any],
    best: Mapping[str, Any],
    clip: Any,
    metrics: Mapping[str, float],
) -> Any:
    """Return a ``wandb.Table`` of one line. W&B's workspace shows the lines of all runs as one table.

    ``best`` is what ``best_item`` returns, ``clip`` the ``wandb.Video`` of it, or None if it has no file.
    """
    scores = Scores.of([metrics], [best["best_return"]])
    facts = {name: best[name] for name in ("section", "best_return", "episode_length")}
    ranked = {"score": scores.values[0], "score_is": scores.label}
    line = {"clip": clip, "trial": trial, **ranked, **facts, "step": best["step"], **searched}
    return _table(wandb, {name: [value] for name, value in line.items()})


def _table(wandb: Any, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return a ``wandb.Table`` whose columns have types, which W&B's page needs to sort them and to show clips."""
    return wandb.Table(columns=list(columns), data=[list(row) for row in zip(*columns.values(), strict=True)])


def _alike(values: Sequence[Any]) -> list[Any]:
    """Return values that W&B takes as one column: all numbers, or all text; None if a number is not finite."""
    finite = [None if isinstance(value, float) and not math.isfinite(value) else value for value in values]
    if all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in finite):
        return finite
    return [None if value is None else str(value) for value in finite]
