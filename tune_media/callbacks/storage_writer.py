"""The first reader of the outbox: writes the media of an experiment to its storage, and lists them.

A turn takes the rows that wait, writes their lines into the experiment's log, and then their files: on a remote storage
many at a time, on the same disk by giving the file in the outbox another name. Whatever file is on the storage, its
line is there before it. A kill repeats a turn, and that changes nothing. Lines that come from no row are of media that
earlier processes lost; the next process derives them again.
"""

from __future__ import annotations

import errno
import functools
import time
from collections.abc import Iterable
from dataclasses import replace

from tune_media.callbacks.experiment_log import ExperimentLog
from tune_media.callbacks.outbox import STORAGE, TAPE
from tune_media.callbacks.outbox_thread import in_threads
from tune_media.callbacks.readers import Reader
from tune_media.callbacks.row_files import RowFiles, StorageRow
from tune_media.callbacks.services import Services
from tune_media.storage.entry import FAILED, STORED, WAITING, line_of
from tune_media.storage.filesystem import as_argument, is_local
from tune_media.storage.fold import as_failed, fold
from tune_media.storage.index_lines import MediumLine
from tune_media.storage.known_media import KnownMedia
from tune_media.values.problems import Problem
from tune_media.values.secrets import error_text

_REQUESTS = 32  # to a remote storage at a time
_MOST_ROWS = 256  # in one turn
_MOST_BYTES = 64 * 2**20  # of files in one turn
_MAX_FAILURES = 5  # of one file, while the storage takes others
_KINDS = ("start", "end", "back", "again", TAPE, "media", "episodes")  # of the rows that it takes; others are passed
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_TURN_SECONDS = 1.0  # between two turns on a remote storage, so that a log part has several lines
_CHECKPOINT_SECONDS = 2.0


class StorageWriter(Reader):
    """Writes the media of one experiment; a turn raises if the storage does not answer, and is then taken again.

    Tune's loop calls ``know``, ``close`` and ``count_unwritten``, any thread calls ``put_chore`` and ``wait``; the
    writer's own thread does the rest. ``reached``: if an earlier process's outbox is lost, each trial's last row in it.
    """

    gather_seconds = 0.5  # Ray's TensorBoard logger has the disk write all that is new, in Tune's loop, at each result

    def __init__(self, services: Services, reached: dict[str, int]) -> None:
        super().__init__(STORAGE, services)
        self._summary = services.summary
        self._is_local = is_local(services.filesystem)
        self._log, self._files = ExperimentLog(services), RowFiles(services)
        self._rows: list[StorageRow] = []  # of this turn
        self._is_logged = False  # whether their lines are in the log
        self._to_know: list[KnownMedia] = []
        self._reached = dict(reached)
        self._turned_at = self._checkpointed_at = 0.0
        self._at = self._read_to = services.outbox.position(STORAGE)

    def know(self, known: KnownMedia) -> None:
        """Read the lines of earlier runs of a trial before all else."""
        self._to_know.append(known)
        self.begin()
        self.hurry()  # the first result of the trial waits for them

    def wait(self, seconds: float) -> bool:
        """Wait until all rows that are there now are stored, at most so long; return whether they are."""
        upto, begun = self._outbox.last, time.monotonic()
        while self._at < upto or self._chores or self._log.unlogged:
            if time.monotonic() >= begun + seconds:
                return False
            self.begin()  # a tracker's reader may ask first, for what an earlier process left
            self._turned_at = 0.0
            self.hurry()
            time.sleep(0.005)
        return True

    def count_unwritten(self) -> None:
        """Count the files that the storage has not taken; call it after ``close``."""
        done = {work.row.seq for work in self._rows if work.is_done}
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
        """Read the lines of earlier runs, log and write the rows that wait, and tidy up."""
        self._log.open()
        self._read_known()
        may_wait = not (self._is_local or self._is_closing or self._rows or self._chores)
        if may_wait and time.monotonic() - self._turned_at < _TURN_SECONDS:
            return False
        may_be_more = self._read_rows()
        if not self._is_logged:
            first = self._rows[0].row.seq if self._rows else self._at
            self._log.append(first, self._read_to, [line for row in self._rows for line in row.lines])
            self._is_logged = True
        self._write_files()
        if self._gave_up:  # the storage hung: what waits stays in the outbox
            return False
        self._log.forget_ended()
        self._rows, self._is_logged, self._at = [], False, self._read_to
        self._outbox.advance(STORAGE, self._at)
        self._do_chores()
        while self._outbox.tidy():
            pass
        if time.monotonic() - self._checkpointed_at > _CHECKPOINT_SECONDS:
            self._outbox.checkpoint()
            self._checkpointed_at = time.monotonic()
        self._turned_at = time.monotonic()
        return may_be_more

    def failed(self, error: Exception) -> bool:
        """Report that the storage does not answer; the turn is repeated."""
        action = "writing to the storage" if self._faults.strict else "writing to the storage (it is tried again)"
        self._faults.report("the store", action, error, "away")
        return True

    def finished(self) -> bool:
        """Complete the indexes and the log when all is stored; return whether it is."""
        if self._rows or self._log.unlogged or self._chores or self._read_to < self._outbox.last:
            return False
        return self._log.finish()

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read_known(self) -> None:
        """Tell Tune's loop the media of trials that earlier processes had."""
        while self._to_know:
            known = self._to_know[0]
            trial = self._log.trial(known.trial_id)
            if trial is not None:
                lines = fold(trial.lines())
                if self._reached.pop(known.trial_id, 0) > max((line.row for line in lines), default=0):
                    text = (
                        f"the last media of trial {known.trial_id} before its driver was lost did not reach the "
                        "storage: they were in that driver's outbox, which is not on this machine, or is of "
                        "another version"
                    )
                    self._faults.problems.add(Problem(text))
                known.load(  # other media than those whose file is missing get other names
                    replace(line, status=FAILED) if line.path in trial.missing else line for line in lines
                )
            known.load(self._lines_that_wait(known.trial_id))
            known.complete()
            self._to_know.pop(0)

    def _lines_that_wait(self, trial_id: str) -> Iterable[MediumLine]:
        """Yield a line of each medium of a trial that an earlier process appended, and that is not stored yet."""
        for row in self._outbox.read(self._at, None, ("media", TAPE, "episodes")):
            if row.trial == trial_id and row.seq <= self._outbox.began and row.data:
                media = row.media()
                status = WAITING if row.kind == TAPE else media.lost or STORED
                for entry in media.names(row.seq):
                    yield line_of(entry, trial_id, media.result_row(row.seq), status, {})

    def _read_rows(self) -> bool:
        """Take the next rows that are ready, unless some are under way; return whether there may be more."""
        if self._rows:
            return True
        last, nbytes = self._outbox.last, 0
        rows = self._outbox.read(self._read_to, _MOST_ROWS)
        if not rows:  # numbers may be left out
            self._read_to = max(self._read_to, last)
        for row in rows:
            if not row.ready or nbytes > _MOST_BYTES:
                return bool(row.ready)
            trial = self._log.trial(row.trial) if row.kind in _KINDS else None
            if trial is not None:
                has_lines = trial.raw or any(before.trial is trial and before.lines for before in self._rows)
                self._rows.append(self._files.of(row, trial, has_lines=bool(has_lines)))
                files = self._rows[-1].files
                nbytes += 0 if files is None else files.nbytes
            self._read_to = row.seq
        return len(rows) == _MOST_ROWS

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write_files(self) -> None:
        """Write the files of this turn's rows, and the indexes of ended trials; raises the first error of a file."""
        waiting = [row for row in self._rows if not row.is_done]
        failures = in_threads(
            [functools.partial(self._files.write, row) for row in waiting], 1 if self._is_local else _REQUESTS
        )
        if self._gave_up:
            return
        errors = []
        for row, failure in zip(waiting, failures, strict=True):
            row.is_done = failure is None
            if failure is not None:
                is_full = isinstance(failure, OSError) and failure.errno in _NO_ROOM  # small things fit: the part did
                row.failures += not is_full
                if row.failures >= _MAX_FAILURES or self._faults.strict:
                    self._park(row, failure)
                else:
                    errors.append(failure)
        if errors:
            raise errors[0]
        self._log.write_ended()

    def _park(self, row: StorageRow, error: BaseException) -> None:
        """Leave in the outbox what the storage refuses again and again, and list that."""
        assert row.files is not None, "nothing else fails"
        self._faults.report("the store", f"writing {row.files.path}", error)
        command = f"tune-media deliver {as_argument(self._services.filesystem, self._services.experiment)}"
        note = f"the storage refused it ({error_text(error)}); `{command}` tries again"
        self._outbox.park(row.row.seq)
        for line in row.files.lines:
            self._log.add(row.trial.folder, as_failed(line, note))
        row.is_done = True
        self._summary.left_in_outbox(row.files.path, len(row.files.lines))

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
