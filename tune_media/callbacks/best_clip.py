"""The best clip of a trial, which trackers show next to the trial's hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tune_media.values.score import clip_rank


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
