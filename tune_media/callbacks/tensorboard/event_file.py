"""TensorBoard event files that cost neither a thread nor an open file, and travel to a remote storage once.

tensorboardX keeps a thread, a queue and a file handle for each trial; a sweep has a thousand of them. Tune copies the
whole of an event file to the storage at every sync. Ours lies in Tune's local folder as one file, for those who watch
it there, and goes to a storage that is not local in segments, each of which is an event file, too.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow.fs
from crc32c import crc32c
from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog

from tune_media.storage.copy_pause import CopyPause
from tune_media.storage.filesystem import append_whole, write_in_place

_MAX_WAITING = 64 * 2**20  # bytes, while the disk takes nothing
_SEGMENT_BYTES = 256 * 2**10
_SOONEST = 5.0  # seconds
_MASK = 0xA282EAD8


class EventLostError(OSError):
    """There is no room for an event, neither on the disk nor in memory."""


class FileMark(NamedTuple):
    """How far an event file is written: plain data, to be noted elsewhere.

    Attributes:
        name: The name of the file.
        position: How many bytes of it are written.
        segment: The number of the segment that is written last, on a storage that is not local.
        segment_starts_at: The position at which this segment begins.
    """

    name: str
    position: int
    segment: int = 0
    segment_starts_at: int = 0


class EventFile:
    """An event file, opened only while something is written to it. It replaces ``tensorboardX.FileWriter``.

    The same events with the same times give the same bytes. A writer that is told again what it may have been told
    before a kill notes the ``mark`` after each ``flush``, and goes on there with ``reopen``.

    Args:
        folder: Its folder; the file is made at the first ``flush``.

    Example:
        >>> import tempfile
        >>> file = EventFile(tempfile.mkdtemp())
        >>> file.start_from(1)
        >>> file.flush()
        >>> EventFile.reopen(file.get_logdir(), file.mark).mark == file.mark
        True
    """

    PATTERN = "*/events.out.tfevents.*.whole"
    """The files that Tune need not copy if ``copy_segment`` does."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{uuid.uuid4().hex[:8]}"
        self._path = self._folder / f"{self._name}.whole"
        self._position, self._is_reopened = 0, False
        self._began: float | None = None  # the time of the first event
        self._pause = CopyPause(is_local=True, shortest=_SOONEST)
        self._segment, self._segment_starts_at, self._copied_to = 0, 0, 0
        self._waiting: list[bytes] = []
        self._nbytes = 0
        self.wall_time: float | None = None  # of events that are added again; None: now
        self._refusal: OSError | None = None  # the disk's, at the last flush
        self._lock, self._writing = threading.Lock(), threading.Lock()

    @classmethod
    def reopen(cls, folder: str, mark: FileMark) -> EventFile:
        """Go on in a file of an earlier process, without all that was written to it after a mark.

        Args:
            folder: The folder of the file.
            mark: The file's ``mark`` at that time.

        Raises:
            OSError: There is no such file, or it is shorter: the mark is of another disk.
        """
        file = cls(folder)
        file._name, file._path = mark.name, file._folder / f"{mark.name}.whole"
        file._position, file._segment, file._segment_starts_at = mark.position, mark.segment, mark.segment_starts_at
        file._is_reopened = True
        if mark.position or file._path.exists():
            if file._path.stat().st_size < mark.position:
                raise OSError(f"{file._path} has fewer than {mark.position} bytes")
            os.truncate(file._path, mark.position)
        if mark.position:
            file._began = next(read_events(file._path.open("rb"))).wall_time
        return file

    @property
    def mark(self) -> FileMark:
        """How far the file is written: with all events up to the last ``flush`` that did not raise."""
        return FileMark(self._name, self._position, self._segment, self._segment_starts_at)

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
        self.add_again([event.SerializeToString()])

    def add_again(self, events: list[bytes]) -> None:
        """Add events that another file's ``take_waiting`` returned.

        Raises:
            EventLostError: As for ``add_event``.
        """
        with self._lock:
            self._add(events)

    def _add(self, events: list[bytes]) -> None:
        for data in events:
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
            waiting, self._waiting, self._nbytes = self._waiting, [], 0
        return waiting

    def insert_first(self, events: list[bytes]) -> None:
        """Add events before all others; nothing may have been written yet."""
        with self._lock:
            self._waiting[:0] = events
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
                if self._began is None:
                    self._began = Event.FromString(waiting[0]).wall_time
                first = [_version(self._began)] if self._position == 0 else []
                data = b"".join(map(_record, first + waiting))
                append_whole(self._path, data)
            except OSError as error:
                with self._lock:
                    self._waiting = waiting + self._waiting
                    self._nbytes = sum(map(len, self._waiting))
                    self._refusal = error
                raise
            self._position += len(data)
            self._refusal = None

    @property
    def is_late(self) -> bool:
        """Whether the storage's copy ought to be brought up to date."""
        return self._pause.is_over()

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
        if self._is_reopened:
            self._empty_later_segments(filesystem, folder)
        first = b"" if self._segment_starts_at == 0 else _record(_version(self._began or 0.0))
        write_in_place(filesystem, f"{folder}/{self._name}.{self._segment:05d}", first + content)
        self._copied_to = end
        self._pause.begin()
        if len(content) >= _SEGMENT_BYTES:
            self._segment, self._segment_starts_at = self._segment + 1, end

    def _empty_later_segments(self, filesystem: pyarrow.fs.FileSystem, folder: str) -> None:
        """Take the events out of the segments that were written after the mark: they come again, in others."""
        selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        for info in filesystem.get_file_info(selector):
            number = info.base_name.removeprefix(f"{self._name}.")
            if number != info.base_name and number.isdecimal() and int(number) > self._segment:
                write_in_place(filesystem, info.path, _record(_version(self._began or 0.0)))
        self._is_reopened = False


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


def read_events(stream: IO[bytes]) -> Iterator[Any]:
    """Yield the whole events of a file, and close it."""
    with stream:
        while len(header := stream.read(12)) == 12:
            (length,) = struct.unpack("<Q", header[:8])
            data = stream.read(length)
            if len(data) < length or len(stream.read(4)) < 4:
                return
            yield Event.FromString(data)


def _version(wall_time: float) -> bytes:
    return bytes(Event(wall_time=wall_time, file_version="brain.Event:2").SerializeToString())


def _record(data: bytes) -> bytes:
    """Frame an event as TFRecord does."""
    header = struct.pack("<Q", len(data))
    return header + struct.pack("<I", _masked(header)) + data + struct.pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    found = crc32c(data)
    return (((found >> 15) | (found << 17)) + _MASK) & 0xFFFFFFFF
