"""From a result to rows of the outbox: its media are taken out, and the path of each takes its place."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tune_media.callbacks import rows
from tune_media.callbacks.backend import Report
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.maker import KILLED
from tune_media.callbacks.outbox import TAPE, NewRow
from tune_media.callbacks.services import hyperparameters
from tune_media.experiment.results import result_step, result_time
from tune_media.results.clean import clean_result
from tune_media.results.content_ids import Place
from tune_media.results.old_api_stack import RECORDER, Windows, new_episodes
from tune_media.results.raw_clips import RawVideo
from tune_media.results.reader import FoundMedium, replace_media
from tune_media.storage.entry import DROPPED, FAILED, MediaEntry
from tune_media.storage.episode_files import DATA_KEY
from tune_media.storage.known_media import KnownMedia
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.foreign import shown, without_address
from tune_media.values.number import whole_number
from tune_media.values.plain import MEDIA, pack_each
from tune_media.values.problems import pending, take_problems
from tune_media.values.secrets import error_text

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


@dataclass(eq=False)
class TrialIntake:
    """Per-trial state between results."""

    trial: Trial
    known: KnownMedia
    members: set[int] = field(default_factory=set)  # the ids of the callbacks that have begun its last start
    windows: Windows = field(default_factory=Windows)  # the lists of its last result, of the old API stack
    repeats: set[Place] = field(default_factory=set)  # the places of its results that were a window of RLlib's
    config: str | None = None  # its last hyperparameters, as text, once compared

    def has_other_config(self, result: Mapping[str, Any]) -> bool:
        """Return whether the hyperparameters differ from those of the result before this one; ask once a result."""
        before, self.config = self.config, without_address(shown(result.get("config")))
        return before is not None and before != self.config


@dataclass(eq=False)
class ResultIntake:
    """The media, rows and problems of one result."""

    report: Report
    rows: list[NewRow] = field(default_factory=list)
    entries: list[MediaEntry] = field(default_factory=list)
    went_back: bool = False  # whether the trial goes back with this result
    unpackable: dict[str, Any] = field(default_factory=dict)  # values that are no plain data
    held_as: str = ""  # the name by which the row of the result knows them, if there are any
    pending: dict[str, int] = field(default_factory=dict)  # to come with later results; see ``problems.pending``


def take_media(
    result: dict[str, Any],
    intake: TrialIntake,
    faults: Faults,
    *,
    raw_fps: float = 30.0,
    room: float = float("inf"),
    after: int = 0,
    has_row: bool = False,
    is_copy: bool = False,
) -> ResultIntake:
    """Replace the media of a result by their paths, and return the rows that are to be appended for it.

    If a medium cannot be stored, text that says so replaces it: no result keeps its bytes. Nothing is raised: what
    could not be read is reported, and so are the problems of recording that the result has. ``room`` is how many bytes
    of media may wait in memory, ``after`` the last row before it; ``is_copy``: Tune keeps this copy of a result.
    """
    known = intake.known

    def unclean(place: str, reason: str) -> None:
        error = ValueError(f"{place!r} {reason}; the result is logged with text in its place")
        faults.report("the reader", "reading a result", error, f"unclean {place}")

    def unread(key: str, reason: str) -> None:
        faults.report("the reader", f"reading {key!r}", ValueError(reason), key)

    def unstored(text: str) -> None:
        faults.report("episode data", "storing a value", TypeError(text), text)

    clean_result(result, unclean)
    step, iteration = result_step(result), whole_number(result.get("training_iteration"))
    now = (not is_copy and result_time(result)) or time.time()
    new_in_lists: dict[tuple[str, ...], list[Any]] = {}
    changed = functools.cache(functools.partial(intake.has_other_config, result))
    taken = ResultIntake(Report(step, iteration, result, new_in_lists, now, changed, after))
    if not is_copy:
        if known.note_iteration_went_back(iteration):
            taken.went_back = True
            taken.rows.append(NewRow(known.trial_id, "back", rows.BackRow(iteration).packed()))
        with faults.guard("the reader", "reading problems of recording", later=True):
            for problem in take_problems(result):
                faults.problems.add(problem)
            taken.pending = pending(result)
    placed_legacy: set[str] = set()  # sections whose recorder has the episodes that the old API stack repeats
    own_path = functools.cache(functools.partial(known.report_path, step))  # of all episodes of the result

    def place(found: FoundMedium) -> str:
        """Give a medium its path, and return the text that replaces it."""
        medium, is_batch = found.medium, isinstance(found.medium, EpisodeBatch)
        if isinstance(medium, EpisodeBatch) and medium.holds_legacy:
            placed_legacy.add(found.section)
        with faults.guard("the store", f"storing {found.section}/{found.key}", later=True):
            placed = known.register(
                medium, found.section, found.key, step=step, own_path=own_path if is_batch else None
            )
            if placed.is_new:
                where = (found.section, found.key, placed.path, step, iteration, now, known.lineage)
                taken.entries.append(MediaEntry(medium, *where))
            if placed.comes_again:
                again = rows.AgainRow(placed.id, placed.is_earlier)
                taken.rows.append(NewRow(known.trial_id, "again", again.packed()))
            return placed.path
        return f"not stored: {medium.kind} {found.section}/{found.key}"

    with faults.guard("the reader", "reading media of a result", later=True):  # all that were found get their rows
        replace_media(result, place, raw_fps, unread, intake.repeats)
        for new in () if is_copy else new_episodes(result, intake.windows, unstored):
            is_known, path = False, None
            if new.batch.episodes and new.section not in placed_legacy:
                is_known = known.knows(new.batch)
                path = place(FoundMedium(new.section, f"{RECORDER}{DATA_KEY}", new.batch))
            new.put(path)
            new_in_lists.update({where: [] if is_known else values for where, values in new.lists.items()})
    if has_row and not is_copy:
        with faults.guard("the outbox", "reading a result", later=True):
            taken.rows.append(_result_row(intake, taken))
    with faults.guard("the store", "listing media", later=True):
        taken.rows.extend(_media_rows(known.trial_id, taken.entries, faults, room))
    return taken


def _result_row(intake: TrialIntake, taken: ResultIntake) -> NewRow:
    report = taken.report
    config = None if report.config is None else hyperparameters(intake.trial, report.config)[0]
    values, taken.unpackable = pack_each(report.flat)
    taken.held_as = uuid.uuid4().hex if taken.unpackable else ""
    live = sorted(map(str, taken.unpackable))
    row = rows.ResultRow(report.step, report.training_iteration, report.time, live, taken.held_as, config, values)
    return NewRow(intake.known.trial_id, "result", row.packed())


def _media_rows(trial_id: str, entries: Sequence[MediaEntry], faults: Faults, room: float) -> Iterator[NewRow]:
    """Yield the row of each new medium, and one of all episodes."""
    for entry in entries:
        medium = entry.medium
        if entry.is_episodes:
            continue
        if type(medium) in MEDIA or not medium.is_rendered:
            try:
                if medium.is_rendered:
                    data, content = rows.medium_row(entry)
                    row = NewRow(trial_id, "media", data.packed(), content)
                else:
                    from tune_media.callbacks.tape_renderer import tape_row  # loads the encoder, as the clip did

                    row = tape_row(trial_id, entry, entries)
            except Exception as error:  # the user's own facts of it; the other media are kept
                faults.report("the store", f"writing {entry.path}", error)
                row = NewRow(trial_id, "media", rows.name_row(entry).as_lost(FAILED, error_text(error)).packed())
        else:
            name = rows.name_row(entry).as_lost(FAILED, KILLED).packed()
            if isinstance(medium, RawVideo) and medium.nbytes > room:  # the array waits on the disk
                row = NewRow(trial_id, "media", name, medium.packed(), ready=False)
            else:
                row = NewRow(trial_id, "media", name, ready=False, entry=entry)
                room -= medium.nbytes
        yield row
    if episodes := [entry for entry in entries if entry.is_episodes]:
        batches, content = rows.episodes_row(trial_id, episodes, rows.clips_by_episode(entries))
        yield NewRow(trial_id, "episodes", batches.packed(), content)


def without_content(row: NewRow, reason: str) -> NewRow:
    """Return a row for which there is no room, as one that says so."""
    if row.kind not in ("media", TAPE, "episodes"):
        return row
    data = rows.read_media_row(row.kind, row.data).as_lost(DROPPED, reason).packed()
    return NewRow(row.trial, "media" if row.kind == TAPE else row.kind, data)
