"""How trials are ranked by their score, and clips by their return, for all views and trackers.

The score is the mean return of the trial's last evaluation. If no trial has one, it is the mean training return, and if
there is none either, the success rate of an evaluation, ``score`` or ``reward``, or else the best return of a clip.
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
    "evaluation/custom_metrics/success_rate": "success rate",
    "score": "score",
    "reward": "reward",
}
"""The metrics of a result that say how good a policy is, best first, with the words that the viewer shows."""

CLIP_LABEL = "best return of a clip"


@dataclass(frozen=True)
class Scores:
    """The scores of some trials."""

    label: str  # what the score is, in words
    values: list[float | None]  # None: the trial has none
    metric: str | None = None  # its name; None: the best return of a clip

    @classmethod
    def of(cls, metrics: Sequence[Mapping[str, float]], clips: Sequence[float | None]) -> Scores:
        """Score trials by their last metrics, or else by the best return of a clip of each."""
        returns = ranking_returns(metrics)
        if not returns and all(clip is None for clip in clips):
            returns = known_returns(name for numbers in metrics for name in numbers)  # none is finite
        if not returns:
            return cls(CLIP_LABEL, list(clips))
        return cls(RETURNS[returns[0]], [finite(numbers, returns[0]) for numbers in metrics], returns[0])

    def best_first(self, sign: int = 1) -> list[int]:
        """Return the trials' numbers, the highest score (``sign`` -1: the lowest) first, those without one last."""
        values = [float("-inf") if value is None else sign * value for value in self.values]
        return sorted(range(len(values)), key=lambda number: -values[number])


def known_returns(names: Iterable[str]) -> list[str]:
    """Return the metrics among ``names`` that say how good a policy is, best first."""
    present = set(names)
    return [name for name in RETURNS if name in present]


def ranking_returns(metrics: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the known returns that are finite in some of ``metrics``, best first: trials can be ranked by them.

    >>> ranking_returns([{"score": math.nan, "reward": 1.0}, {"score": math.inf}])
    ['reward']
    """
    return [name for name in RETURNS if any(finite(numbers, name) is not None for numbers in metrics)]


def finite(numbers: Mapping[str, float], name: str) -> float | None:
    """Return a metric if it can be a score, as one of ``finite_numbers``; otherwise None."""
    value = numbers.get(name)
    return value if value is not None and math.isfinite(value) else None


def finite_numbers(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics that can be a score: NaN and infinity are shown, and rank nothing."""
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def clip_rank(facts: Mapping[str, Any]) -> tuple[bool, bool, float]:
    """Return the rank of a clip among others by its facts: the clip with the highest rank is the best.

    A clip that was rolled back, or is of an abandoned trial, comes last. Clips of evaluations are better than those of
    training; then the return counts.

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
