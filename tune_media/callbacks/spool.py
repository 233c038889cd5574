"""A queue of messages that is bounded in memory: the rest waits on the driver's disk, in order."""

from __future__ import annotations

import _thread
import contextlib
import functools
import io
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from ray import cloudpickle

from tune_media.callbacks.work_queue import Task, WorkQueue

logger = logging.getLogger("tune_media")

M = TypeVar("M")

_SMALL_BYTES = 64_000


class SpoolFullError(OSError):
    """More waits on the disk than may."""


class Spool(Generic[M]):
    """Messages on disk, first in, first out; a message that cannot be pickled stays in memory.

    A thread of its own pickles and writes them: who appends a message waits for the disk only if too much is on its way
    there. Any thread calls ``append``; one thread calls ``first`` and ``drop_first``.

    Args:
        folder: The parent of a temporary folder, made when the first message comes. None: the system's.
        on_lost: Told each message that the disk does not take, and why.
        most_bytes: How much may be on the disk. Small messages may take a tenth more: they are the trials' ends and
            numbers.
        most_on_the_way: How much memory messages may hold that are not on the disk yet.
    """

    def __init__(
        self,
        folder: Path | None = None,
        on_lost: Callable[[M, OSError], None] = lambda message, error: None,
        most_bytes: Callable[[], float] = lambda: float("inf"),
        most_on_the_way: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        self._parent, self._on_lost = folder, on_lost
        self._most_bytes, self._most_on_the_way = most_bytes, most_on_the_way
        self._folder: Path | None = None
        self._first = self._next = 0
        self._in_memory: dict[int, M] = {}  # by number
        self._sizes: dict[int, int] = {}  # of the files, by number
        self._nbytes = 0  # of all files
        self._lost: set[int] = set()
        self._taken = -1  # the number of the message that was asked for last
        self._writers: WorkQueue | None = None
        self._lock = threading.Lock()

    def append(self, message: M, nbytes: int = 0, *, in_memory: bool = False) -> None:
        """Add a message.

        Args:
            message: The message.
            nbytes: How much memory it holds.
            in_memory: It must not be copied.
        """
        with self._lock:
            number = self._next
            self._in_memory[number] = message
            self._next += 1
        if in_memory:
            return
        task = Task("writing a message that waits", functools.partial(self._write, number), nbytes)
        try:
            is_taken = self._open().put(task, max(self._most_on_the_way(), nbytes))
        except RuntimeError:  # the system allows no more threads
            is_taken = False
        if not is_taken:
            self._write(number)

    @property
    def position(self) -> int:
        """The number of the oldest message."""
        return self._first

    def hold_first(self) -> int | None:
        """Keep the oldest message from being lost, and return its number; None if there is none."""
        with self._lock:
            if self._first == self._next:
                return None
            self._taken = self._first
            return self._first

    def first(self) -> M:
        """Return the oldest message, which stays."""
        number = self.hold_first()
        assert number is not None
        return self.read(number)

    def read(self, number: int) -> M:
        """Return a message that is held."""
        with self._lock:
            if number in self._in_memory:
                return self._in_memory[number]
            file = self._file(number)
        message: M = cloudpickle.loads(file.read_bytes())
        return message

    def drop_first(self) -> None:
        """Remove the oldest message."""
        with self._lock:
            self._in_memory.pop(self._first, None)
            file = None
            if self._first in self._sizes:
                self._nbytes -= self._sizes.pop(self._first)
                file = self._file(self._first)
            self._first += 1
            self._skip_lost()
        if file is not None:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all messages and the folder."""
        with self._lock:
            writers, self._writers = self._writers, None
            folder, self._folder = self._folder, None
            self._first, self._nbytes = self._next, 0
            for held in (self._in_memory, self._sizes, self._lost):
                held.clear()
        if writers is not None:
            writers.close(0)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def __len__(self) -> int:
        return self._next - self._first - len(self._lost)

    def _open(self) -> WorkQueue:
        with self._lock:
            if self._writers is None:
                self._writers = WorkQueue("spool", lambda error: False, lambda what, error, again: None)
            return self._writers

    def _write(self, number: int) -> None:
        """Write a message, unless it was delivered before."""
        with self._lock:
            if number not in self._in_memory or number == self._taken:
                return
            message = self._in_memory[number]
        try:
            content = _pickled(message)
        except Exception:  # an open file, a generator: it stays in memory
            return
        try:
            with self._lock:
                if number not in self._in_memory or number == self._taken:
                    return
                self._make_room(len(content))
                self._make_folder()
                file = self._file(number)
            file.write_bytes(content)
        except OSError as error:
            self._lose(number, error)
            return
        with self._lock:
            if number in self._in_memory:
                del self._in_memory[number]
                self._sizes[number] = len(content)
                self._nbytes += len(content)
                return
            is_gone = file.parent != self._folder
        file.unlink(missing_ok=True)  # it was delivered meanwhile
        if is_gone:
            shutil.rmtree(file.parent, ignore_errors=True)

    def _make_room(self, nbytes: int) -> None:
        most = self._most_bytes() * (1.1 if nbytes < _SMALL_BYTES else 1)
        if self._nbytes + nbytes > most:
            raise SpoolFullError(
                f"{self._nbytes / 1e6:.3g} MB wait there, and no more than MediaOptions(max_spilled_bytes="
                f"{self._most_bytes():g}) may"
            )

    def _lose(self, number: int, error: OSError) -> None:
        with self._lock:
            if number not in self._in_memory or number == self._taken:
                return
            message = self._in_memory.pop(number)
            self._lost.add(number)
            self._skip_lost()
        self._on_lost(message, error)

    def _skip_lost(self) -> None:
        while self._first in self._lost:
            self._lost.discard(self._first)
            self._first += 1

    def _make_folder(self) -> None:
        if self._folder is None:
            with contextlib.suppress(OSError):
                self._folder = Path(tempfile.mkdtemp(prefix="tune_media-waiting-", dir=self._parent))
        if self._folder is None:  # the experiment's own folder is full, or gone
            self._folder = Path(tempfile.mkdtemp(prefix="tune_media-waiting-"))

    def _file(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{number:012d}"


class Mailbox(Generic[M]):
    """Messages for one handler, which a ``WorkQueue``'s thread calls, in order; ``put`` never waits for it.

    Any thread puts messages; ``handle`` and ``give_up`` run in the queue's thread.

    Args:
        queue: Its thread calls the handler. It tries a message again if its ``is_away`` says so.
        handle: Takes a message.
        give_up: Told a message that was not taken, and why.
        name: Returns a message's name for warnings.
        most_bytes: How much memory waiting messages may hold; those that are on their way to the disk may hold half as
            much again.
        on_spill: Told once that messages begin to wait on disk, after each time that all of them were delivered.
        on_lost: Told each message that neither memory nor disk takes, and why.
        folder: The parent of the temporary folder of waiting messages.
        most_on_disk: How many bytes may wait on the disk.
        early: Returns what may be done with a message before its turn, or None.
    """

    def __init__(
        self,
        queue: WorkQueue,
        handle: Callable[[M], None],
        give_up: Callable[[M, Exception], None],
        name: Callable[[M], str],
        most_bytes: Callable[[], float],
        on_spill: Callable[[], None],
        on_lost: Callable[[M, OSError], None],
        folder: Path | None = None,
        most_on_disk: Callable[[], float] = lambda: float("inf"),
        early: Callable[[M], Callable[[], None] | None] = lambda message: None,
    ) -> None:
        self._early = early
        self._queue, self._handle, self._give_up, self._name = queue, handle, give_up, name
        self._most_bytes, self._on_spill = most_bytes, on_spill
        self._spool: Spool[M] = Spool(folder, on_lost, most_on_disk, lambda: most_bytes() / 2)
        self._lock = threading.Lock()

    def put(self, message: M, nbytes: int, *, in_memory: bool = False) -> None:
        """Have a message delivered after all others.

        Args:
            message: The message.
            nbytes: How much memory it holds.
            in_memory: It must not be copied: it waits in memory, even if other messages wait on disk.
        """
        with self._lock:
            if not self._spool:
                task = Task(
                    self._name(message),
                    lambda: self._handle(message),
                    nbytes,
                    lambda error: self._give_up(message, error),
                    early=self._early(message),
                )
                if self._queue.put(task, self._most_bytes()):
                    return
            is_first = not self._spool
            self._spool.append(message, nbytes, in_memory=in_memory)
            if is_first:
                self._queue_next()
        if is_first:
            self._on_spill()

    def take_rest(self) -> list[M]:
        """Return the messages that wait on disk, and forget them; for the end, when the queue is closed."""
        found: list[M] = []
        with self._lock:
            while self._spool:
                try:
                    found.append(self._spool.first())
                except Exception as error:
                    _warn_of_lost(error)
                self._spool.drop_first()
            self._spool.clear()
        return found

    def _queue_next(self) -> None:
        self._queue.put(Task("delivering from the disk", self._deliver_first, give_up=self._skip_first, key=self))

    def _deliver_first(self) -> None:
        position = self._spool.hold_first()
        if position is not None:
            self._handle(self._spool.read(position))  # read from the disk while others put
            self._go_on(position)

    def _skip_first(self, error: Exception) -> None:
        message, position = None, self._spool.hold_first()
        if position is None:
            return
        try:
            message = self._spool.read(position)
        except Exception as unreadable:
            _warn_of_lost(unreadable)
        if message is not None:
            self._give_up(message, error)
        self._go_on(position)

    def _go_on(self, position: int) -> None:
        """Drop the message at a position, unless the end has taken it, and have the next one delivered."""
        with self._lock:
            if not self._spool or self._spool.position != position:
                return
            self._spool.drop_first()
            if self._spool:
                self._queue_next()
            else:
                self._spool.clear()


def _warn_of_lost(error: Exception) -> None:
    logger.warning(
        "tune_media: a message that waited on the driver's disk is lost: its file cannot be read (%s: %s). Nothing may "
        "delete the folders tune_media-waiting-* while an experiment runs.",
        type(error).__name__,
        error,
    )


class _Pickler(cloudpickle.CloudPickler):
    """Pickles locks as new ones: values that encode themselves when first asked hold one."""

    dispatch_table: ClassVar[dict[Any, Any]] = {
        **cloudpickle.CloudPickler.dispatch_table,
        _thread.LockType: lambda lock: (threading.Lock, ()),
    }


def _pickled(message: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(message)
    return file.getvalue()
