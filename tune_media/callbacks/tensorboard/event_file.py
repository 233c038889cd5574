"""TensorBoard event files that cost neither a thread nor an open file, and travel to a remote storage once.

tensorboardX keeps a thread, a queue and a file handle for each trial; a sweep has a thousand of them. Tune copies the
whole of an event file to the storage at every sync. Ours lies in Tune's local folder as one file, for those who watch
it there, and goes to a storage that is not local in segments, each of which is an event file, too.

What is written at a time ends with a mark, which says how far the file goes: up to which result, and up to which row of
the outbox. TensorBoard ignores it. So the mark is wherever the events are, also after a machine is lost.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
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
_BEGINNING = "events.out.tfevents."  # of the name of a file
_OWN_NAME = re.compile(r"events\.out\.tfevents\..*\.(whole|\d{5})")
_MARK = "tune_media mark "  # before a mark, which is JSON without inner braces
_TAIL = 64 * 2**10  # bytes from the end that are searched for a mark, and then eight times as many


class EventLostError(OSError):
    """There is no room for an event, neither on the disk nor in memory."""


class Mark(NamedTuple):
    """How far an event file goes.

    Attributes:
        iteration: The training iteration of the last result in it; 0 if there is none.
        timestamp: When Tune got this result, as Tune notes it, seconds since 1970; 0 if it does not say.
        row: The number of the last row of the outbox of which media are in it.
        media: How many media of this row are in it: the next one may be missing.
        time: When the latest of all this was reported, seconds since 1970.
    """

    iteration: int = 0
    timestamp: float = 0.0
    row: int = 0
    media: int = 0
    time: float = 0.0

    def record(self) -> bytes:
        """Return it as an event that TensorBoard ignores."""
        text = json.dumps(self._asdict())
        log = SessionLog(status=SessionLog.CHECKPOINT, msg=f"{_MARK}{text}")
        return _record(Event(wall_time=self.time, session_log=log).SerializeToString())


def last_mark(filesystem: pyarrow.fs.FileSystem, path: str) -> Mark | None:
    """Return the last mark of an event file; None if it has none, because it is another writer's.

    The file may end with half of what was written last.

    Raises:
        OSError: The storage does not answer.
    """
    with filesystem.open_input_file(path) as file:
        size, length = file.size(), _TAIL
        while True:
            start = max(0, size - length)
            file.seek(start)
            mark = _mark_in(bytes(file.read()))
            if mark is not None or start == 0:
                return mark
            length *= 8


def _mark_in(content: bytes) -> Mark | None:
    """Return the last whole mark in a part of an event file."""
    before = len(content)
    while (at := content.rfind(_MARK.encode(), 0, before)) >= 0:
        text, end, _ = content[at + len(_MARK) :].partition(b"}")
        try:
            return Mark(**json.loads(text + end))
        except (ValueError, TypeError):
            before = at
    return None


def copy_ended(path: Path, filesystem: pyarrow.fs.FileSystem, folder: str) -> None:
    """Bring the storage up to date with an event file to which nothing is added any more.

    Raises:
        OSError: The storage does not answer.
    """
    _store(path.read_bytes() if path.exists() else b"", filesystem, f"{folder}/{path.name}")


def _store(content: bytes, filesystem: pyarrow.fs.FileSystem, target: str) -> None:
    if content and filesystem.get_file_info(target).size != len(content):
        write_in_place(filesystem, target, content)


class EventFile:
    """An event file, opened only while something is written to it. It replaces ``tensorboardX.FileWriter``.

    The same events with the same times give the same bytes.

    Args:
        folder: Its folder; the file is made at the first ``flush``.

    Example:
        >>> import tempfile
        >>> file = EventFile(tempfile.mkdtemp())
        >>> file.start_from(1)
        >>> file.mark = Mark(iteration=1)
        >>> file.flush()
        >>> (written,) = Path(file.get_logdir()).iterdir()
        >>> last_mark(pyarrow.fs.LocalFileSystem(), str(written)).iteration
        1
    """

    PATTERN = "*/events.out.tfevents.*.whole"
    """The files that Tune need not copy if ``copy_segment`` does."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._set_name(time.time())
        self._is_empty = True
        self.mark: Mark | None = None  # of the events that were added; None: none is written
        self._began: float | None = None  # the time of the first event
        self._pause = CopyPause(is_local=True, shortest=_SOONEST)
        self._segment, self._segment_starts_at, self._copied_to = 0, 0, 0
        self._waiting: list[bytes] = []
        self._nbytes = 0
        self.wall_time: float | None = None  # of events that are added again; None: now
        self._refusal: OSError | None = None  # the disk's, at the last flush
        self._lock, self._writing = threading.Lock(), threading.Lock()

    def _set_name(self, at: float) -> None:
        self._name = f"{_BEGINNING}{at:017.6f}.{socket.gethostname()}.{uuid.uuid4().hex[:8]}"
        self._path = self._folder / f"{self._name}.whole"

    @staticmethod
    def is_own(name: str) -> bool:
        """Say whether a name is that of an event file of this class, or of a segment."""
        return _OWN_NAME.fullmatch(name) is not None

    def comes_after(self, names: Iterable[str]) -> None:
        """Have TensorBoard read this file after others: it reads them in the order of their names.

        Nothing may have been written yet.
        """
        seconds = [name.removeprefix(_BEGINNING).partition(".")[0] for name in names]
        newest = max((int(text) for text in seconds if text.isdecimal()), default=0)
        self._set_name(max(time.time(), newest + 1.0))

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def length(self) -> int:
        """How many bytes of it are written."""
        return self._path.stat().st_size if self._path.exists() else 0

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

    def add_again(self, events: list[bytes], mark: Mark | None = None) -> None:
        """Add events that another file's ``take_waiting`` returned, and how far the file goes with them.

        Raises:
            EventLostError: As for ``add_event``.
        """
        with self._lock:
            self.mark = mark or self.mark
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
                waiting, self._waiting, self._nbytes, mark = self._waiting, [], 0, self.mark
            if not waiting:
                return
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                if self._began is None:
                    self._began = Event.FromString(waiting[0]).wall_time
                first = [_version(self._began)] if self._is_empty else []
                data = b"".join(map(_record, first + waiting))
                append_whole(self._path, data + (mark.record() if mark is not None else b""))
            except OSError as error:
                with self._lock:
                    self._waiting = waiting + self._waiting
                    self._nbytes = sum(map(len, self._waiting))
                    self._refusal = error
                raise
            self._is_empty, self._refusal = False, None

    @property
    def is_late(self) -> bool:
        """Whether the storage's copy ought to be brought up to date."""
        return self._pause.is_over()

    def copy_whole(self, filesystem: pyarrow.fs.FileSystem, folder: str) -> None:
        """Bring the storage up to date if Tune copies the file, too: its last sync comes before the last clips.

        Nothing is written if the storage has all of it.

        Raises:
            OSError: The storage does not answer.
        """
        with self._writing:  # no half records
            content = self._path.read_bytes() if self._path.exists() else b""
        _store(content, filesystem, f"{folder}/{self._path.name}")

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
        first = b"" if self._segment_starts_at == 0 else _record(_version(self._began or 0.0))
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
