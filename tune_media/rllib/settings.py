"""The checked arguments of ``record_episodes``, as they travel to the env runners."""

from __future__ import annotations

from dataclasses import dataclass

from tune_media.recording.plan import Plan
from tune_media.recording.rendering import FrameSource
from tune_media.values.sections import EVALUATION


@dataclass(frozen=True)
class RecorderSettings:
    """The checked arguments of ``record_episodes``; see there."""

    plan: Plan  # the arguments that need no RLlib
    sections: tuple[str, ...] = (EVALUATION,)
    frame: FrameSource = None
    env_runners: frozenset[int] | None = None
    env_indices: frozenset[int] | None = None
    seeds: tuple[int, ...] = ()  # of the evaluation episodes; empty: RLlib's own
    window: int | None = None
    check_frame: bool = True

    def records_on(self, section: str, env_runner: int) -> bool:
        """Return whether an env runner of a section records."""
        return section in self.sections and (self.env_runners is None or env_runner in self.env_runners)
