"""The chosen episodes of a round, as an env runner or a wrapper hands them over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tune_media.recording.episode import Candidate
from tune_media.values.episodes import EpisodeData
from tune_media.values.medium import joined
from tune_media.values.problems import Problem


@dataclass(frozen=True)
class Winners:
    """The winners that one env runner, or several, handed over.

    Attributes:
        kept: The winners by the id of their record, with their clips; those in ``lost`` have none.
        lost: Why a winner has no clip, by the id of its record.
        problems: The problems of making the clips.
    """

    kept: dict[str, Candidate] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, other: Winners) -> None:
        """Add the winners of another env runner."""
        self.kept.update(other.kept)
        self.lost.update(other.lost)
        self.problems.extend(other.problems)


def with_note(episode: EpisodeData, note: str | None) -> EpisodeData:
    """Return an episode whose record says why it has no clip, if it has none for that reason."""
    if note is None:
        return episode
    record = replace(episode.record, note=joined(episode.record.note, note), rendered=None)
    return replace(episode, record=record)
