"""The chosen episodes of a round, as an env runner or a wrapper hands them over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tune_media.recording.choosing import DATA, laid_out
from tune_media.recording.episode import Candidate
from tune_media.selection import Selector
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData, with_fewer_tapes
from tune_media.values.medium import joined
from tune_media.values.problems import Problem


@dataclass(frozen=True)
class Winners:
    """The winners that one env runner, or several, handed over."""

    # by the id of their record, with their clips, unless in ``lost``
    kept: dict[str, Candidate] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)  # why a winner has no clip, by the id of its record
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


def result_of(
    selectors: Sequence[Selector],
    chosen: Mapping[str, Sequence[EpisodeRecord]],
    taken: Winners,
    episodes: Iterable[EpisodeData],
    recipes: Mapping[str, bytes],
    *,
    holds_legacy: bool = False,
    note: str | None = None,
) -> dict[str, Any]:
    """Return a round's part of a result: the winners that each selector chose, and under ``data`` all episodes."""
    ids = {record.id for records in chosen.values() for record in records}
    rewards = {id: winner.rewards for id, winner in taken.kept.items() if winner.rewards is not None}
    trajectories = {id: winner.trajectory for id, winner in taken.kept.items() if winner.trajectory is not None}
    noted = [with_note(episode, taken.lost.get(episode.record.id)) for episode in episodes]
    data = tuple(replace(e, rewards=rewards.get(e.record.id, e.rewards)) for e in with_fewer_tapes(noted, ids))
    batch = EpisodeBatch(data, trajectories, recipes, holds_legacy=holds_legacy, note=note)
    return laid_out(selectors, chosen, taken.kept, taken.lost) | {DATA: batch}
