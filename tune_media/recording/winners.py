"""The chosen episodes of a round, as an env runner or a wrapper hands them over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tune_media.recording.choosing import DATA, chosen_by, laid_out
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
    passed_over = _passed_over(selectors, chosen, noted)
    kept = {id: _with_record_note(winner, passed_over.get(id)) for id, winner in taken.kept.items()}
    data = tuple(replace(e, rewards=rewards.get(e.record.id, e.rewards)) for e in with_fewer_tapes(noted, ids))
    batch = EpisodeBatch(data, trajectories, recipes, holds_legacy=holds_legacy, note=note)
    return laid_out(selectors, chosen, kept, taken.lost) | {DATA: batch}


def _passed_over(
    selectors: Sequence[Selector], chosen: Mapping[str, Sequence[EpisodeRecord]], episodes: Iterable[EpisodeData]
) -> dict[str, str]:
    """Return the notes of winners, by id, whose selector would have chosen an episode of which there is no clip."""
    without = [e.record for e in episodes if not e.is_late and "no clip:" in (e.record.note or "")]
    notes = dict[str, str]()
    for rule in selectors if without else ():
        winners = chosen.get(rule.name, ())
        if not winners or not rule.local or rule.limit is None:
            continue
        ids = {record.id for record in winners}
        among, _ = chosen_by([rule], [*winners, *(record for record in without if record.id not in ids)])
        first = next((record for record in among.get(rule.name, ()) if record.id not in ids), None)
        if first is not None:
            other = f"one without, return {first.episode_return:g}, is first"
            notes |= dict.fromkeys(ids, f"{rule.name!r} of the episodes with pictures: {other}")
    return notes


def _with_record_note(winner: Candidate, note: str | None) -> Candidate:
    if note is None:
        return winner
    return winner.of_record(replace(winner.record, note=joined(winner.record.note, note)))
