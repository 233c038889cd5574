"""The first reader of the outbox: writes the media of an experiment to its storage, and lists them.

A turn takes the rows that wait, writes their lines into the experiment's log, and then their files: on a remote storage
many at a time, on the same disk by giving the file in the outbox another name. Whatever file is on the storage, its
line is there before it. A kill repeats a turn, and that changes nothing. Lines that come from no row are of media that
earlier processes lost; the next process derives them again.
"""

from __future__ import annotations

import errno
import functools
import posixpath
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tune_media.callbacks.outbox import STORAGE, TAPE, Row
from tune_media.callbacks.outbox_thread import in_threads
from tune_media.callbacks.readers import Reader
from tune_media.callbacks.rows import AgainRow, BackRow, EpisodesRow, MediumRow
from tune_media.callbacks.services import Services
from tune_media.storage.entry import (
    DELETED,
    FAILED,
    ONLY_TAPE,
    STORED,
    WAITING,
    FileSet,
    file_set,
    line_of,
)
from tune_media.storage.episode_files import FOLDER as EPISODE_FOLDER
from tune_media.storage.filesystem import (
    as_argument,
    delete_half_written,
    is_local,
    link_once,
    write_atomically,
    write_once,
)
from tune_media.storage.fold import as_failed, fold
from tune_media.storage.index_lines import INDEX_PATH, Key, Line, content_of, event_line, key_of, parsed, read_index
from tune_media.storage.known_media import KnownMedia
from tune_media.storage.location import TrialLocation
from tune_media.storage.log import FOLDER as LOG_FOLDER
from tune_media.storage.log import Log, LogWriter, Part, list_parts, read_log
from tune_media.storage.trial_media import missing_files
from tune_media.values.problems import Problem
from tune_media.values.secrets import error_text
from tune_media.values.strict_json import json_bytes

_REQUESTS = 32  # to a remote storage at a time
_MOST_ROWS = 256  # in one turn
_MOST_BYTES = 64 * 2**20  # of files in one turn
_MAX_FAILURES = 5  # of one file, while the storage takes others
_KINDS = ("start", "end", "back", "again", TAPE, "media", "episodes")  # of the rows that it takes; others are passed
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_TURN_SECONDS = 1.0  # between two turns on a remote storage, so that a log part has several lines
_CHECKPOINT_SECONDS = 2.0
_LIVING_SECONDS = 600.0  # a process on another machine that has logged nothing for so long is taken for dead
_DRIVER_LOST = "not rendered: its driver was lost; `tune-media render` makes the clip of the tape"
_FILE_LOST = "lost with its driver, before its file was on the storage"


@dataclass(eq=False)
class _Trial:
    """The lines of a trial.

    Attributes:
        raw: The lines of its index and of the log, as JSON.
        rows: The row of each key that is stored, or deleted.
        tries: The tries of each key that is listed, and has no file.
        paths: The files that are stored, or were.
        missing: The files that an earlier process had listed as stored, and not written.
    """

    location: TrialLocation
    raw: list[bytes] = field(default_factory=list)
    rows: dict[Key, int] = field(default_factory=dict)
    tries: dict[Key, int] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    is_over: bool = False

    @property
    def name(self) -> str:
        """The name of its folder."""
        return posixpath.basename(self.location.path.rstrip("/"))

    def add(self, raw: bytes, line: Line) -> None:
        """Add a line or an event that is in the log, as JSON and parsed."""
        self.raw.append(raw)
        if "event" not in line:
            self.missing.discard(line["path"])
            self.note(line)

    def note(self, line: Line) -> None:
        """Take note of a medium of the trial."""
        if line.get("trial_id") != self.location.trial_id:
            return
        is_there = line.get("status") == STORED and line["path"] not in self.missing
        if is_there or line.get("status") == DELETED:
            self.rows[key_of(line)] = line["row"]
            self.paths.add(line["path"])
        else:
            self.rows.pop(key_of(line), None)
            self.tries[key_of(line)] = line.get("try", 0)

    def lines(self) -> list[Line]:
        """Return the valid line of each medium."""
        return fold(line for line in map(parsed, self.raw) if line is not None)


@dataclass(eq=False)
class _Work:
    """A row on its way to the storage: lines for the log, and files, which may be refused a few times.

    ``is_new``: the file is not on the storage yet. ``is_done``: all files are.
    """

    row: Row
    trial: _Trial
    lines: list[Line]
    files: FileSet | None = None
    is_new: bool = True
    failures: int = 0
    is_done: bool = False


class StorageWriter(Reader):
    """Writes the media of one experiment.

    Tune's loop calls ``know``, ``close`` and ``count_unwritten``, any thread calls ``put_chore`` and ``wait``; the
    writer's own thread does the rest. A turn raises if the storage does not answer, and is then taken again.

    Args:
        services: The outbox, the storage, the options, and the counts of faults and files.
        reached: If an earlier process's outbox is lost: the last row with media that it had appended, of each trial.
    """

    gather_seconds = 0.5  # Ray's TensorBoard logger has the disk write all that is new, in Tune's loop, at each result

    def __init__(self, services: Services, reached: dict[str, int]) -> None:
        outbox = services.outbox
        super().__init__(STORAGE, outbox)
        self._services, self._faults, self._summary = services, services.faults, services.summary
        self._filesystem, self.experiment = services.filesystem, services.experiment
        self._log = LogWriter(self._filesystem, self.experiment, outbox.id)
        self._earlier, self._is_open = Log(), False  # the parts of other processes that are not done; if they are read
        self._has_log = False
        self._began = time.time()
        self._trials: dict[str, _Trial] = {}
        self._unindexed: set[str] = set()  # the folders of trials whose index may lack lines
        self._works: list[_Work] = []  # the rows of this turn
        self._is_logged = False  # whether their lines are in the log
        self._more: list[tuple[str, Line]] = []  # folders and lines of the next part that are of no row
        self._to_know: list[KnownMedia] = []
        self._reached = dict(reached)
        self._turned_at = self._checkpointed_at = 0.0
        self._recipes: set[str] = set()  # that are there: they come with each tape
        self._at = self._read_to = outbox.position(STORAGE)

    def know(self, known: KnownMedia) -> None:
        """Read the lines of earlier runs of a trial before all else."""
        self._to_know.append(known)
        self.begin()
        self.hurry()  # the first result of the trial waits for them

    def wait(self, seconds: float) -> bool:
        """Wait until all rows that are there now are stored, at most so long; return whether they are."""
        upto, begun = self._outbox.last, time.monotonic()
        try:
            while self._at < upto or self._chores or self._more:
                if time.monotonic() >= begun + seconds:
                    return False
                self.begin()  # a tracker's reader may ask first, for what an earlier process left
                self._turned_at = 0.0
                self.hurry()
                time.sleep(0.005)
            return True
        finally:
            if self._services.has_ended:
                self._services.waited += time.monotonic() - begun

    def count_unwritten(self) -> None:
        """Count the files that the storage has not taken; call it after ``close``."""
        done = {work.row.seq for work in self._works if work.is_done}
        after = self._at
        while rows := self._outbox.read(after):
            for row in rows:
                if row.kind in ("media", "episodes") and row.data and row.seq not in done:
                    media = row.media()
                    is_left = row.ready and not media.lost
                    (self._summary.left_in_outbox if is_left else self._summary.lost)(media.path)
            after = rows[-1].seq

    # -- a turn -------------------------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Read what is known, log and write the rows that wait, and tidy up."""
        self._open_log()
        self._read_known()
        if not self._may_turn():
            return False
        may_be_more = self._read_rows()
        self._write_log()
        self._write_files()
        if self._gave_up:  # the storage hung: what waits stays in the outbox
            return False
        self._pass()
        self._do_chores()
        self._tidy()
        self._turned_at = time.monotonic()
        return may_be_more

    def failed(self, error: Exception) -> bool:
        """Report that the storage does not answer; the turn is repeated."""
        again = not self._faults.strict
        what = "writing to the storage (it is tried again)" if again else "writing to the storage"
        self._faults.report("the store", what, error, "away")
        return True

    def finished(self) -> bool:
        """Complete the indexes and the log when all is stored; return whether it is."""
        if self._works or self._more or self._chores or self._read_to < self._outbox.last:
            return False
        if self._name_lost():
            return False
        for folder in list(self._unindexed):
            self._write_index(folder)
        self._log.finish(self._parts_of_the_dead())
        return True

    def _parts_of_the_dead(self) -> list[Part]:
        """Return the parts that were there when this process began, but for those of others that may still live."""
        listed = list_parts(self._filesystem, posixpath.join(self.experiment, LOG_FOLDER))
        there = [part for part in listed if not part.is_done]
        since = min(self._began, time.time() - _LIVING_SECONDS)
        alive = {part.writer for part in there if part.owner != self._log.owner and part.written > since}
        return [part for part in self._earlier.parts if part.writer not in alive]

    def _may_turn(self) -> bool:
        """Return whether it is time: on a remote storage a part of the log is to have several lines."""
        if is_local(self._filesystem) or self._is_closing or self._works or self._chores:
            return True
        return time.monotonic() - self._turned_at >= _TURN_SECONDS

    # -- what earlier processes left ----------------------------------------------------------------------------------

    def _open_log(self) -> None:
        """Read the log of earlier processes, before all else, and tidy up what they left."""
        if self._is_open:
            return
        earlier = read_log(self._filesystem, self.experiment)
        everything = read_log(self._filesystem, self.experiment, done=True)
        self._outbox.raise_to(everything.last_row)
        self._has_log = bool(everything.parts)
        for folder in earlier.lines:
            delete_half_written(self._filesystem, self._path(folder), ("media", EPISODE_FOLDER, "wandb"))
        rows = self._outbox.read_kinds(0, ("media", TAPE))
        known = {entry.medium.id for row in rows if row.data for entry in row.media().names(row.seq)}
        for folder, lines in earlier.lines.items():
            self._unindexed.add(folder)
            for line in fold(lines):  # clips that an earlier process was to render
                if line.get("status") == WAITING and line["id"] not in known:
                    self._add(folder, {**line, "status": ONLY_TAPE, "note": _DRIVER_LOST})
        self._earlier, self._is_open = earlier, True

    def _add(self, folder: str, line: Line) -> None:
        """Log a line or an event that belongs to no row."""
        self._more.append((folder, line))
        self._unindexed.add(folder)

    def _name_lost(self) -> bool:
        """List media as failed that were listed and never written; return whether there were any."""
        for folder, newest in self._earlier.newest.items():
            missing = missing_files(self._filesystem, self._path(folder), newest)
            for line in self._lines_in(folder) if missing else ():
                if line.get("status") == STORED and line["path"] in missing:
                    self._add(folder, as_failed(line, _FILE_LOST))
        return bool(self._more)

    def _read_known(self) -> None:
        while self._to_know:
            known = self._to_know[0]
            trial = self._trial(known.trial_id)
            if trial is not None:
                lines = trial.lines()
                self._name_hole(trial, lines)
                known.load(
                    {**line, "status": FAILED} if line["path"] in trial.missing else line
                    for line in lines  # other media get other names
                )
            known.load(self._lines_that_wait(known.trial_id))
            known.complete()
            self._to_know.pop(0)

    def _lines_that_wait(self, trial_id: str) -> Iterable[Line]:
        """Yield a line of each medium of a trial that an earlier process appended, and that is not stored yet."""
        for row in self._outbox.read_kinds(self._at, ("media", TAPE, "episodes")):
            if row.trial == trial_id and row.seq <= self._outbox.began and row.data:
                media = row.media()
                status = WAITING if row.kind == TAPE else media.lost or STORED
                for entry in media.names(row.seq):
                    yield line_of(entry, trial_id, media.result_row(row.seq), {"status": status})

    def _name_hole(self, trial: _Trial, lines: Sequence[Line]) -> None:
        """Warn about media that a lost outbox still held."""
        reached = self._reached.pop(trial.location.trial_id, 0)
        if reached > max((line["row"] for line in lines), default=0):
            text = (
                f"the last media of trial {trial.location.trial_id} before its driver was lost did not reach the "
                "storage: they were in the outbox on that driver's machine, and nothing has them any more"
            )
            self._faults.problems.add(Problem(text))

    def _trial(self, trial_id: str) -> _Trial | None:
        """Return a trial, with all that earlier processes left; None if nothing is known of it."""
        if trial_id not in self._trials:
            start = self._outbox.trial(trial_id)
            if start is None:
                return None
            self._open(self._services.location(trial_id, start.folder))
        return self._trials[trial_id]

    def _open(self, location: TrialLocation) -> None:
        """Open a trial's folder."""
        trial, log = _Trial(location), self._earlier
        index, _ = read_index(self._filesystem, location.path)
        if self._has_log:
            trial.missing = missing_files(self._filesystem, location.path, log.newest.get(trial.name, ()))
            log = read_log(self._filesystem, self.experiment, done=True)  # the index may have lost lines
        lines = [*index, *log.lines.get(trial.name, ())]
        trial.raw = [json_bytes(line) for line in lines]
        for line in fold(lines):
            trial.note(line)
        try:
            if self._services.staging is not None:
                location.write_pointer()
        except Exception as error:
            self._faults.report("the index", "writing where the media of a trial are", error)
        self._trials[location.trial_id] = trial

    def _path(self, folder: str) -> str:
        """Return the path of a trial's folder."""
        return posixpath.join(self.experiment, folder)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read_rows(self) -> bool:
        """Take the next rows that are ready, unless some are under way; return whether there may be more."""
        if self._works:
            return True
        last, nbytes = self._outbox.last, 0
        rows = self._outbox.read(self._read_to, _MOST_ROWS)
        if not rows:  # numbers may be left out
            self._read_to = max(self._read_to, last)
        for row in rows:
            if not row.ready or nbytes > _MOST_BYTES:
                return bool(row.ready)
            trial = self._trial(row.trial) if row.kind in _KINDS else None
            if trial is not None:
                work = self._taken(row, trial)
                nbytes += work.files.nbytes if work.files is not None else 0
                self._works.append(work)
            self._read_to = row.seq
        return len(rows) == _MOST_ROWS

    def _taken(self, row: Row, trial: _Trial) -> _Work:
        """Return what is to be done with a row."""
        about = trial.name, row.trial, row.seq
        if row.kind in ("start", "end"):
            trial.is_over = row.kind == "end"
            return _Work(row, trial, [])
        if row.kind == "back":
            is_known = trial.raw or any(work.trial is trial and work.lines for work in self._works)
            event = event_line("back", *about, training_iteration=row.read(BackRow).training_iteration)
            return _Work(row, trial, [event] if is_known else [])
        if row.kind == "again":
            return _Work(row, trial, [event_line("again", *about, id=row.read(AgainRow).id)])
        if row.kind == TAPE:
            (entry,) = row.media().names(row.seq)
            line = line_of(entry, row.trial, row.seq, {**entry.medium.facts(), "status": WAITING})
            return _Work(row, trial, [line])
        return self._taken_media(row, row.media(), trial)

    def _taken_media(self, row: Row, media: MediumRow | EpisodesRow, trial: _Trial) -> _Work:
        if media.lost:  # before it got here
            return self._given_up(row, media, trial, media.lost, media.note)
        number = media.result_row(row.seq)
        try:
            files = file_set(media.entries(row.content(), row.seq), row.trial, number)
        except Exception as error:
            self._faults.report("the store", f"writing {media.path}", error)
            return self._given_up(row, media, trial, FAILED, error_text(error))
        if files.problems:
            self._faults.report("the store", f"writing {files.path}", ValueError(files.problems))
        for name in [name for name in files.files if trial.location.on_storage(name) in self._recipes]:
            del files.files[name]
        rows = [trial.rows.get(key_of(line)) for line in files.lines]
        if None not in rows:  # it was stored before, or it came again before the lines of earlier runs were read
            is_later = any(before < number for before in rows if before is not None)
            ids = dict.fromkeys(line["id"] for line in files.lines)
            again = [event_line("again", trial.name, row.trial, row.seq, id=id) for id in ids]
            return _Work(row, trial, again if is_later else [])
        for line in files.lines:
            if key_of(line) in trial.tries:  # it was listed without a file
                line["try"] = trial.tries[key_of(line)] + 1
        is_new = files.path not in trial.paths
        trial.paths.add(files.path)
        return _Work(row, trial, files.lines, files, is_new=is_new)

    def _given_up(self, row: Row, media: MediumRow | EpisodesRow, trial: _Trial, status: str, reason: str) -> _Work:
        """Return the lines of media that have no file, and why."""
        entries = media.names(row.seq)
        if status != ONLY_TAPE:
            self._summary.lost(entries[0].path, len(entries))
        lines = []
        for entry in entries:
            facts = {} if media.tape is None else entry.medium.facts()  # of a clip that was to be rendered
            facts |= {"status": status, "note": reason[:500]}
            lines.append(line_of(entry, row.trial, media.result_row(row.seq), facts))
        return _Work(row, trial, lines)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write_log(self) -> None:
        """Write a part with the lines of all rows of this turn."""
        if self._is_logged:
            return
        works = [work for work in self._works for _ in work.lines]
        lines = [{**line, "trial": work.trial.name} for work in self._works for line in work.lines]
        lines += [{**line, "trial": folder} for folder, line in self._more]
        first = self._works[0].row.seq if self._works else self._at
        written = self._log.append(first, self._read_to, lines)
        for raw, line, work in zip(written, lines, works, strict=False):
            work.trial.add(raw, line)
            self._unindexed.add(work.trial.name)
        for raw, line in zip(written[len(works) :], lines[len(works) :], strict=True):
            for trial in self._trials.values():
                if trial.name == line["trial"]:
                    trial.add(raw, line)
        self._more, self._is_logged = [], True

    def _write_files(self) -> None:
        """Write the files of this turn's rows, and the indexes of ended trials; raises the first error of a file."""
        waiting = [work for work in self._works if not work.is_done]
        failures = in_threads(
            [functools.partial(self._put, work) for work in waiting], 1 if is_local(self._filesystem) else _REQUESTS
        )
        if self._gave_up:
            return
        errors = []
        for work, failure in zip(waiting, failures, strict=True):
            work.is_done = failure is None
            if failure is not None:
                work.failures += not _has_no_room(failure)  # the storage took the part of this turn
                if work.failures >= _MAX_FAILURES or self._faults.strict:
                    self._park(work, failure)
                else:
                    errors.append(failure)
        if errors:
            raise errors[0]
        due = self._unindexed - {folder for folder, _ in self._more}
        for trial in list(self._trials.values()):
            if trial.is_over and trial.name in due:
                self._write_index(trial.name)

    def _put(self, work: _Work) -> None:
        """Write the files of a row, unless they are there, and count them."""
        if work.files is None:
            return
        location = work.trial.location
        is_link = str(self._filesystem.type_name) == "local" and work.row.kind == "media"
        source = work.row.file if is_link else None
        for name, content in work.files.files.items():
            target = location.on_storage(name)
            if name.startswith("../"):  # a recipe, whose name is the hash of its content
                write_once(self._filesystem, target, content)
                self._recipes.add(target)
            elif source is None or not link_once(source, Path(target)):
                write_atomically(self._filesystem, target, content)
        if work.row.kind == "episodes":
            self._summary.episodes(work.row.trial, work.files.episodes, work.files.nbytes)
        elif work.is_new:
            self._summary.stored(work.row.trial, work.files.nbytes)

    def _park(self, work: _Work, error: BaseException) -> None:
        """Leave in the outbox what the storage refuses again and again, and list that."""
        assert work.files is not None, "nothing else fails"
        known = error if isinstance(error, Exception) else RuntimeError(error_text(error))
        self._faults.report("the store", f"writing {work.files.path}", known)
        command = f"tune-media deliver {as_argument(self._filesystem, self.experiment)}"
        note = f"the storage refused it ({error_text(error)}); `{command}` tries again"
        self._outbox.park(work.row.seq)
        for line in work.files.lines:
            self._add(work.trial.name, as_failed(line, note))
        work.is_done = True
        self._summary.left_in_outbox(work.files.path, len(work.files.lines))

    def _lines_in(self, folder: str) -> list[Line]:
        """Return the valid lines of a trial: of its index on the storage, and all that is logged."""
        index, is_whole = read_index(self._filesystem, self._path(folder))
        trials = [trial for trial in self._trials.values() if trial.name == folder]
        lines = [line for trial in trials for line in map(parsed, trial.raw) if line is not None]
        if not trials:  # else it was read when the trial was opened
            lines += read_log(self._filesystem, self.experiment, done=not is_whole).lines.get(folder, [])
        return fold([*index, *lines])

    def _write_index(self, folder: str) -> None:
        """Write the index of a trial."""
        lines = self._lines_in(folder)
        if lines:
            write_atomically(self._filesystem, posixpath.join(self._path(folder), INDEX_PATH), content_of(lines))
        self._unindexed.discard(folder)

    def _pass(self) -> None:
        """Advance the cursor, and let go of trials that have ended."""
        for id in [id for id, trial in self._trials.items() if trial.is_over and trial.name not in self._unindexed]:
            del self._trials[id]
        self._works, self._is_logged = [], False
        self._at = self._read_to
        if self._at > self._outbox.position(STORAGE):
            self._outbox.advance(STORAGE, self._at)

    # -- after writing ------------------------------------------------------------------------------------------------

    def _do_chores(self) -> None:
        """Do the chores of other threads; raises if one fails, which then comes last."""
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


def _has_no_room(error: BaseException) -> bool:
    """Return whether a disk is full: it takes small things and no large ones until room is made."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM
