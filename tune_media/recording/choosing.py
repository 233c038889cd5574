"""Applies selectors: on each env runner, who may still win; over all of them, who did; and the result they go into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from tune_media.recording.episode import Candidate
from tune_media.selection import Selector, as_result, winners
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData, with_fewer_tapes
from tune_media.values.medium import joined
from tune_media.values.number import counted
from tune_media.values.problems import NUM_PENDING, NUM_UNANSWERED, PROBLEMS, Problem
from tune_media.values.secrets import error_text
from tune_media.values.tiled import ClipTile, TiledClips
from tune_media.values.video import Video

DATA = "data"  # the key of a round's ``EpisodeBatch`` in its result
NUM_ABANDONED = "num_abandoned"  # the key of the number of episodes that began and never ended
NUM_LOST = "num_lost"  # the key of the number of episodes that RLlib counts, lost with their env runner
TILED = "tiled"  # the key of the picture of all clips
RESERVED = frozenset(
    {DATA, TILED, NUM_ABANDONED, NUM_LOST, NUM_PENDING, NUM_UNANSWERED, PROBLEMS}
)  # no selector's name
CHOOSES_NOTHING = "a selector chooses nothing"  # the consequence that a problem names if a selector raised

Raised = list[tuple[Selector, Exception]]  # the selectors that raised, which choose nothing


def survivors(records: Sequence[EpisodeRecord], selectors: Iterable[Selector]) -> tuple[set[str], Raised]:
    """Return the ids of one env runner's candidates that may still win over all env runners', and the errors."""
    ids: set[str] = set()
    raised: Raised = []
    for selector in selectors:
        try:
            ids |= {record.id for record in (selector.choose(records) if selector.local else records)}
        except Exception as error:
            raised.append((selector, error))
    return ids, raised


def chosen_by(
    selectors: Iterable[Selector], records: Iterable[EpisodeRecord], *, strict: bool = False, argument: str = "keep"
) -> tuple[dict[str, list[EpisodeRecord]], list[str]]:
    """Return each selector's choice over all env runners' candidates, by name, and why others raised, if not strict."""
    records = list(records)
    chosen: dict[str, list[EpisodeRecord]] = {}
    reasons = []
    for selector in selectors:
        try:
            chosen |= winners(records, [selector])
        except Exception as error:
            if strict:
                raise
            reasons.append(selector_reason(selector, error, records, argument))
    return chosen, reasons


def laid_out(
    selectors: Sequence[Selector],
    chosen: Mapping[str, Sequence[EpisodeRecord]],
    held: Mapping[str, Candidate],
    lost: Mapping[str, str] = MappingProxyType({}),
    *,
    is_tiled: bool = False,
) -> dict[str, Any]:
    """Return the part of a result that holds the winners, by selector and by the name of a picture or file.

    Under a selector is the clip, record, or dict of clips by view of the chosen episode; a list of these if it may
    choose several. Of the winners in ``lost``, no clip could be made: only their pictures and files are there.
    ``is_tiled``: after them come all clips as one picture.
    """
    clips = {id: candidate.in_result() for id, candidate in held.items() if id not in lost}
    result = as_result(selectors, chosen, clips)
    taken = RESERVED | {selector.name for selector in selectors}
    for name in dict.fromkeys(name for candidate in held.values() for name in candidate.media):
        media = {id: candidate.media[name] for id, candidate in held.items() if name in candidate.media}
        result[f"{name}_picture" if name in taken else name] = as_result(selectors, chosen, media)
    if is_tiled and clips:
        result[TILED] = TiledClips(_tiles(chosen, clips, lost))
    return result


def _tiles(
    chosen: Mapping[str, Sequence[EpisodeRecord]], clips: Mapping[str, Any], lost: Mapping[str, str]
) -> list[ClipTile]:
    """Return a tile for each clip of each chosen episode, in the order of the selectors."""
    titles: dict[str, list[str]] = {}
    records = {record.id: record for records in chosen.values() for record in records}
    for name, of_selector in chosen.items():
        for record in of_selector:
            titles.setdefault(record.id, []).append(name)
    tiles = []
    for id, names in titles.items():
        record, clip = records[id], clips.get(id)
        caption = f"return {record.episode_return:g}, {counted(record.episode_length, 'step')}"
        why = lost.get(id) or record.note or Problem.no_clip("its env runner did not hand it over").text
        for view, video in (clip if isinstance(clip, dict) else {"": clip}).items():
            title = ", ".join(names) + (f" ({view})" if view else "")
            tiles.append(ClipTile(title, caption, video if isinstance(video, Video) else None, why))
    return tiles


def selector_reason(
    selector: Selector, error: Exception, records: Sequence[EpisodeRecord], argument: str = "keep"
) -> str:
    """Return why a selector chose nothing, with the names that it could have used."""
    reason = f"{argument}={selector.name!r} raised {error_text(error)}"
    if isinstance(error, KeyError):
        names = sorted({name for record in records for name in record.metrics})
        reason += f"; the metrics of these episodes are: {', '.join(names) or 'none'} (collect= adds some)"
    return reason


@dataclass(frozen=True)
class Winners:
    """The winners that one env runner, or several, handed over."""

    kept: dict[str, Candidate] = field(default_factory=dict)  # by the id of their record, with their clips if not lost
    lost: dict[str, str] = field(default_factory=dict)  # why a winner has no clip, by the id of its record
    problems: list[Problem] = field(default_factory=list)

    def lose(self, id: str, reason: str) -> None:
        """Note why a winner has no clip, for its episode's record and the picture of all clips."""
        self.lost[id] = Problem.no_clip(reason).text

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
    is_tiled: bool = False,
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
    return laid_out(selectors, chosen, taken.kept, taken.lost, is_tiled=is_tiled) | {DATA: batch}
