"""The first reader of the outbox: writes the media of an experiment to its storage, and lists them.

A turn takes all rows that wait, appends their lines to the experiment's log, and then writes their files: on a remote
storage many at a time, on the same disk by giving the file in the outbox another name. Whatever file is on the storage,
its line is there before it.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import posixpath
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.callbacks.faults import Faults
from tune_media.callbacks.helpers import Helpers
from tune_media.callbacks.outbox import STORAGE, TAPE, TAPE_DONE, NewRow, Outbox, Row
from tune_media.callbacks.pruning import Pruner
from tune_media.callbacks.readers import Reader
from tune_media.callbacks.summary import Summary
from tune_media.callbacks.suspects import Suspects
from tune_media.storage.entry import (
    FAILED,
    KEPT_ON_DRIVER,
    ONLY_TAPE,
    STORED,
    UNRENDERED,
    WAITING,
    FileSet,
    MediaEntry,
    entries_of,
    file_set,
    line_of,
    named_entries,
)
from tune_media.storage.experiment_log import Event, ExperimentLog, read_log, stamp_of
from tune_media.storage.filesystem import folders_in, is_local, link_once, write_atomically, write_once
from tune_media.storage.index import event_line
from tune_media.storage.index_lines import INDEX_PATH, Line, is_line, lines_of_trial
from tune_media.storage.known_media import KnownMedia
from tune_media.storage.location import TrialLocation
from tune_media.storage.suspects import SUSPECT, changes_by, suspect_note
from tune_media.storage.trial_store import TrialStore
from tune_media.values.options import Retention
from tune_media.values.plain import pack
from tune_media.values.recording_problems import RecordingProblem
from tune_media.values.secrets import error_text

logger = logging.getLogger("tune_media")

_REQUESTS = 32  # to a remote storage at a time
_MOST_WRITES = 256  # rows that are read ahead
_MOST_BYTES = 64 * 2**20  # of files that are read ahead
_MAX_FAILURES = 5  # of one write, while others succeed
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_TURN_SECONDS = 1.0  # between two turns on a remote storage, so that a log part has several lines
_CHECKPOINT_SECONDS = 2.0
_SUSPECTS_A_ROW = 64
_DRIVER_LOST = "not rendered: its driver was lost; `tune-media render` makes the clip of the tape"


@dataclass(eq=False)
class _Write:
    """The media of one row, on their way to the storage.

    Attributes:
        row: The row.
        store: Its trial's.
        entries: Its media.
        files: Their files and lines.
        failures: How often writing failed while others succeeded.
        is_logged: Whether the lines are in the log.
        is_done: Whether the files are on the storage.
    """

    row: Row
    store: TrialStore
    entries: list[MediaEntry]
    files: FileSet
    failures: int = 0
    is_logged: bool = False
    is_done: bool = False


class StorageReader(Reader):
    """Writes the media of one experiment.

    Tune's loop calls ``know``, ``set_retention``, ``put_chore``, ``wait``, ``look_for_suspects``, ``close`` and
    ``keep_rest_here``; the reader's own thread does the rest.

    Args:
        outbox: The outbox.
        faults: Counts faults.
        summary: Counts files.
        filesystem: The storage.
        experiment: The experiment's folder on it.
        staging: The experiment's folder on the driver.
        reached: The last row with media of each trial that an earlier process had appended, if its outbox is lost.

    Attributes:
        pruner: Applies the retention policy; None if all is kept.
    """

    gather_seconds = 0.5  # Ray's TensorBoard logger has the disk write all that is new, in Tune's loop, at each result

    def __init__(
        self,
        outbox: Outbox,
        faults: Faults,
        summary: Summary,
        filesystem: pyarrow.fs.FileSystem,
        experiment: str,
        staging: Path,
        reached: Mapping[str, int],
    ) -> None:
        super().__init__(STORAGE, outbox)
        self._faults, self._summary = faults, summary
        self._filesystem, self.experiment, self._staging = filesystem, experiment, staging
        self._stores: dict[str, TrialStore] = {}
        self._writes: list[_Write] = []
        self._events: list[Event] = []  # that are still to be logged
        self._deletions: list[tuple[TrialStore, list[Event]]] = []  # whose events are still to be logged
        self._to_know: list[KnownMedia] = []
        self._reached = dict(reached)
        self._log: ExperimentLog | None = None
        self._earlier: dict[str, list[Event]] = {}  # the log of earlier processes, by the trial's folder
        self._to_heal: dict[str, list[Event]] = {}  # the part of it that indexes may lack
        self._helpers = Helpers(STORAGE, _REQUESTS)
        self.pruner: Pruner | None = None
        self._retention: Retention | None = None
        self._retention_changed = False
        self._to_prune: dict[str, TrialStore] = {}
        self._suspects = Suspects()
        self._formers: list[str] = []  # trials that were the best until now
        self._has_looked = False  # for trials that ended before this process
        self._turned_at = self._checkpointed_at = 0.0
        self._last_error: Exception | None = None
        self._is_complete = False
        self._beside: set[str] = set()  # the files beside the trials' folders that are there: they come again and again
        self._at = self._read_to = outbox.position(STORAGE)
        self._turning = threading.Lock()

    def set_retention(self, retention: Retention | None) -> None:
        """Use a retention policy; for trials that are known already, too."""
        self._retention = retention
        self.pruner = Pruner(retention) if retention else None
        self._retention_changed = True

    def know(self, known: KnownMedia) -> None:
        """Have the lines of earlier runs of a trial read before all else."""
        self._to_know.append(known)
        self.begin()
        self.hurry()  # the first result of the trial waits for them

    def tidy_former_best(self, trial_id: str) -> None:
        """Have the policy applied to a trial of which everything was kept until now."""
        self._formers.append(trial_id)

    def wait(self, seconds: float) -> bool:
        """Wait until all rows that are there now are stored, at most so long; return whether they are."""
        upto, until = self._outbox.last, time.monotonic() + seconds
        while self._at < upto or self._chores:
            if time.monotonic() >= until:
                return False
            self.begin()  # a tracker's reader may ask first, for what an earlier process left
            self._turned_at = 0.0
            self.hurry()
            time.sleep(0.005)
        return True

    @property
    def may_have_suspects(self) -> bool:
        """Whether there are stored clips of which no picture was compared."""
        return self._suspects.may_be

    def look_for_suspects(self, seconds: float) -> None:
        """Have the clips marked that may not show their episodes, by all that is known now; wait at most so long."""
        until = time.monotonic() + seconds
        if self.wait(seconds):
            self.put_chore("marking suspect clips", functools.partial(self._mark_suspects, all_verdicts=True), SUSPECT)
            self.wait(until - time.monotonic())

    def turn(self) -> bool:
        """Read what is known, log and write what waits, copy indexes, and tidy up."""
        with self._turning:
            self._open_log()
            self._read_known()
            if not self._may_turn():
                return False
            self._mark_suspects(all_verdicts=self._is_closing)
            may_be_more = self._read_rows()
            self._write_log()
            self._write_files()
            if self._gave_up:  # the storage hung: what waits is kept in the driver's folder by now, and listed so
                return False
            self._apply_retention()
            self._copy_indexes()
            self._pass_done()
            self._do_chores()
            self._tidy()
            self._turned_at = time.monotonic()
            return may_be_more

    def failed(self, error: Exception) -> bool:
        """Take note that the storage does not answer; it is asked again."""
        self._last_error = error
        again = not self._faults.strict
        what = "writing to the storage (it is tried again)" if again else "writing to the storage"
        self._faults.report("the store", what, error, "away")
        return True

    def finished(self) -> bool:
        """Say whether all is stored and every index is complete."""
        if self._writes or self._events or self._deletions or self._chores or self._read_to < self._outbox.last:
            return False
        if self._suspects.has_news:
            return False
        if not self._is_complete:
            for store in self._stores.values():
                store.delete_listed()
                store.index.copy()
                self._to_heal.pop(store.name, None)
            self._heal_others()
            self._write_log()
            if self._log is not None:
                self._log.finish()
            self._is_complete = True
            self._helpers.close()
        return True

    def _heal_others(self) -> None:
        """Complete the indexes of trials that had ended when an earlier driver was killed.

        Raises:
            OSError: The storage does not answer.
        """
        for name, events in list(self._to_heal.items()):
            store = TrialStore(self.location(str(events[0].get("trial_id")), name))
            store.load(events, events)
            self._name_lost_tapes(store)
            store.delete_listed()
            store.index.copy()
            del self._to_heal[name]

    def _open_log(self) -> None:
        """Read what earlier processes left of the experiment's log, before all else.

        Raises:
            OSError: The storage does not answer.
        """
        if self._log is None:
            name = f"{self._outbox.id}-{self._outbox.generation}"
            log = ExperimentLog(self._filesystem, self.experiment, name)  # before the others are read: see ``finish``
            self._earlier = read_log(self._filesystem, self.experiment, done=True)
            self._to_heal = read_log(self._filesystem, self.experiment) if self._earlier else {}
            self._log = log
            for folder, events in self._earlier.items():
                for line in filter(is_line, events):
                    self._suspects.note(line, folder)

    def location(self, trial_id: str, folder: str) -> TrialLocation:
        """Return where a trial's files are, by the name of its folder."""
        path = posixpath.join(self.experiment, folder)
        return TrialLocation(self._filesystem, path, self._staging / folder, trial_id)

    def _may_turn(self) -> bool:
        """Say whether it is time: on a remote storage a part of the log is to have several lines."""
        if self._log is None or self._is_closing or self._writes or self._chores:
            return True
        is_remote = not self._log.grows
        return not is_remote or time.monotonic() - self._turned_at >= _TURN_SECONDS

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read_known(self) -> None:
        while self._to_know:
            known = self._to_know[0]
            store = self._store(known.trial_id)
            if store is not None:
                self._name_hole(store)
                self._name_lost_tapes(store)
                known.load(store.index.lines())
                known.load(self._lines_without_files(store))
            known.load(self._lines_that_wait(known.trial_id))
            known.complete()
            self._to_know.pop(0)
        if self._retention_changed:
            self._retention_changed = False
            for store in self._stores.values():
                store.keep(self._retention)

    def _lines_without_files(self, store: TrialStore) -> Iterator[Line]:
        """Yield the lines whose files never came: if another medium had such a name, its file would be taken for it."""
        for line in self._earlier.get(store.name, ()):
            if is_line(line) and not store.index.names(line["path"]):
                yield {**line, "status": FAILED}

    def _lines_that_wait(self, trial_id: str) -> Iterator[Line]:
        """Yield a line of each medium of a trial that an earlier process appended, and that is not stored yet."""
        for row in self._outbox.read_kinds(self._at, ("media", TAPE, TAPE_DONE, "episodes")):
            if row.trial == trial_id and row.stamp[0] < self._outbox.generation:
                facts = row.facts()
                status = WAITING if row.kind in (TAPE, TAPE_DONE) else facts.get("lost", STORED)
                for entry in named_entries(facts, row.seq):
                    yield line_of(entry, trial_id, stamp_of_row(row, facts), {"status": status})

    def _name_lost_tapes(self, store: TrialStore) -> None:
        """List the clips as tapes that an earlier process was to render, if its outbox is lost."""
        waiting = [line for line in store.index.lines() if line.get("status") == WAITING]
        waiting = [line for line in waiting if stamp_of(line)[0] < self._outbox.generation]
        if not waiting:
            return
        rows = self._outbox.read_kinds(0, (TAPE, "media"))
        known = {entry.medium.id for row in rows if row.data for entry in named_entries(row.facts(), row.seq)}
        for line in waiting:
            if line["id"] not in known and line.get("trial_id") == store.location.trial_id:
                changed = {**line, "status": ONLY_TAPE, "note": _DRIVER_LOST}
                store.index.add(changed)
                self._events.append({**changed, "trial": store.name})

    def _name_hole(self, store: TrialStore) -> None:
        """Say if media are missing that an earlier process, whose outbox is lost, had reported."""
        reached = self._reached.pop(store.location.trial_id, 0)
        stored = max((stamp_of(line)[1] for line in store.index.lines()), default=0)
        if reached > stored:
            text = (
                f"the last media of trial {store.location.trial_id} before its driver was lost did not reach the "
                "storage: they were in the outbox on that driver's machine, and nothing has them any more"
            )
            self._summary.problems([RecordingProblem(text)])

    def _store(self, trial_id: str) -> TrialStore | None:
        """Return a trial's store, with all that earlier processes left; None if nothing is known of the trial.

        Raises:
            OSError: The storage does not answer.
        """
        store = self._stores.get(trial_id)
        if store is None:
            facts = self._outbox.trial(trial_id)
            if facts is None:
                return None
            store = self._stores[trial_id] = self._opened(self.location(trial_id, facts["folder"]))
        return store

    def _opened(self, location: TrialLocation) -> TrialStore:
        """Open a trial's folder.

        Raises:
            OSError: The storage does not answer.
        """
        store = TrialStore(location, self._retention)
        store.load(self._earlier.get(store.name, ()), self._to_heal.get(store.name, ()))
        with self._faults.guard("the index", "completing it"):  # trackers read it, to find what was not sent
            store.index.copy()
        try:
            store.location.write_pointer()
        except Exception as error:
            self._faults.report("the index", "writing where the media of a trial are", error)
        return store

    def _read_rows(self) -> bool:
        """Read rows on, and make the files and lines of their media; return whether there may be more."""
        rows = self._outbox.read(self._read_to, _MOST_WRITES)
        held = sum(write.files.nbytes for write in self._writes)
        for row in rows:
            if len(self._writes) >= _MOST_WRITES or held > _MOST_BYTES:
                return True
            if not row.ready:
                return False
            held += self._take(row)
            self._read_to = row.seq
        return len(rows) == _MOST_WRITES

    def _take(self, row: Row) -> int:
        """Take a row; return the size of the files that it becomes."""
        if row.kind in ("result", "checkpoint"):
            return 0
        if row.kind == SUSPECT:
            self._log_suspects(row)
            return 0
        store = self._store(row.trial)
        if store is None:
            return 0
        if row.kind == "start":
            store.is_over = False
        elif row.kind == "end":
            store.is_over = True
        elif row.kind in ("back", "again"):
            fact = "id" if row.kind == "again" else "training_iteration"
            event = event_line(row.kind, store.name, row.trial, row.stamp, **{fact: row.facts()[fact]})
            if row.kind == "again" or len(store.index) or store.waiting:
                store.apply(event)
                self._events.append(event)
        elif row.kind in (TAPE, TAPE_DONE):
            self._list_waiting(row, store)
        else:
            return self._take_media(row, store)
        return 0

    def _log_suspects(self, row: Row) -> None:
        """Mark the clips of a row."""
        facts = row.facts()
        store = self._store_in(row.trial, facts["folder"])
        ids = [line["id"] for line in facts["lines"]]
        event = event_line(SUSPECT, store.name, row.trial, row.stamp, ids=ids, note=facts["note"])
        store.apply(event)
        self._events.append(event)

    def _list_waiting(self, row: Row, store: TrialStore) -> None:
        """List a clip that is still to be rendered."""
        (entry,) = named_entries(row.facts(), row.seq)
        line = line_of(entry, row.trial, row.stamp, {**entry.medium.facts(), "status": WAITING})
        store.index.add(line)
        self._events.append({**line, "trial": store.name})

    def _take_media(self, row: Row, store: TrialStore) -> int:
        facts = row.facts()
        if "lost" in facts:  # it was given up before it got here
            self._give_up(row, store, named_entries(facts, row.seq), facts["lost"], facts["note"])
            return 0
        try:
            entries = entries_of(facts, row.content(), row.seq)
            files = _files_of(entries, row, facts)
        except Exception as error:
            self._give_up(row, store, named_entries(facts, row.seq), FAILED, error_text(error))
            self._faults.report("the store", f"writing {facts['path']}", error)
            return 0
        if files.problems:
            self._faults.report("the store", f"writing {files.path}", ValueError(files.problems))
        files.files = {name: content for name, content in files.files.items() if not self._is_there(store, name)}
        if all(store.index.has(line) for line in files.lines):
            for line in files.lines:
                if store.index.is_older(line):  # it came again before the index of earlier runs was read
                    event = event_line("again", store.name, row.trial, row.stamp, id=line["id"])
                    store.apply(event)
                    self._events.append(event)
            return 0  # or an earlier process stored it, and was killed before its cursor advanced
        store.waiting += 1
        self._writes.append(_Write(row, store, entries, files))
        return files.nbytes

    def _is_there(self, store: TrialStore, name: str) -> bool:
        """Say whether a file is one that several results and trials share, and was written before."""
        return _is_beside(name) and store.location.on_storage(name) in self._beside

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write_log(self) -> None:
        """Append the lines of all that is new.

        Raises:
            OSError: The storage does not answer.
        """
        new = [write for write in self._writes if not write.is_logged]
        lines = [{**line, "trial": write.store.name} for write in new for line in write.files.lines]
        deleted = [event for _, events in self._deletions for event in events]
        if self._log is not None and (lines or self._events or deleted):
            self._log.append([*lines, *self._events, *deleted])
        self._events = []
        for write in new:
            write.is_logged = True
        while self._deletions:
            store, events = self._deletions.pop(0)
            store.delete(events)

    def _write_files(self) -> None:
        """Write the files that wait.

        Raises:
            Exception: None could be written: the storage is away, or full.
        """
        errors: list[tuple[_Write, Exception]] = []
        if is_local(self._filesystem):
            for write in self._writes:
                error = self._try_to_write(write)
                if error is not None:
                    errors.append((write, error))
                    if self._faults.strict or len(errors) == len(self._writes) or _has_no_room(error):
                        break
        else:
            failures = self._helpers.run_all([functools.partial(self._put, write) for write in self._writes])
            for write, failure in zip(self._writes, failures, strict=True):
                if isinstance(failure, Exception):
                    errors.append((write, failure))
                else:
                    write.is_done = True
        if self._gave_up:
            return
        done = [write for write in self._writes if write.is_done]
        for write in done:
            self._list(write)
        self._writes = [write for write in self._writes if not write.is_done]
        if done:
            for write, error in errors:
                self._faults.report("the store", f"writing {write.files.path} (it is tried again)", error, "away")
                write.failures += not _has_no_room(error)
                if write.failures >= _MAX_FAILURES or self._faults.strict:
                    self._rescue(write, error)
        elif errors:
            if self._faults.strict:
                for write, error in errors:
                    self._rescue(write, error)
            raise errors[0][1]

    def _try_to_write(self, write: _Write) -> Exception | None:
        try:
            self._put(write)
        except Exception as error:
            return error
        write.is_done = True
        return None

    def _put(self, write: _Write) -> None:
        """Write the files of a row, unless they are there."""
        location = write.store.location
        kind = str(location.filesystem.type_name)
        source = write.row.file if kind == "local" and write.row.kind == "media" else None
        for name, content in write.files.files.items():
            target = location.on_storage(name)
            if _is_beside(name):
                write_once(location.filesystem, target, content)
                self._beside.add(target)
                continue
            if source is not None and link_once(source, Path(target)):
                continue
            if write.row.kind == "episodes" or kind in ("s3", "local"):  # to ask whether it is there costs as much
                write_atomically(location.filesystem, target, content)
            else:
                write_once(location.filesystem, target, content)

    def _list(self, write: _Write) -> None:
        """List files that are on the storage."""
        store = write.store
        is_first = not store.index.has_file(write.files.path)  # other keys may share the file
        lines = [store.index.add(line) for line in write.files.lines]
        for line in lines:
            self._suspects.note(line, store.name)
        store.index.add_recorded(write.files.nbytes)
        store.files.add_lines(lines)
        store.waiting -= 1
        store.has_news = True
        self._count(write, is_first=is_first)
        if not write.files.episodes and self.pruner is not None:
            self._to_prune[store.location.trial_id] = store

    def _count(self, write: _Write, *, is_first: bool) -> None:
        if write.row.kind == "episodes":
            self._summary.episodes(write.row.trial, write.files.episodes, write.files.nbytes)
        elif is_first:
            self._summary.stored(write.row.trial, self.experiment, write.files.nbytes)

    def _rescue(self, write: _Write, error: Exception) -> None:
        """Keep files in the driver's folder that the storage refuses, and list that."""
        self._writes = [other for other in self._writes if other is not write]
        write.store.waiting -= 1
        self._keep_here(write, error_text(error))

    def _keep_here(self, write: _Write, reason: str) -> None:
        self._summary.lost(write.files.path, len(write.entries))
        note = f"{KEPT_ON_DRIVER}: {reason}"
        try:
            for name, content in write.files.files.items():
                place = os.path.normpath(write.store.location.local_path / name)
                write_once(pyarrow.fs.LocalFileSystem(), place, content)
        except Exception as error:
            note = f"{reason}; and in the driver's folder: {error_text(error)}"
            self._faults.report("the store", f"keeping {write.files.path} in the driver's folder", error)
        for line in write.files.lines:
            line |= {"status": FAILED, "note": note[:500]}
            write.store.index.add(line)
            self._events.append({**line, "trial": write.store.name})

    def _give_up(self, row: Row, store: TrialStore, entries: Sequence[MediaEntry], status: str, reason: str) -> None:
        """List media that have no file, and why."""
        if status not in UNRENDERED:
            self._summary.lost(entries[0].path, len(entries))
        facts = row.facts()
        for entry in entries:
            own = entry.medium.facts() if "at" in facts else {}  # of a clip that was to be rendered
            about = {**own, "status": status, "note": reason[:500]}
            line = line_of(entry, row.trial, stamp_of_row(row, facts), about)
            store.index.add(line)
            self._suspects.note(line, store.name)
            self._events.append({**line, "trial": store.name})

    # -- after writing ------------------------------------------------------------------------------------------------

    def _pass_done(self) -> None:
        """Advance the cursor behind the last row before which everything is done."""
        self._at = min((write.row.seq - 1 for write in self._writes), default=self._read_to)
        if self._at > self._outbox.position(STORAGE):
            self._outbox.advance(STORAGE, self._at)

    def _mark_suspects(self, *, all_verdicts: bool = False) -> None:
        """Append rows of the clips that may not show their episodes: of recipes whose env does not repeat them.

        A clip that is marked already gets no row, so this may be repeated, after a kill, too.

        Raises:
            OSError: The storage does not answer, or the driver's disk takes nothing.
            sqlite3.Error: The driver's disk takes no rows.
        """
        for recipe, reason in self._suspects.due(all_verdicts=all_verdicts).items():
            note, count = suspect_note(reason), 0
            event = {"event": SUSPECT, "note": note}
            for trial_id, folder in self._suspects.trials_of(recipe).items():
                lines = [
                    {**line, **changes}
                    for line in self._store_in(trial_id, folder).index.lines()
                    if (line.get("recipe"), line.get("trial_id")) == (recipe, trial_id)
                    and (changes := changes_by(event, line)) is not None
                ]
                parts = [lines[at : at + _SUSPECTS_A_ROW] for at in range(0, len(lines), _SUSPECTS_A_ROW)]
                facts = [{"folder": folder, "note": note, "lines": part} for part in parts]
                if facts:
                    self._outbox.append([NewRow(trial_id, SUSPECT, pack(each)) for each in facts])
                count += len({line["path"] for line in lines})
            self._suspects.are_marked(recipe)
            self._summary.suspect(count, reason)

    def _store_in(self, trial_id: str, folder: str) -> TrialStore:
        """Return the store of a trial, which may have ended.

        Raises:
            OSError: The storage does not answer.
        """
        store = self._stores.get(trial_id)
        if store is None:
            store = self._stores[trial_id] = self._opened(self.location(trial_id, folder))
            store.is_over = True
        return store

    def _apply_retention(self) -> None:
        """Delete the files that the policy does not keep.

        Raises:
            OSError: The storage does not answer.
        """
        pruner = self.pruner
        if pruner is None:
            return
        if pruner.needs_ended_trials and (self._to_prune or self._formers):
            self._look_around()
        stamp = (self._outbox.generation, self._read_to)
        surplus = [(store, pruner.surplus_of_trial(store)) for store in self._to_prune.values()]
        formers = [self._stores[trial_id] for trial_id in self._formers if trial_id in self._stores]
        surplus += [(store, pruner.surplus_of_trial(store)) for store in formers]
        if self._to_prune:
            surplus += pruner.surplus_of_experiment(self._stores.values())
        self._to_prune, self._formers = {}, []
        self._deletions += [(store, store.deletions(files, stamp)) for store, files in surplus if files]
        if self._deletions:
            self._write_log()

    def _look_around(self) -> None:
        """Open the trials that had ended before the experiment was restored.

        Raises:
            OSError: The storage does not answer.
        """
        if self._has_looked:
            return
        for folder in folders_in(self._filesystem, self.experiment):
            ids = {line.get("trial_id") for _, line in lines_of_trial(self._filesystem, folder) or ()}
            for trial_id in {id for id in ids if isinstance(id, str)} - self._stores.keys():
                self._store_in(trial_id, posixpath.basename(folder))
        self._has_looked = True

    def _copy_indexes(self) -> None:
        """Copy the indexes that are due; that of a trial that has ended is complete then, and is let go.

        Raises:
            OSError: The storage does not answer.
        """
        due: list[TrialStore] = []
        for store in self._stores.values():
            if store.has_news:
                try:
                    store.touch_pointer()
                except Exception as error:
                    self._faults.report("the index", "telling that there are new media", error)
            is_last = store.is_over and not store.waiting
            if store.index.may_copy or (is_last and store.index.is_stale):
                due.append(store)
        if due and not is_local(self._filesystem):
            for failure in self._helpers.run_all([store.index.copy for store in due]):
                if isinstance(failure, Exception):
                    raise failure
        else:
            for store in due:
                store.index.copy()
        keeps = self.pruner is not None and self.pruner.needs_ended_trials
        for trial_id, store in list(self._stores.items()):
            if store.is_over and not store.waiting and not store.index.is_stale and not keeps:
                store.delete_listed()
                self._to_heal.pop(store.name, None)
                del self._stores[trial_id]

    def _do_chores(self) -> None:
        """Do what others have for the storage's thread: one that fails is tried again.

        Raises:
            Exception: It failed.
        """
        for _ in range(len(self._chores)):
            with self._lock:
                chore = self._chores[0]
                self._keys.discard(chore.key)
            try:
                chore.work()
            except Exception:
                with self._lock:
                    self._chores.rotate(-1)
                raise
            self._drop_chore(chore)

    def _tidy(self) -> None:
        while self._outbox.tidy():
            pass
        if time.monotonic() - self._checkpointed_at > _CHECKPOINT_SECONDS:
            self._outbox.checkpoint()
            self._checkpointed_at = time.monotonic()

    # -- the end ------------------------------------------------------------------------------------------------------

    def keep_rest_here(self, seconds: float) -> list[str]:
        """Keep in the driver's folder what the storage has not taken, with an index; return the names of the files.

        Tune's loop calls this after ``close``, when the reader's own thread does nothing more.

        Args:
            seconds: How long the end has waited for the storage.
        """
        late = self._last_error or TimeoutError(f"not done within {seconds:g} s")
        reason = error_text(late) if self._last_error else str(late)
        names = [chore.what for chore in self._chores]
        known = {write.row.seq: write for write in self._writes}
        for row in self._rows_left():
            write = known.get(row.seq) or self._as_write(row)
            if write is not None:
                self._keep_here(write, reason)
                names.append(write.files.path)
        for store in self._stores.values():
            if store.index.is_stale or store.waiting:
                self._write_index_here(store)
        return names

    def _rows_left(self) -> Iterable[Row]:
        after = self._at
        while rows := self._outbox.read(after):
            yield from (row for row in rows if row.kind in ("media", "episodes"))
            after = rows[-1].seq

    def _as_write(self, row: Row) -> _Write | None:
        """Return a row that the reader has not taken, or None if it has taken it and it is done."""
        facts = row.facts()
        store = self._stores.get(row.trial)
        if store is None and (trial := self._outbox.trial(row.trial)) is not None:
            store = self._stores[row.trial] = TrialStore(self.location(row.trial, trial["folder"]))
        if store is None:
            return None
        if "lost" in facts:  # or its content is not made yet
            if row.seq > self._read_to:
                note = facts["note"] if row.ready else "its file was not made before the experiment ended"
                self._give_up(row, store, named_entries(facts, row.seq), facts["lost"], note)
            return None
        try:
            entries = entries_of(facts, row.content(), row.seq)
            files = _files_of(entries, row, facts)
        except Exception as error:
            self._faults.report("the store", f"keeping {facts['path']}", error)
            return None
        if all(store.index.has(line) for line in files.lines):
            return None
        return _Write(row, store, entries, files)

    def _write_index_here(self, store: TrialStore) -> None:
        path = store.location.local_path / INDEX_PATH
        try:
            write_atomically(pyarrow.fs.LocalFileSystem(), str(path), store.index.content())
        except Exception as error:
            self._faults.report("the index", "writing a trial's index into the driver's folder", error)


def stamp_of_row(row: Row, facts: Mapping[str, Any]) -> tuple[int, int]:
    """Return the stamp of a row's media: that of the row with the tape, if they were rendered later."""
    generation, number = facts.get("at", row.stamp)
    return generation, number


def _files_of(entries: Sequence[MediaEntry], row: Row, facts: Mapping[str, Any]) -> FileSet:
    """Return the files and lines of a row's media.

    Raises:
        Exception: As for ``file_set``.
    """
    files = file_set(entries, row.trial, stamp_of_row(row, facts))
    if "at" in facts:
        files.lines = [{**line, "row": row.seq} for line in files.lines]
    return files


def _is_beside(name: str) -> bool:
    """Say whether a file is beside the trial's folder: a recipe, whose name is the hash of its content."""
    return name.startswith("../")


def _has_no_room(error: Exception) -> bool:
    """Say whether a disk is full: it takes small things and no large ones until room is made."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM
