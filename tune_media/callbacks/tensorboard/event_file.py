"""TensorBoard event files that cost neither a thread nor an open file, and travel to a remote storage once.

tensorboardX keeps a thread, a queue and a file handle for each trial; a sweep has a thousand of them. Tune copies the
whole of an event file to the storage at every sync. Ours lies in Tune's local folder as one file, for those who watch
it there, and goes to a storage that is not local in segments, each of which is an event file, too.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow.fs
from crc32c import crc32c
from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog

from tune_media.storage.filesystem import Pause, append_whole, write_in_place

_MAX_WAITING = 64 * 2**20  # bytes, while the disk takes nothing
_SEGMENT_BYTES = 256 * 2**10
_SOONEST = 5.0  # seconds
_MASK = 0xA282EAD8


class EventLostError(OSError):
    """There is no room for an event, neither on the disk nor in memory."""


class EventFile:
    """An event file, opened only while something is written to it. It replaces ``tensorboardX.FileWriter``.

    Args:
        folder: Its folder; the file is made at the first ``flush``.
    """

    PATTERN = "*/events.out.tfevents.*.whole"
    """The files that Tune need not copy if ``copy_segment`` does."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{uuid.uuid4().hex[:8]}"
        self._path = self._folder / f"{self._name}.whole"
        self._pause = Pause(soonest=_SOONEST)
        self._segment, self._segment_starts_at, self._copied_to = 0, 0, 0
        self._waiting = [_version()]
        self._nbytes = 0
        self.wall_time: float | None = None  # of events that are added again; None: now
        self._refusal: OSError | None = None  # the disk's, at the last flush
        self._lock, self._writing = threading.Lock(), threading.Lock()

    def get_logdir(self) -> str:
        """Return its folder."""
        return str(self._folder)

    def add_event(self, event: Event, step: float | None = None, walltime: float | None = None) -> None:
        """Add an event; it is written at the next ``flush``.

        Raises:
            EventLostError: The disk takes nothing, and more than 64 MiB wait for it already.
        """
        event.wall_time = walltime or self.wall_time or time.time()
        if step is not None:
            event.step = int(step)
        data = event.SerializeToString()
        with self._lock:
            if self._refusal is not None and self._nbytes + len(data) > _MAX_WAITING:
                size = f"{len(data) / 1e6:.2g} MB" if len(data) >= 1e5 else f"{len(data)} bytes"
                raise EventLostError(
                    f"an event of {size} is left out of {self._path}: the disk has taken nothing for some time "
                    f"({self._refusal}), and more than {_MAX_WAITING // 2**20} MiB wait for it already; make room there"
                ) from self._refusal
            self._nbytes += len(data)
            self._waiting.append(data)

    def add_summary(self, summary: Any, global_step: float | None = None, walltime: float | None = None) -> None:
        """Add a summary."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def start_from(self, step: int) -> None:
        """Tell TensorBoard to forget this step and later ones of all earlier events."""
        self.add_event(Event(session_log=SessionLog(status=SessionLog.START)), step)

    def take_waiting(self) -> list[bytes]:
        """Return the events that were added, and forget them."""
        with self._lock:
            waiting, self._waiting, self._nbytes = self._waiting[1:], self._waiting[:1], 0
        return waiting

    def insert_first(self, events: list[bytes]) -> None:
        """Add events before all others; nothing may have been written yet."""
        with self._lock:
            self._waiting[1:1] = events
            self._nbytes += sum(map(len, events))

    def flush(self) -> None:
        """Write the added events.

        Raises:
            OSError: It cannot be written; it is kept and tried again at the next ``flush``.
        """
        with self._writing:
            with self._lock:
                waiting, self._waiting, self._nbytes = self._waiting, [], 0
            if not waiting:
                return
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                append_whole(self._path, b"".join(map(_record, waiting)))
            except OSError as error:
                with self._lock:
                    self._waiting = waiting + self._waiting
                    self._nbytes = sum(map(len, self._waiting))
                    self._refusal = error
                raise
            self._refusal = None

    @property
    def is_late(self) -> bool:
        """Whether the storage's copy ought to be brought up to date."""
        return self._pause.is_over

    def copy_whole(self, filesystem: pyarrow.fs.FileSystem, folder: str) -> None:
        """Bring the storage up to date if Tune copies the file, too: its last sync comes before the last clips.

        Raises:
            OSError: The storage does not answer.
        """
        with self._writing:  # no half records
            content = self._path.read_bytes() if self._path.exists() else b""
        if content:
            write_in_place(filesystem, f"{folder}/{self._path.name}", content)

    def copy_segment(self, filesystem: pyarrow.fs.FileSystem, folder: str) -> None:
        """Bring the storage up to date: write the last segment, again while it is small, and begin another.

        Raises:
            OSError: The storage does not answer.
        """
        with self._writing:  # no half records
            content = b""
            if self._path.exists():
                with self._path.open("rb") as file:
                    file.seek(self._segment_starts_at)
                    content = file.read()
        end = self._segment_starts_at + len(content)
        if end == self._copied_to:
            return
        first = b"" if self._segment_starts_at == 0 else _record(_version())
        write_in_place(filesystem, f"{folder}/{self._name}.{self._segment:05d}", first + content)
        self._copied_to = end
        self._pause.begin()
        if len(content) >= _SEGMENT_BYTES:
            self._segment, self._segment_starts_at = self._segment + 1, end


class EventWriter(SummaryWriter):
    """A ``tensorboardX.SummaryWriter`` that writes an ``EventFile``."""

    file_writer: EventFile

    def flush(self) -> None:
        """Leave writing to who owns the file: Ray's logger flushes in Tune's loop, after each result."""

    def close(self) -> None:
        """Leave writing to who owns the file."""

    def _get_file_writer(self) -> EventFile:
        if self.file_writer is None:
            self.file_writer = EventFile(str(self.logdir))
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
        return self.file_writer


def _version() -> bytes:
    return bytes(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())


def _record(data: bytes) -> bytes:
    """Frame an event as TFRecord does."""
    header = struct.pack("<Q", len(data))
    return header + struct.pack("<I", _masked(header)) + data + struct.pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    found = crc32c(data)
    return (((found >> 15) | (found << 17)) + _MASK) & 0xFFFFFFFF
