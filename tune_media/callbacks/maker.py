"""Makes the files of media whose content is not bytes yet: raw arrays, and media of the user's own classes."""

from __future__ import annotations

import dataclasses
import functools
import queue
import sqlite3
import threading
from collections.abc import Callable

from tune_media.callbacks.outbox import no_room
from tune_media.callbacks.rows import medium_row
from tune_media.callbacks.services import Services
from tune_media.results.raw_clips import RawVideo
from tune_media.storage.entry import DROPPED, FAILED, MediaEntry
from tune_media.values.file_medium import FileMedium
from tune_media.values.medium import Medium
from tune_media.values.plain import MEDIA
from tune_media.values.secrets import error_text
from tune_media.values.strict_json import json_bytes, parse_json
from tune_media.values.threads import start_thread

KILLED = "the driver was killed before its file was made"
_PAUSE = 1.0  # seconds between tries to write to a disk that is full


class Maker:
    """A thread that makes contents for rows that wait; Tune's loop calls ``adopt``, ``room``, ``make``, ``close``."""

    def __init__(self, services: Services) -> None:
        self._services, self._outbox, self._faults = services, services.outbox, services.faults
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._nbytes = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closing = threading.Event()

    @property
    def room(self) -> float:
        """How many bytes more may wait in memory."""
        return self._services.options.max_pending_bytes - self._nbytes

    def make(self, seq: int, entry: MediaEntry | None) -> None:
        """Begin to make the content of a row, if there is room; without an ``entry``, the row holds its raw array."""
        if entry is not None and entry.medium.nbytes > self.room:
            most = self._services.options.max_pending_bytes
            reason = f"more than MediaOptions(max_pending_bytes={most}) wait in memory for their files to be made"
            self._faults.report("the store", f"keeping {entry.path}", RuntimeError(reason), kind=DROPPED)
            self.lose(seq, DROPPED, reason)
            return
        with self._lock:
            self._nbytes += _size(entry)
        self._put(functools.partial(self._make, seq, entry))

    def lose(self, seq: int, status: str, reason: str) -> None:
        """Note in a row that its medium has no file, and why."""
        self._put(functools.partial(self._lose, seq, status, reason))

    def adopt(self) -> None:
        """Make the contents that a killed process had not made, or name those that were lost with it."""
        for row in self._outbox.read(0, None, ("media",)):
            if not row.ready and row.file is not None:
                self.make(row.seq, None)
            elif not row.ready:
                self.lose(row.seq, FAILED, KILLED)

    def close(self, seconds: float) -> None:
        """Wait until all is made, at most so long."""
        self._is_closing.set()
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(min(seconds, threading.TIMEOUT_MAX))

    def _put(self, work: Callable[[], None]) -> None:
        self._work.put(work)
        if self._thread is None:
            with self._faults.guard("the store", "starting a thread (it is tried again)", later=True):
                self._thread = start_thread("tune_media maker", self._run)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException as error:
                self._faults.report("the store", "keeping a medium", RuntimeError(error_text(error)))
            del work  # the next one may be long in coming

    def _make(self, seq: int, entry: MediaEntry | None) -> None:
        """Make the content of a row; all readers wait for the row, so it is completed if that fails, too."""
        try:
            made = entry
            if made is None:
                (waiting,) = self._outbox.read(seq - 1, 1)
                (named,) = waiting.media().names(seq)
                made = dataclasses.replace(named, medium=RawVideo.unpacked(waiting.content() or b""))
            row, content = medium_row(dataclasses.replace(made, medium=made_medium(made.medium)))
            data = row.packed()
        except BaseException as error:
            name = f"a raw array (row {seq})" if entry is None else entry.path
            self._faults.report("the store", f"writing {name}", error)
            self._lose(seq, FAILED, error_text(error))
        else:
            try:
                self._outbox.complete(seq, data, content, self._services.options.max_spilled_bytes)
            except (OSError, sqlite3.Error) as error:
                self._faults.report("the outbox", "keeping media", error, kind=DROPPED)
                self._lose(seq, DROPPED, no_room(error))
        finally:
            with self._lock:
                self._nbytes -= _size(entry)

    def _lose(self, seq: int, status: str, reason: str) -> None:
        """Note in a row that its medium has no file; if the disk does not even take that, repeat it until it does."""
        (row,) = self._outbox.read(seq - 1, 1)
        data = row.media().as_lost(status, reason).packed()
        while True:
            try:
                self._outbox.complete(seq, data, None)
                return
            except (OSError, sqlite3.Error) as error:
                self._faults.report("the outbox", "writing to the driver's disk", error, kind=DROPPED)
            if self._is_closing.wait(_PAUSE):
                return  # what is not ready at the end of the experiment is named there


def _size(entry: MediaEntry | None) -> int:
    return 0 if entry is None else entry.medium.nbytes


def made_medium(medium: Medium) -> Medium:
    """Return a medium as plain data, or as the finished file that it becomes; raises if that cannot be made."""
    if type(medium) in MEDIA:
        return medium
    made: Callable[[], Medium] | None = getattr(medium, "made", None)
    if made is not None:
        return made()
    content = medium.content()
    facts = parse_json(json_bytes(medium.facts()))  # as the index has them
    return FileMedium(medium.kind, medium.id, medium.suffix, content, facts, medium.note)
