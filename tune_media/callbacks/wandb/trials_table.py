"""The line of a run's trial in the table of all trials, with its best clip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tune_media.values.score import Scores


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
    return wandb.Table(columns=list(line), data=[list(line.values())])  # it has types, so W&B's page shows the clip
