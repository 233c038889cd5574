"""Writing to the storage: queued by Tune's loop, done by the storage's thread, and tried again while it is away."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tune_media.callbacks.faults import Faults
from tune_media.callbacks.helpers import Helpers
from tune_media.callbacks.mailbox import Mailbox
from tune_media.callbacks.spool import UnreadableError
from tune_media.callbacks.summary import Summary
from tune_media.callbacks.work_queue import Task, WorkQueue
from tune_media.storage.entry import DROPPED, FAILED, LostMedium, MediaEntry, NotMadeError, PendingWrite
from tune_media.storage.trial_store import TrialStore
from tune_media.values.options import MediaOptions
from tune_media.values.secrets import error_text, redacted

logger = logging.getLogger("tune_media")

_REQUESTS = 32  # to a remote storage at a time


@dataclass(frozen=True)
class _Write:
    """The files of a medium, or of the episodes of a result, on their way to the storage."""

    number: int
    trial_id: str
    folder: str  # the experiment's, on the storage
    package: PendingWrite


class Stored(Protocol):
    """Is told by the storage's thread how far the writing of a trial is."""

    def prune(self, store: TrialStore) -> None:
        """A medium of the trial has been stored."""

    def is_written(self, store: TrialStore) -> None:
        """Nothing of the trial waits to be written."""


class Writer:
    """Writes the media of an experiment.

    Tune's loop calls ``put`` and ``close``, any thread calls ``later``, and the storage's thread does the rest,
    in order. Helpers bring files to a remote storage before their turn, since one request takes long there. At most
    ``MediaOptions(max_pending_bytes=...)`` of media wait in memory; the others wait on the driver's disk, at most
    ``MediaOptions(max_spilled_bytes=...)``; what is more is dropped.

    Args:
        faults: Counts faults.
        summary: Counts files.
        options: Returns the user's options.
        folder: The folder on the driver's disk in which media wait.
        trials: Told of each stored file.
    """

    def __init__(
        self,
        faults: Faults,
        summary: Summary,
        options: Callable[[], MediaOptions],
        folder: Path,
        trials: Stored,
    ) -> None:
        self._faults, self._summary, self._options, self._trials = faults, summary, options, trials
        self._folder = folder
        self._stores: dict[str, TrialStore] = {}  # of the trials of which something waits
        self._waiting: dict[str, set[int]] = {}  # the numbers of each trial's writes
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._helpers = Helpers("storage", _REQUESTS)
        self.queue = WorkQueue(
            "storage", self._is_worth_another_try, self._report, keeps_order=False, helpers=self._helpers
        )
        self._mailbox: Mailbox[_Write] = Mailbox(
            self.queue,
            self._write,
            self._rescue,
            lambda write: f"writing {write.package.path}",
            lambda: options().max_pending_bytes,
            self._say_that_it_spills,
            self._drop,
            folder,
            lambda: options().max_spilled_bytes,
            self._early,
            _without_content,
        )

    def put(self, store: TrialStore, entries: Sequence[MediaEntry], folder: str) -> None:
        """Have the new media of a result written.

        Args:
            store: The trial's.
            entries: The media.
            folder: The experiment's, on the storage.
        """
        self._summary.begins(folder)
        trial_id = store.location.trial_id
        packages = [PendingWrite(trial_id, [entry]) for entry in entries if not entry.is_episodes]
        episodes = [entry for entry in entries if entry.is_episodes]
        packages += [PendingWrite(trial_id, episodes, entries)] if episodes else []
        for package in packages:
            write = _Write(next(self._numbers), trial_id, folder, package)
            with self._lock:
                self._stores[trial_id] = store
                self._waiting.setdefault(trial_id, set()).add(write.number)
            self._mailbox.put(write, sum(entry.medium.nbytes for entry in package.entries))

    def later(self, what: str, work: Callable[[], None], key: Any = None) -> None:
        """Queue other work for the storage's thread; while the storage is away it is tried again.

        Args:
            what: Its name, for warnings.
            work: The work.
            key: While work with this key waits, no more of it is queued.
        """
        self.queue.put(Task(what, work, key=key))

    def close(self, seconds: float) -> list[str]:
        """Wait for the remaining writes, at most so long; keep the rest on the driver, and return its names."""
        left = self.queue.close(seconds)
        late = TimeoutError(f"not done within {self._options().flush_seconds:g} s")
        for task in left:
            task.give_up(late)
        self._helpers.close()
        names = [task.what for task in left if not task.is_local]
        for write in self._mailbox.take_rest():
            self._rescue(write, late)
            names.append(write.package.path)
        return names

    def beside(self, work: Callable[[], None]) -> None:
        """Have a request to a remote storage made at once, by any thread."""
        started = self._helpers.start(work)
        if started.done() and started.exception():  # no thread could be started
            work()

    def _early(self, write: _Write) -> Callable[[], None] | None:
        """Return what brings files to a remote storage before their turn; they are listed when it comes."""
        store = self._stores[write.trial_id]
        return functools.partial(store.uploads.write_early, write.package) if store.uploads.is_remote else None

    def _write(self, write: _Write) -> None:
        """Write files; called again while the storage is away."""
        store, package = self._stores.get(write.trial_id), write.package
        if store is None:  # it was given up at the end, when the storage hung
            return
        self._count(write, store.write(package))
        if not package.entries[0].is_episodes:
            self._trials.prune(store)
        self._done(write)

    def _count(self, write: _Write, nbytes: int) -> None:
        """Count files that are on the storage."""
        package = write.package
        if package.entries[0].is_episodes:
            self._summary.episodes(write.trial_id, _episodes_in(package), nbytes)
            if package.problems:
                self._faults.report("the store", f"writing {package.path}", ValueError(package.problems))
        elif not package.entries[0].shares_file:
            self._summary.stored(write.trial_id, write.folder, nbytes)

    def _rescue(self, write: _Write, error: Exception) -> None:
        """Keep files in the driver's folder that the storage does not take; list those that a helper has brought it."""
        store, package = self._stores.get(write.trial_id), write.package
        if store is None or write.number not in self._waiting.get(write.trial_id, ()):
            return  # it was written after all, just when the end gave it up
        if package.is_on_storage:
            with self._faults.guard("the store", f"listing {package.path}", background=True):
                self._count(write, store.list_written(package))
            self._done(write)
            return
        self._summary.lost(package.path, len(package.entries))
        if not isinstance(error, NotMadeError):
            with self._faults.guard("the store", f"keeping {package.path} in the driver's folder", background=True):
                store.keep_here(package, f"{error_text(error)}")
        self._done(write)

    def _drop(self, write: _Write, error: OSError) -> None:
        """Give up media for which there is room neither in memory nor on the driver's disk, or that it lost."""
        store, package, status, reason = self._stores[write.trial_id], write.package, FAILED, redacted(str(error))
        if not isinstance(error, UnreadableError):
            status = DROPPED
            reason = (
                f"more than MediaOptions(max_pending_bytes={self._options().max_pending_bytes}) wait to be written, "
                f"and the driver's disk takes no more in {self._folder}: {redacted(str(error))}"
            )
        self._faults.report("the store", f"keeping {package.path}", RuntimeError(reason), kind=status)
        self._summary.lost(package.path, len(package.entries))
        for entry in package.entries:
            entry.status = status
        listed = _without_content(write)  # it may wait long for a disk that hangs

        def list_them(error: Exception | None = None) -> None:
            for entry in listed.package.entries:
                store.give_up(entry, status, reason)
            self._done(listed)

        task = Task(f"listing {package.path}", list_them, give_up=list_them, is_local=True)
        if not self.queue.put(task, sys.maxsize):  # it is closed; Tune's loop is over
            list_them()

    def is_waiting(self, trial_id: str) -> bool:
        """Say whether anything of a trial waits to be written."""
        return trial_id in self._waiting

    def _done(self, write: _Write) -> None:
        with self._lock:
            waiting = self._waiting.get(write.trial_id, set())
            if write.number not in waiting:  # it hung, was given up at the end, and has returned after all
                return
            waiting.discard(write.number)
            if waiting:
                return
            store = self._stores.pop(write.trial_id)
            del self._waiting[write.trial_id]
        self._trials.is_written(store)

    def _is_worth_another_try(self, error: Exception) -> bool:
        """Say whether the storage may take it later: a disk that is full, a network that is down."""
        return not isinstance(error, NotMadeError) and not self._faults.strict

    def _report(self, what: str, error: Exception, again: bool) -> None:
        if isinstance(error, NotMadeError) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        what, kind = (f"{what} (it is tried again)", "away") if again else (what, "")
        self._faults.report("the store", what, error, kind)

    def _say_that_it_spills(self) -> None:
        logger.warning(
            "tune_media: the storage is unavailable, or slower than the results arrive: more than "
            "MediaOptions(max_pending_bytes=%d) wait to be written. The rest waits on the driver's disk, in %s.",
            self._options().max_pending_bytes,
            self._folder,
        )


def _without_content(write: _Write) -> _Write:
    """Return what it takes to list that a write was lost."""
    entries = [dataclasses.replace(entry, medium=LostMedium(entry.medium)) for entry in write.package.entries]
    return dataclasses.replace(write, package=PendingWrite(write.trial_id, entries))


def _episodes_in(package: PendingWrite) -> int:
    return sum(int(entry.medium.facts()["episodes"]) for entry in package.entries)
