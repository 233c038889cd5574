"""How trials are ranked by their score, and clips by their return, for all views and trackers.

The score is the mean evaluation return of the trial's last evaluation. If no trial has one, it is the mean training
return, and if there is none either, the best return of a clip.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_media.values.number import as_number

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


def clip_rank(facts: Mapping[str, Any]) -> tuple[bool, bool, float]:
    """Return the rank of a clip among others: the clip with the highest rank is the best.

    A clip that was rolled back, or is of an abandoned trial, comes after all others. Then a clip of an evaluation is
    better than one of training, and then the return counts.

    Args:
        facts: The facts of the clip, such as its index line.

    Example:
        >>> lucky = {"section": "train", "episode_return": 9.0}
        >>> clip_rank({"section": "evaluation", "episode_return": 1.0}) > clip_rank(lucky)
        True
        >>> clip_rank({**lucky, "rolled_back": True}) < clip_rank({"section": "train"})
        True
    """
    value = as_number(facts.get("episode_return"))
    return does_count(facts), facts.get("section") == "evaluation", -math.inf if math.isnan(value) else value


def does_count(facts: Mapping[str, Any]) -> bool:
    """Return whether a medium counts: its trial was not abandoned, and did not go back to a checkpoint before it.

    >>> does_count({"step": 3}), does_count({"step": 3, "rolled_back": True})
    (True, False)
    """
    return not facts.get("rolled_back") and not facts.get("abandoned")
