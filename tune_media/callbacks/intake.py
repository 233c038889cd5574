"""From a result to rows of the outbox: its media are taken out, and the path of each takes its place."""

from __future__ import annotations

import functools
import sqlite3
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tune_media.callbacks.backend import Report
from tune_media.callbacks.hyperparameters import hyperparameters
from tune_media.callbacks.maker import KILLED
from tune_media.callbacks.outbox import TAPE, NewRow, OutboxFullError, no_room
from tune_media.experiment.results import result_step, result_time
from tune_media.results.clean import clean_result
from tune_media.results.old_api_stack import RECORDER, Windows, new_episodes
from tune_media.results.raw_clips import RawVideo
from tune_media.results.reader import FoundMedium, replace_media
from tune_media.storage.entry import (
    DROPPED,
    FAILED,
    MediaEntry,
    as_lost,
    clips_by_episode,
    packed_episodes,
    packed_medium,
    packed_name,
)
from tune_media.storage.episode_files import DATA_KEY
from tune_media.storage.known_media import KnownMedia
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.foreign import shown, without_address
from tune_media.values.number import whole_number
from tune_media.values.plain import MEDIA, pack, pack_each
from tune_media.values.recording_problems import pending, take_problems
from tune_media.values.secrets import error_text

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

    from tune_media.callbacks.session import MediaSession

_MAX_LIVE = 1000  # results whose values that are no plain data are held in memory


class Intake:
    """Reads the results of an experiment. Tune's loop calls all methods.

    Args:
        session: The session of the experiment, which owns the outbox.
    """

    def __init__(self, session: MediaSession) -> None:
        self._session = session
        # One is enough: Tune shows a result to all callbacks, then the next one.
        self._last: Report | None = None
        self._compared: tuple[dict[str, Any], bool] | None = None  # the last result, and whether its config is another
        self._configs: dict[str, str] = {}  # each trial's last hyperparameters, as text
        self._windows: dict[str, Windows] = {}  # of the old API stack
        self._new_in_lists: dict[str, dict[tuple[str, ...], list[Any]]] = {}
        self._live: dict[int, dict[str, Any]] = {}  # values of results that are no plain data, by row

    def read(self, trial: Trial, result: dict[str, Any]) -> Report:
        """Replace the media of a trial's next result by their paths, and append it to the outbox.

        Returns:
            The result, the same for every callback that asks.
        """
        if self._last is not None and self._last.result is result:
            return self._last
        session, trial_id = self._session, trial.trial_id
        self._clean(result)
        known = session.known_of(trial)
        iteration, now = whole_number(result.get("training_iteration")), result_time(result) or time.time()
        rows: list[NewRow] = []
        with session.faults.guard("the store", "reading where a trial goes on"):
            session.wait_for_known(trial, known)
            if known.note_iteration_went_back(iteration):
                session.goes_back(trial_id, iteration)  # before the row: what is rendered later is not behind it
                rows.append(NewRow(trial_id, "back", pack({"training_iteration": iteration})))
        with session.faults.guard("the reader", "reading problems of recording"):
            session.summary.problems(take_problems(result))
            session.summary.pending(trial_id, pending(result))
        row = session.outbox.last  # those of its media are higher
        entries = self.extract_media(trial, result, rows, at=now, is_new=True)
        with session.faults.guard("the store", "checking the retention policy"):
            session.check_retention(entries)
        others = self._new_in_lists.get(trial_id, {})
        changed = functools.partial(self._has_other_config, trial_id, result)
        self._last = Report(result_step(result), iteration, result, others, now, changed, row)
        return self._last

    def extract_media(
        self, trial: Trial, result: dict[str, Any], rows: list[NewRow] | None = None, *, at: float, is_new: bool = False
    ) -> list[MediaEntry]:
        """Replace the media of a result by their paths, and append them to the outbox; return those that are new.

        If a medium cannot be stored, text that says so replaces it: no result keeps its bytes.

        Args:
            trial: The trial.
            result: The result; changed in place.
            rows: Rows to append before them.
            at: When the result came, seconds since 1970.
            is_new: Whether it is the next result of the trial, rather than a copy that Tune keeps.
        """
        rows = [] if rows is None else rows
        session, known, step = self._session, self._session.known_of(trial), result_step(result)
        iteration = whole_number(result.get("training_iteration"))
        entries: list[MediaEntry] = []
        told: set[str] = set()  # sections whose recorder has the episodes that the old API stack repeats
        report_path = ""  # of all episodes of the result

        def own_path() -> str:
            nonlocal report_path
            report_path = report_path or known.report_path(step)
            return report_path

        def place(found: FoundMedium) -> str:
            """Give a medium its path, and return the text that replaces it."""
            medium, path_of = found.medium, None
            if isinstance(medium, EpisodeBatch):
                path_of = own_path
                if medium.holds_legacy:
                    told.add(found.section)
            with session.faults.guard("the store", f"storing {found.section}/{found.key}"):
                placed = known.register(medium, found.section, found.key, step=step, own_path=path_of)
                if placed.is_new:
                    where = (found.section, found.key, placed.path, step, iteration, at, known.lineage)
                    entries.append(MediaEntry(medium, *where))
                if placed.comes_again:
                    again = pack({"id": placed.id, "is_earlier": placed.is_earlier})
                    rows.append(NewRow(known.trial_id, "again", again))
                return placed.path
            return f"not stored: {medium.kind} {found.section}/{found.key}"

        if not is_new:
            self._clean(result)
        try:
            replace_media(result, place, session.options.raw_fps, self._report_unread)
            if is_new:
                self._read_legacy(trial, known, result, place, told)
        finally:  # whatever comes after them, what has a path gets a row
            self._append(trial, result if is_new else None, rows, entries, at)
        return entries

    def live_values(self, row: int) -> dict[str, Any]:
        """Return the values of a result that only this process has, such as those of W&B's own classes."""
        return self._live.get(row, {})

    def forget(self, trial_id: str) -> None:
        """A trial is over: hold nothing of it any longer."""
        self._last = self._compared = None
        for held in (self._windows, self._new_in_lists, self._configs):
            held.pop(trial_id, None)

    def _append(
        self, trial: Trial, result: dict[str, Any] | None, rows: list[NewRow], entries: list[MediaEntry], at: float
    ) -> None:
        """Append the rows of a result, all at once."""
        session, trial_id = self._session, trial.trial_id
        live: dict[str, Any] = {}
        if result is not None and session.wants_results:
            with session.faults.guard("the outbox", "reading a result"):
                row, live = self._result_row(trial, result, at)
                rows.append(row)
        media_at = len(rows)
        media = self._media_rows(trial_id, entries)
        rows = [*rows, *(row for row, _ in media)]
        if not rows:
            return
        try:
            last = session.append(rows)
        except OutboxFullError as error:
            session.faults.report("the outbox", "keeping media", error, kind=DROPPED)
            media = []
            try:
                last = self._append_names(rows, no_room(error))
                live = {} if session.outbox.held() else live
            except (OSError, sqlite3.Error) as worse:
                self._lose(trial, entries, worse)
                return
        except (OSError, sqlite3.Error) as error:
            self._lose(trial, entries, error)
            return
        first = last - len(rows) + 1
        if live and len(self._live) < _MAX_LIVE:
            self._live[first + media_at - 1] = live
            self._live = {row: values for row, values in self._live.items() if row > session.delivered()}
        for number, (row, entry) in enumerate(media):
            if entry is not None:
                session.make_later(first + media_at + number, None if row.content else entry)

    def _append_names(self, rows: list[NewRow], reason: str) -> int:
        """Append rows for which there is no room, without the contents of media, and without the result if need be."""
        rows = [_without_content(row, reason) for row in rows]
        try:
            return self._session.append(rows)
        except OutboxFullError:
            rows = [NewRow(row.trial, row.kind) if row.kind == "result" else row for row in rows]
            return self._session.append(rows, is_bounded=False)

    def _result_row(self, trial: Trial, result: dict[str, Any], at: float) -> tuple[NewRow, dict[str, Any]]:
        trial_id = trial.trial_id
        iteration = whole_number(result.get("training_iteration"))
        changed = functools.partial(self._has_other_config, trial_id, result)
        report = Report(result_step(result), iteration, result, changed=changed)
        config = None if report.config is None else hyperparameters(trial, report.config)[0]
        flat, live = pack_each(report.flat)
        facts = {"step": report.step, "training_iteration": iteration, "time": at, "live": sorted(map(str, live))}
        data = pack({**facts, "config": config, "packed": flat})
        return NewRow(trial_id, "result", data), live

    def _media_rows(self, trial_id: str, entries: list[MediaEntry]) -> list[tuple[NewRow, MediaEntry | None]]:
        """Return the row of each medium; and the medium, if its content is still to be made."""
        episodes = [entry for entry in entries if entry.is_episodes]
        found: list[tuple[NewRow, MediaEntry | None]] = []
        in_memory = 0  # bytes of media of this result that are still to be made
        for entry in entries:
            if entry.is_episodes:
                continue
            if type(entry.medium) in MEDIA or not entry.medium.is_rendered:
                try:
                    if entry.medium.is_rendered:
                        row = NewRow(trial_id, "media", *packed_medium(entry))
                    else:
                        from tune_media.callbacks.tape_renderer import tape_row  # loads the encoder, as the clip did

                        row = tape_row(trial_id, entry)
                except Exception as error:  # the user's own facts of it; it costs itself alone
                    self._session.faults.report("the store", f"writing {entry.path}", error)
                    row = NewRow(trial_id, "media", packed_name(entry, lost=FAILED, note=error_text(error)))
                found.append((row, None))
            else:
                data, content = packed_name(entry, lost=FAILED, note=KILLED), None
                in_memory += entry.medium.nbytes
                if isinstance(entry.medium, RawVideo) and not self._session.may_make_in_memory(in_memory):
                    content = entry.medium.packed()  # the array waits on the disk
                    in_memory -= entry.medium.nbytes
                found.append((NewRow(trial_id, "media", data, content, ready=False), entry))
        if episodes:
            clips = clips_by_episode(entries)
            found.append((NewRow(trial_id, "episodes", *packed_episodes(trial_id, episodes, clips)), None))
        return found

    def _lose(self, trial: Trial, entries: list[MediaEntry], error: Exception) -> None:
        """Take note of media that the driver's disk does not take, not even their names."""
        self._session.faults.report("the outbox", "writing to the driver's disk", error, kind=DROPPED)
        for entry in entries:
            self._session.known_of(trial).forget(entry.medium.id, entry.section, entry.key)
            self._session.summary.lost(entry.path)

    def _read_legacy(
        self,
        trial: Trial,
        known: KnownMedia,
        result: dict[str, Any],
        place: Callable[[FoundMedium], str],
        told: set[str],
    ) -> None:
        """Take the new values of single episodes that the old API stack reports."""
        windows = self._windows.setdefault(trial.trial_id, Windows())
        new_in_lists = self._new_in_lists[trial.trial_id] = {}
        for new in new_episodes(result, windows, self._report_unstored):
            is_known = False
            path = None
            if new.batch.episodes and new.section not in told:
                is_known = known.knows(new.batch)
                path = place(FoundMedium(new.section, f"{RECORDER}{DATA_KEY}", new.batch))
            new.put(path)
            new_in_lists.update({where: [] if is_known else values for where, values in new.lists.items()})

    def _has_other_config(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Return whether a trial's hyperparameters differ from those of its result before this one."""
        if self._compared is None or self._compared[0] is not result:
            now = without_address(shown(result.get("config")))
            before, self._configs[trial_id] = self._configs.get(trial_id), now
            self._compared = result, before is not None and before != now
        return self._compared[1]

    def _report_unstored(self, what: str) -> None:
        self._session.faults.report("episode data", "storing a value", TypeError(what), kind=what)

    def _clean(self, result: dict[str, Any]) -> None:
        """Make a result one that every logger can write; what it cost is counted."""
        with self._session.faults.guard("the reader", "reading a result"):
            clean_result(result, self._report_unclean)

    def _report_unclean(self, place: str, reason: str) -> None:
        error = ValueError(f"{place!r} {reason}; the result is logged with text in its place")
        self._session.faults.report("the reader", "reading a result", error, kind=f"unclean {place}")

    def _report_unread(self, key: str, reason: str) -> None:
        self._session.faults.report("the reader", f"reading {key!r}", ValueError(reason), kind=key)


def _without_content(row: NewRow, reason: str) -> NewRow:
    """Return a row for which there is no room, as one that says so."""
    if row.kind not in ("media", TAPE, "episodes"):
        return row
    return NewRow(row.trial, "media" if row.kind == TAPE else row.kind, as_lost(row.data, DROPPED, reason))
