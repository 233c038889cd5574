"""The score that ranks trials: the same in the viewer, ``tune-media list``, the grid, notebooks and ``Catalog.best``.

The score is the mean evaluation return of the trial's last evaluation. If no trial has one, it is the mean training
return, and if there is none either, the best return of a clip: evaluation clips if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tune_media.viewing.media_columns import MediaColumns, Rows
from tune_media.viewing.trial_media import TrialMedia

RETURNS = {
    "evaluation/env_runners/episode_return_mean": "mean evaluation return",
    "evaluation/episode_return_mean": "mean evaluation return",
    "evaluation/env_runners/episode_reward_mean": "mean evaluation return",
    "evaluation/episode_reward_mean": "mean evaluation return",
    "env_runners/episode_return_mean": "mean training return",
    "env_runners/episode_reward_mean": "mean training return",
    "episode_return_mean": "mean return",
    "episode_reward_mean": "mean return",
    "score": "score",
    "reward": "reward",
}
"""The metrics of a result that say how good a policy is, best first, with the words that the viewer shows."""

CLIP_LABEL = "best return of a clip"


@dataclass(frozen=True)
class Scores:
    """The scores of some trials.

    Attributes:
        label: What the score is, in words.
        values: The score of each trial; None if a trial has none.

    Example:
        >>> Scores.of([{"score": 1.0}, {"score": 3.0}, {}], [None, None, 9.0])
        Scores(label='score', values=[1.0, 3.0, None])
        >>> Scores.of([{}, {}], [5.0, None]).label
        'best return of a clip'
    """

    label: str
    values: list[float | None]

    @classmethod
    def of(cls, metrics: Sequence[Mapping[str, float]], clips: Sequence[float | None]) -> Scores:
        """Score trials by their metrics.

        Args:
            metrics: The last metrics of each trial.
            clips: The best return of a clip of each trial, or None.
        """
        known = known_returns(name for found in metrics for name in found)
        if not known:
            return cls(CLIP_LABEL, list(clips))
        return cls(RETURNS[known[0]], [found.get(known[0]) for found in metrics])

    def best_first(self, sign: int = 1) -> list[int]:
        """Return the numbers of the trials, the highest score first; trials without a score come last.

        Args:
            sign: -1 for the lowest score first.

        Example:
            >>> Scores("score", [1.0, None, 3.0]).best_first()
            [2, 0, 1]
        """
        values = [float("-inf") if value is None else sign * value for value in self.values]
        return sorted(range(len(values)), key=lambda number: -values[number])


def known_returns(names: Iterable[str]) -> list[str]:
    """Return the metrics among ``names`` that say how good a policy is, best first.

    Example:
        >>> known_returns(["timers/sample", "env_runners/episode_return_mean", "evaluation/episode_return_mean"])
        ['evaluation/episode_return_mean', 'env_runners/episode_return_mean']
    """
    found = set(names)
    return [name for name in RETURNS if name in found]


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
    of_evaluation = rows[np.array([media.section[row] == "evaluation" for row in rows], bool)]
    rows = of_evaluation if len(of_evaluation) else rows
    return int(rows[np.argmax(sign * media.episode_return[rows])]) if len(rows) else None
