"""The best clip of a trial, which trackers show next to the trial's hyperparameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tune_media.values.score import clip_rank

_MAX_KEPT = 12  # clips, so that they fit into a tag of a tracker


@dataclass(frozen=True)
class BestClip:
    """The clip of the episode with the highest return. Any clip of an evaluation is better than one of training.

    Attributes:
        episode_return: The episode's return.
        episode_length: Its length, steps.
        section: ``train`` or ``evaluation``.
        step: The step of its result, on the tracker's axis.
        file: The clip, as the tracker finds it again.
        training_iteration: That of its result.

    Example:
        >>> facts = {"episode_return": 7.5, "episode_length": 12}
        >>> BestClip.of(facts, section="train", step=3, file="a.mp4").caption
        'return 7.5, length 12, step 3'
    """

    episode_return: float
    episode_length: int
    section: str
    step: int
    file: str
    training_iteration: int = 0

    @classmethod
    def of(
        cls, facts: Mapping[str, Any], *, section: str, step: int, file: str, training_iteration: int = 0
    ) -> BestClip | None:
        """Return the clip of an episode; None if the facts of the clip have no finite return."""
        found = facts.get("episode_return")
        if not isinstance(found, (int, float)) or not math.isfinite(found):
            return None
        length = int(facts.get("episode_length") or 0)
        return cls(float(found), length, section, step, file, training_iteration)

    @property
    def caption(self) -> str:
        """The return, the length and the step, for people."""
        return f"return {self.episode_return:.6g}, length {self.episode_length}, step {self.step}"

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The place of the clip among others, see ``clip_rank``."""
        return clip_rank({"section": self.section, "episode_return": self.episode_return})


class BestClips:
    """The best clip of a trial so far, and which one was the best before, in case the trial goes back.

    The last 12 best clips are remembered. A trial that goes back behind all of them has no best clip until the next.

    Args:
        clips: The clips that ``as_dicts`` returned in an earlier process.

    Example:
        >>> clips = BestClips()
        >>> for iteration, found in enumerate((5.0, 100.0, 7.0), start=1):
        ...     clip = BestClip(found, 10, "train", iteration, f"{iteration}.mp4", iteration)
        ...     is_best = clips.add(clip)
        >>> clips.best.episode_return
        100.0
        >>> clips.go_back(2), clips.best.episode_return
        (True, 5.0)
    """

    def __init__(self, clips: Iterable[Mapping[str, Any]] = ()) -> None:
        self._clips = [BestClip(**clip) for clip in clips]  # by iteration, each better than all before it

    @property
    def best(self) -> BestClip | None:
        """The best clip; None if there is none. Of equally good ones, the first."""
        return self._clips[-1] if self._clips else None

    def add(self, clip: BestClip | None) -> bool:
        """Add a clip; return whether it is the best one now."""
        if clip is None:
            return False
        earlier = [known for known in self._clips if known.training_iteration <= clip.training_iteration]
        if earlier and earlier[-1].rank >= clip.rank:
            return False
        later = [known for known in self._clips[len(earlier) :] if known.rank > clip.rank]
        self._clips = [*earlier, clip, *later][-_MAX_KEPT:]
        return self.best is clip

    def go_back(self, training_iteration: int) -> bool:
        """Forget the clips of an iteration and later ones, which the trial plays again; return whether the best is."""
        before = self.best
        self._clips = [clip for clip in self._clips if clip.training_iteration < training_iteration]
        return self.best is not before

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return all that a later process must know, as plain values."""
        return [dataclasses.asdict(clip) for clip in self._clips]
