"""Readers of the outbox, and the one that calls a backend.

A reader reads on from its cursor, does what the rows ask for, waits while its storage or tracker is away, and advances.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_media.callbacks.backend import (
    ROW_KINDS,
    Backend,
    Context,
    Report,
    RowKind,
    StorageAwayError,
    TrialInfo,
    own_lines,
)
from tune_media.callbacks.outbox import DATA_KINDS, Row
from tune_media.callbacks.outbox_thread import OutboxThread
from tune_media.callbacks.rows import AgainRow, BackRow, CheckpointRow, EndRow, MediumRow, ResultRow, StartRow
from tune_media.callbacks.services import TRACKER_SHARE, Services, Storage
from tune_media.storage.filesystem import read_if_there
from tune_media.storage.index_lines import Line, read_index
from tune_media.values.checks import first_names
from tune_media.values.options import MediaOptions
from tune_media.values.plain import unpack

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("tune_media")

_COMMIT_SECONDS = 0.25  # how often a cursor is written down that only passes rows
_BATCH = 64  # rows that are read at a time


@dataclass(eq=False)
class Chore:
    """Work for a reader's thread that is no row: it is derived from files, and need not survive a kill.

    While a chore with a ``key`` waits, no other one with this key is taken. Rows up to ``after`` come before it.
    """

    action: str
    work: Callable[[], None]
    key: Any = None
    after: int = 0


class Reader(OutboxThread):
    """A thread that works through the rows of the outbox, and does chores in between."""

    def __init__(self, name: str, services: Services, niceness: int = 0) -> None:
        super().__init__(name, services, niceness)
        self._at = 0  # the number of the last row that is done
        self._chores: deque[Chore] = deque()
        self._keys: set[Any] = set()

    def put_chore(self, action: str, work: Callable[[], None], key: Any = None) -> None:
        """Do some work after all rows that are there now; any thread calls this."""
        with self._lock:
            if key is not None and key in self._keys:
                return
            self._keys.add(key)
            self._chores.append(Chore(action, work, key, self._outbox.last))
        self.begin()
        self._outbox.wake()

    def _next_chore(self) -> Chore | None:
        """Return the first chore before which all rows are done."""
        with self._lock:
            return self._chores[0] if self._chores and self._chores[0].after <= self._at else None

    def _drop_chore(self, chore: Chore) -> None:
        with self._lock:
            if self._chores and self._chores[0] is chore:
                self._chores.popleft()


class BackendReader(Reader, Context):
    """Delivers the rows of the outbox to one backend; it is the backend's ``Context``, too.

    ``reads``: whether the backend has a method that the reader's thread calls, rather than Tune's loop.
    ``key`` names its cursor in the outbox; a new one starts at this process's first row.
    """

    def __init__(self, backend: Backend, services: Services, storage: Storage, key: str) -> None:
        name = backend.name or type(backend).__name__
        super().__init__(name, services, backend.niceness)
        self.backend, self._storage, self._key = backend, storage, key
        methods = {kind.method for kind in ROW_KINDS.values()} - backend.in_loop
        self.reads = any(getattr(type(backend), name) is not getattr(Backend, name) for name in methods)
        if self.reads:  # else its cursor would not move, and all rows would stay
            services.outbox.add_reader(key, services.outbox.began)
        self._infos: dict[str, TrialInfo] = {}  # as Tune's loop hands them to the backend
        self._trials: dict[str, TrialInfo] = {}  # that the backend has started, and not ended
        self._refused: set[str] = set()  # trials that it could not start
        self._rows: deque[Row] = deque()
        self._turns, self._has_turn = contextlib.ExitStack(), False  # of long work, beside rendering
        self._backs: list[tuple[Row, int]] = []  # rows that wait and say that a trial went back, and to where
        self._again: set[tuple[str, str]] = set()  # trials and media that come again, in rows that wait
        self._part = 0  # how many media of the next row are delivered
        self._under_way = 0  # the number of the row that is being delivered; 0 if none is
        self._to_copy: list[tuple[Any, int]] = []  # what a row has the storage copy, and the number of that row
        self._lacks: Counter[tuple[str, str]] = Counter()  # what the backend does not have, by trial and noun
        self._committed_at = 0.0
        self._is_finished = False
        self._deadline: float | None = None
        self._waited = ""  # how long the end waited in vain
        self._at = services.outbox.position(key)
        backend.context = self

    @property
    def options(self) -> MediaOptions:
        """The user's options."""
        return self._services.options

    def guard(self, action: str) -> contextlib.AbstractContextManager[None]:
        """Turn an exception into one warning and a count, or let it through if strict."""
        return self._services.faults.guard(self.name, action)

    def fault(self, action: str, error: Exception, kind: str = "") -> None:
        """Count a fault, and warn of it if it is the first of its kind."""
        self._services.faults.report(self.name, action, error, kind)

    def later(self, action: str, work: Callable[[], None], key: Any = None) -> None:
        """Run work in the backend's thread, after everything that it was given before."""
        self.put_chore(action, work, key)

    def on_storage(self, action: str, work: Callable[[], None], key: Any = None) -> None:
        """Run work in the storage's thread, and again while the storage is away.

        If a row is being delivered, the cursor does not pass it before the work is done: a kill would lose the work.
        """
        key = key or object()
        with self._lock:
            self._to_copy += [(key, self._under_way)] if self._under_way else []

        def copy() -> None:
            with self._lock:
                covered = [(waiting, row) for waiting, row in self._to_copy if waiting == key]
            work()
            with self._lock:
                self._to_copy = [waiting for waiting in self._to_copy if waiting not in covered]
            self._commit()

        self._storage.put_chore(action, copy, key)

    def wait_for_storage(self) -> None:
        """Wait until everything is stored, as long as the end may take; raises ``StorageAwayError`` if it is not."""
        if not self._storage.wait(min(self.seconds_left() / 2, self._services.time_left())):
            raise StorageAwayError("the storage has not taken all that was reported before")

    def lines(self, trial: TrialInfo) -> list[Line]:
        """Return the own index lines of a trial that has ended: once its last row is stored, its index has all."""
        self.wait_for_storage()
        lines = read_index(trial.location.filesystem, trial.location.path)[0]
        return own_lines((line.fields() for line in lines), trial.trial_id)

    def content(self, trial: TrialInfo, path: str) -> bytes | None:
        """Return a file of a trial by its path in an index line; None if it is gone."""
        return read_if_there(trial.location.filesystem, trial.location.on_storage(path))

    def scratch(self) -> Path:
        """Return a new folder on this machine's disk."""
        return self._outbox.scratch()

    def seconds_left(self) -> float:
        """Return how long the end may still take; infinite before it has begun."""
        return float("inf") if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def call_in_loop(self, kind: str, trial: Trial, *arguments: Any) -> None:
        """Call the backend as a row of a kind would have it called, if Tune's loop calls that method itself."""
        row_kind = ROW_KINDS[kind]
        if row_kind.method in self.backend.in_loop:
            with self.guard(row_kind.doing):
                info = self._infos.get(trial.trial_id)
                if info is None or info.ray is not trial or kind == "start":
                    info = self._infos[trial.trial_id] = self._services.live_info(trial)
                row_kind.call(self.backend, info, *arguments)
        if kind == "end":
            self._infos.pop(trial.trial_id, None)

    def expect_end(self) -> None:
        """Let the backend finish: all do so at once, and the end waits for one after the other."""
        allowed = self.backend.patience
        if allowed is None or self._services.exit_by is not None:
            allowed = self._services.time_left(TRACKER_SHARE)
        self._deadline = time.monotonic() + allowed
        self._is_closing = True
        self.hurry()

    def finish(self) -> None:
        """Wait for the backend as long as the end may take."""
        if self._deadline is None or self._services.exit_by is not None:  # SIGTERM leaves less time
            self.expect_end()
        if "finish" in self.backend.in_loop or (self._thread is None and self.is_done):
            with self.guard("finishing"):
                self.backend.finish()
            return
        begun = time.monotonic()
        if not self.close(self.seconds_left()):
            self._waited = f" The end of the experiment waited {time.monotonic() - begun:.1f} s for it."
            for trial, kind, count in self._outbox.count_after(self._at):
                self._lacks_rows(trial, kind, count)
            logger.warning(
                "tune_media: %s had not finished when the experiment ended, so its last data may be missing. To wait "
                "longer, increase %s. What waits for it stays on the driver's disk; Tuner.restore goes on with it.",
                self.name,
                f"MediaOptions(flush_seconds={self.options.flush_seconds:g})"
                if self.backend.patience is None
                else "its own time limit",
            )

    @property
    def behind(self) -> list[str]:
        """The trials of which the backend still lacks something."""
        kinds = [kind for kind in ROW_KINDS if (called := self._called_for(kind)) is not None and called.noun]
        return self._outbox.trials_behind(self._key, kinds) if self.reads else []

    def _lacks_rows(self, trial_id: str, kind: str, count: int = 1) -> None:
        """Count rows that the backend does not get, if it lacks anything without them."""
        row_kind = self._called_for(kind)
        if row_kind is not None and row_kind.noun:
            with self._lock:
                self._lacks[trial_id, row_kind.noun] += count

    def _called_for(self, kind: str) -> RowKind | None:
        """Return how this thread calls the backend for rows of a kind, or None if it does not."""
        row_kind = ROW_KINDS.get(kind)
        return None if row_kind is None or row_kind.method in self.backend.in_loop else row_kind

    def name_lacks(self) -> None:
        """Warn of everything that the backend does not have, if it lacks any; call it when the storage is closed."""
        total, trials = Counter[str](), sorted({trial for trial, _ in self._lacks})
        for (_, noun), count in self._lacks.items():
            total[noun] += count
        if trials:
            logger.warning(
                "tune_media: %s lacks %s of %d trial(s): %s. %s The warnings above say why.%s",
                self.name,
                ", ".join(f"{count} {noun}" for noun, count in sorted(total.items())),
                len(trials),
                first_names(trials),
                self._services.summary.folders_text(),
                self._waited,
            )

    def turn(self) -> bool:
        """Deliver the next row, or do the next chore."""
        try:
            return self._deliver_next()
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        """Let clips be rendered again once all rows are done that were read: one clip a turn would fall behind."""
        if not self._rows:
            self._turns.close()
            self._has_turn = False

    def _deliver_next(self) -> bool:
        chore = self._next_chore()
        if chore is not None:
            with self._lock:
                self._keys.discard(chore.key)
            chore.work()
            self._drop_chore(chore)
            return True
        self._skip()
        if not self._rows and not self._fetch():
            self._commit()
            if self._is_closing and not self._chores and not self._is_finished:
                if "finish" not in self.backend.in_loop:
                    self.backend.finish()
                self._is_finished = True
                self._commit()
            return False
        row = self._rows[0]
        if not row.ready:
            self._rows.clear()  # it is read again when it is
            self._commit()
            return False
        self._under_way = row.seq
        try:
            self._deliver(row)
        finally:
            self._under_way = 0
        self._pass(row)
        return True

    def failed(self, error: Exception) -> bool:
        """Take note of an error: the same again if the tracker is away, else the next row."""
        is_away = False
        with self.guard("asking whether an error will pass"):
            is_away = not self._services.faults.strict and self.backend.is_away(error)
        if is_away:
            self.fault(f"{self._doing()} (it is tried again)", error, "away")
            self._rows.clear()  # the trial may have gone back before the next try
            self._end_turn()
            return True
        self.fault(self._doing(), error)
        chore = self._next_chore()
        if chore is not None:
            self._drop_chore(chore)
        elif self._rows:
            row = self._rows[0]
            self._lacks_rows(row.trial, row.kind)
            if row.trial not in self._trials:
                self._refused.add(row.trial)
            if row.kind == "end":
                self._trials.pop(row.trial, None)
            self._pass(row)
        else:
            self._is_finished = True
        return False

    def finished(self) -> bool:
        """Return whether all rows are delivered and the backend has finished."""
        return self._is_finished

    @property
    def is_done(self) -> bool:
        """Whether nothing waits for the backend."""
        is_idle = self._thread is None and not (self.reads and self._outbox.read(self._at, 1))
        return self._is_finished or is_idle

    def _skip(self) -> None:
        """Leave out the rows over which the outbox has moved the cursor, since it had no room for them."""
        skipped = self._outbox.take_skipped(self._key)
        for seq, trial_id, kind in skipped:
            if seq > self._at:
                self._outbox_was_full(trial_id, kind)
        if skipped:
            self._rows.clear()
            self._part, self._at = 0, max(self._at, self._outbox.position(self._key))

    def _fetch(self) -> bool:
        self._rows.extend(self._outbox.read(self._at, _BATCH))
        if self._rows:
            waiting = self._outbox.read(self._at, None, ("back", "again"))
            self._backs = [(row, row.read(BackRow).training_iteration) for row in waiting if row.kind == "back"]
            self._again = {(row.trial, row.read(AgainRow).id) for row in waiting if row.kind == "again"}
        return bool(self._rows)

    def _deliver(self, row: Row) -> None:
        """Call the backend with a row, unless Tune's loop does or the row has nothing for it."""
        kind = self._called_for(row.kind)
        if row.kind in DATA_KINDS and not row.data:
            self._outbox_was_full(row.trial, row.kind)
        elif kind is not None and (trial := self._trial_of(row)) is not None:
            if row.kind == "media" and self.backend.niceness > 0 and not self._has_turn:
                self._turns.enter_context(self._services.in_turn())
                self._has_turn = True
            for arguments in self._arguments(row, trial)[self._part :]:
                kind.call(self.backend, trial, *arguments)
                self._part += 1
        if row.kind == "end":
            self._trials.pop(row.trial, None)

    def _trial_of(self, row: Row) -> TrialInfo | None:
        """Return the trial of a row, started if need be, or None if the backend gets nothing of it."""
        if row.kind == "start":
            return self._start(row.trial, row.read(StartRow))
        trial = self._trials.get(row.trial)
        if trial is None and row.trial in self._refused:
            self._lacks_rows(row.trial, row.kind)
            return None
        if trial is None:  # an earlier process started it, or it began before this reader
            start = self._outbox.trial(row.trial)
            if start is None:
                return None
            trial = self._start(row.trial, start)
        if row.kind == "again" and row.read(AgainRow).is_earlier:  # Tune's snapshot did not say that it had begun
            trial = self._trials[row.trial] = replace(trial, is_restored=True)
        return trial

    def _start(self, trial_id: str, start: StartRow) -> TrialInfo:
        trial = self._services.trial_info(trial_id, start)
        if "start" not in self.backend.in_loop:
            self.backend.start(trial)
        self._refused.discard(trial_id)
        self._trials[trial_id] = trial
        return trial

    def _arguments(self, row: Row, trial: TrialInfo) -> list[tuple[Any, ...]]:
        """Return the arguments after the trial of each call that a row asks for; none for a start, which is made."""
        if row.kind == "start":
            return []
        if row.kind == "end":
            return [(row.read(EndRow).status,)]
        if row.kind == "checkpoint":
            return [(row.read(CheckpointRow).path,)]
        if row.kind == "again":
            return [(row.read(AgainRow).id, row.seq)]
        if row.kind == "result":
            result = row.read(ResultRow)
            is_abandoned = self._is_abandoned(row, result.training_iteration)
            return [] if is_abandoned else [(self._report(row.seq, result),)]
        media = row.media()
        comes_again = isinstance(media, MediumRow) and (row.trial, media.medium.id) in self._again
        if media.lost or (self._is_abandoned(row, media.training_iteration or 0) and not comes_again):
            return []
        return [(entry,) for entry in media.entries(row.content(), row.seq)]

    def _report(self, seq: int, result: ResultRow) -> Report:
        report = Report(result.step, result.training_iteration, time=result.time, row=seq)
        live = self._services.unpackable_values(result.held_as, result.live)
        report.__dict__.update(flat={**unpack(result.values), **live}, config=result.config)
        return report

    def _is_abandoned(self, row: Row, iteration: int) -> bool:
        """Return whether the trial went back behind a row of this iteration that has not been delivered yet."""
        return any(
            back.trial == row.trial and back.seq > row.seq and iteration >= reached for back, reached in self._backs
        )

    def _pass(self, row: Row) -> None:
        self._rows.popleft()
        self._part, self._at = 0, row.seq
        if self._called_for(row.kind) is not None or time.monotonic() - self._committed_at > _COMMIT_SECONDS:
            self._commit()  # what the backend has taken is not delivered again after a kill

    def _commit(self) -> None:
        self._committed_at = time.monotonic()
        with self._lock:
            upto = min([self._at, *(row - 1 for _, row in self._to_copy)])
        if upto > self._outbox.position(self._key):
            self._outbox.advance(self._key, upto)

    def _outbox_was_full(self, trial_id: str, kind: str) -> None:
        if self._called_for(kind) is None:
            return
        self._lacks_rows(trial_id, kind)
        error = RuntimeError(
            f"it is so far behind that MediaOptions(max_spilled_bytes={self.options.max_spilled_bytes}) or the free "
            "space of the driver's disk did not allow to keep all that waited for it"
        )
        self.fault("keeping what waits", error, kind="dropped")

    def _doing(self) -> str:
        chore = self._next_chore()
        if chore is not None:
            return chore.action
        if not self._rows:
            return "finishing"
        row = self._rows[0]
        if row.kind == "media":
            return f"logging {row.media().path}"
        return ROW_KINDS[row.kind].doing if row.kind in ROW_KINDS else row.kind
