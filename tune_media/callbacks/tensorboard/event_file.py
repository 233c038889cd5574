"""TensorBoard's event files: one of a trial's scalars, and one of its media.

All say that they are of version 1, for which TensorBoard's reader in Python does what its fast reader always does: if
events are not in the order of their steps, a value takes the place of those of its tag at its step and later ones. So
whatever a trial repeats is shown once. (Of version 2, the reader in Python shows all of them, but for a restart in any
file of a trial, at which it forgets what it has of all files.) It does so only if the event before has a later step. So
an event without values and with a late step is before each one.
"""

from __future__ import annotations

import posixpath
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crc32c import crc32c
from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary

from tune_media.storage.filesystem import append_whole, local_path, write_atomically
from tune_media.storage.location import TrialLocation

_BEGINNING = "events.out.tfevents."  # of the name of a file
_MOST_WAITING = 64 * 2**20  # bytes, while the disk takes nothing
_OBJECT_BYTES = 64 * 2**10
_LATE_STEP = 2**62
_MASK = 0xA282EAD8


class EventFile:
    """The scalars of a trial in its folder on the driver. It replaces ``tensorboardX.FileWriter``.

    It needs neither a thread nor an open file; tensorboardX keeps both for each trial, and a sweep has a thousand. All
    values of a step are one event.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._name = f"{_BEGINNING}{time.time():017.6f}.{socket.gethostname()}.{uuid.uuid4().hex[:8]}"
        self._events: list[Event] = []
        self._unwritten: bytes | None = None  # what the disk has not taken, or None if the file has not begun
        self.wall_time = 0.0  # of the values that are added, seconds since 1970; 0: now

    def get_logdir(self) -> str:
        """Return its folder."""
        return str(self._folder)

    def add_summary(self, summary: Any, global_step: float | None = None, walltime: float | None = None) -> None:
        """Add values; they are written at the next ``flush``."""
        step = int(global_step or 0)
        if not self._events or self._events[-1].step != step:
            now = walltime or self.wall_time or time.time()
            self._events.append(Event(wall_time=now, step=step))
        self._events[-1].summary.value.extend(summary.value)

    def take(self) -> list[Event]:
        """Return the events that were added, and forget them."""
        events, self._events = self._events, []
        return events

    def flush(self) -> None:
        """Write the added events; after an OSError they wait for the next ``flush``, unless 64 MiB wait already."""
        events = self.take()
        if not events:
            return
        begun = self._unwritten if self._unwritten is not None else _first_record(events[0].wall_time)
        content = begun + _records(events)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            append_whole(self._folder / self._name, content)
        except OSError as error:
            if len(content) > _MOST_WAITING:
                raise OSError(
                    f"{len(content) - len(begun)} bytes are left out of {self._folder / self._name}: the disk has "
                    f"taken nothing for some time ({error}), and {_MOST_WAITING // 2**20} MiB wait for it already"
                ) from error
            self._unwritten = content
            raise
        self._unwritten = b""


class EventWriter(SummaryWriter):
    """A ``tensorboardX.SummaryWriter`` that writes an ``EventFile``."""

    file_writer: EventFile

    def flush(self) -> None:
        """Do nothing: who owns the file writes it."""

    def close(self) -> None:
        """Do nothing: who owns the file writes it."""

    def _get_file_writer(self) -> EventFile:
        if self.file_writer is None:
            self.file_writer = EventFile(str(self.logdir))
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
        return self.file_writer


class MediaFile:
    """The media of a trial, directly in its folder on the storage.

    TensorBoard's reader in Python reads one file after the other, in the order of their names, and then follows the
    last one. The names of these files sort first, so that it follows the scalars.

    On this machine's disk it is one file, which grows. Elsewhere it is one of several objects, each of which is
    replaced until it has 64 kB.
    """

    def __init__(self, location: TrialLocation) -> None:
        self._location = location
        self._path = ""  # "": the next one is still to begin
        self._first = (0, 0)  # the row that the last one begins with, and how many others begin with it
        self._object = b""  # its content, if it may be replaced
        self._waiting: list[tuple[int, float, bytes]] = []
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many bytes wait to be written."""
        with self._lock:
            return sum(len(content) for _, _, content in self._waiting)

    def add(self, row: int, events: list[Event]) -> None:
        """Add the events of a row of the outbox, which ``write`` writes."""
        if events:
            with self._lock:
                self._waiting.append((row, events[0].wall_time, _records(events)))

    def write(self) -> None:
        """Write the added events, or keep them and raise OSError. Only one thread may call it."""
        with self._lock:
            waiting = list(self._waiting)
        if not waiting:
            return
        row, first_time, _ = waiting[0]
        added, filesystem = b"".join(content for _, _, content in waiting), self._location.filesystem
        first = self._first if self._path else (row, self._first[1] + 1 if row == self._first[0] else 0)
        name = "{}0000000000.{:019d}.{}.tune_media".format(_BEGINNING, *first)
        path = self._path or posixpath.join(self._location.path, name)
        here = local_path(filesystem, path)
        content = (self._object if self._path else _first_record(first_time)) + added
        if here is None:
            write_atomically(filesystem, path, content)
        else:  # not under another name first: TensorBoard reads whatever has "tfevents" in its name
            Path(here).parent.mkdir(parents=True, exist_ok=True)
            if not self._path:  # one that a killed process has begun with the same row has nothing else
                Path(here).write_bytes(b"")
            append_whole(Path(here), content)
        with self._lock:
            del self._waiting[: len(waiting)]
        is_full = here is None and len(content) >= _OBJECT_BYTES
        self._path, self._first = "" if is_full else path, first
        self._object = b"" if is_full or here is not None else content


def _first_record(wall_time: float) -> bytes:
    return _record(Event(wall_time=wall_time, file_version="brain.Event:1"))


def _records(events: Iterable[Event]) -> bytes:
    return b"".join(_BETWEEN + _record(event) for event in events)


def _record(event: Event) -> bytes:
    """Frame an event as TFRecord does."""
    data: bytes = event.SerializeToString()
    header = struct.pack("<Q", len(data))
    return header + struct.pack("<I", _masked(header)) + data + struct.pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    checksum = crc32c(data)
    return (((checksum >> 15) | (checksum << 17)) + _MASK) & 0xFFFFFFFF


_BETWEEN = _record(Event(step=_LATE_STEP, summary=Summary()))
