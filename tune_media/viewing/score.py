"""The scores of trials on disk, for the viewer, ``tune-media list``, the grid, notebooks and ``Catalog.best``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tune_media.values.score import Scores
from tune_media.viewing.media_columns import MediaColumns, Rows
from tune_media.viewing.trial_media import TrialMedia


def scores_of(trials: Sequence[TrialMedia], chosen: Sequence[Rows]) -> Scores:
    """Score trials by their results, or by their clips.

    Args:
        trials: The trials.
        chosen: The rows of each trial's media that count.

    Example:
        >>> scores_of([], []).values
        []
    """
    best = [(trial.media, best_clip(trial.media, rows)) for trial, rows in zip(trials, chosen, strict=True)]
    returns = [None if row is None else float(media.episode_return[row]) for media, row in best]
    return Scores.of([trial.last_metrics for trial in trials], returns)


def best_clip(media: MediaColumns, rows: Rows, sign: int = 1) -> int | None:
    """Return the row with the highest return, of an evaluation if there are any; None if no row has a return.

    A row that was rolled back is returned only if there is no other.

    Args:
        media: A trial's media.
        rows: The rows that count.
        sign: -1 for the lowest return.

    Example:
        >>> lines = [{"section": "train", "key": "a", "step": 1, "episode_return": value} for value in (1.0, 3.0, 2.0)]
        >>> best_clip(MediaColumns.of_lines([(b"{}", line) for line in lines]), np.arange(3))
        1
    """
    rows = rows[~np.isnan(media.episode_return[rows])]
    of_present = rows[~media.rolled_back[rows]]
    rows = of_present if len(of_present) else rows
    of_evaluation = rows[np.array([media.section[row] == "evaluation" for row in rows], bool)]
    rows = of_evaluation if len(of_evaluation) else rows
    return int(rows[np.argmax(sign * media.episode_return[rows])]) if len(rows) else None
