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


def clip_rank(facts: Mapping[str, Any], sign: int = 1) -> tuple[bool, bool, float]:
    """Return the rank of a clip among others: the clip with the highest rank is the best.

    A clip that was rolled back, or is of an abandoned trial, comes after all others. Then a clip of an evaluation is
    better than one of training, and then the return counts.

    Args:
        facts: The facts of the clip, such as its index line.
        sign: -1 if the lowest return is the best.

    Example:
        >>> lucky = {"section": "train", "episode_return": 9.0}
        >>> clip_rank({"section": "evaluation", "episode_return": 1.0}) > clip_rank(lucky)
        True
        >>> clip_rank({**lucky, "rolled_back": True}) < clip_rank({"section": "train"})
        True
    """
    value = as_number(facts.get("episode_return"))
    known = -math.inf if math.isnan(value) else sign * value
    return does_count(facts), facts.get("section") == "evaluation", known


def does_count(facts: Mapping[str, Any]) -> bool:
    """Say whether a medium counts: its trial was not abandoned, and did not go back to a checkpoint before it.

    >>> does_count({"step": 3}), does_count({"step": 3, "rolled_back": True})
    (True, False)
    """
    return not facts.get("rolled_back") and not facts.get("abandoned")


@dataclass(frozen=True)
class BestClip:
    """The clip of the episode with the highest return. Any clip of an evaluation is better than one of training.

    Attributes:
        episode_return: The episode's return.
        episode_length: Its length, steps.
        section: ``train`` or ``evaluation``.
        step: The step of its result, on the tracker's axis.
        file: The clip, as the tracker finds it again.

    Example:
        >>> facts = {"episode_return": 7.5, "episode_length": 12}
        >>> best = BestClip.of(facts, section="train", step=3, file="a.mp4")
        >>> best.caption
        'return 7.5, length 12, step 3'
        >>> better(best, BestClip.of({**facts, "episode_return": 2.0}, section="train", step=4, file="b.mp4")) is best
        True
    """

    episode_return: float
    episode_length: int
    section: str
    step: int
    file: str

    @classmethod
    def of(cls, facts: Mapping[str, Any], *, section: str, step: int, file: str) -> BestClip | None:
        """Return the clip of an episode; None if the facts of the clip have no finite return."""
        found = facts.get("episode_return")
        if not isinstance(found, (int, float)) or not math.isfinite(found):
            return None
        return cls(float(found), int(facts.get("episode_length") or 0), section, step, file)

    @property
    def caption(self) -> str:
        """The return, the length and the step, for people."""
        return f"return {self.episode_return:.6g}, length {self.episode_length}, step {self.step}"

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The place of the clip among others, see ``clip_rank``."""
        return clip_rank({"section": self.section, "episode_return": self.episode_return})


def better(one: BestClip | None, other: BestClip | None) -> BestClip | None:
    """Return the better of two clips; the first if they are equally good."""
    if one is None or other is None:
        return one or other
    return other if other.rank > one.rank else one
