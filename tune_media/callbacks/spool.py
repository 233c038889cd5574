"""A queue of messages that is bounded in memory: the rest waits on the driver's disk, in order."""

from __future__ import annotations

import _thread
import contextlib
import functools
import io
import pickle
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from ray import cloudpickle

from tune_media.callbacks.work_queue import Task, WorkQueue

M = TypeVar("M")

_SMALL_BYTES = 64_000
_PATIENCE = 0.5  # how long a large message waits for those that are on their way to the disk, seconds
_FETCHED = 64  # messages that come back from the disk at a time


class SpoolFullError(OSError):
    """More waits on the disk, or on its way there, than may."""


class UnreadableError(OSError):
    """A message that waited on the disk is lost: its file is gone or broken."""


class Spool(Generic[M]):
    """Messages on disk, first in, first out; a message that cannot be pickled stays in memory.

    A thread of its own pickles and writes them. If too much is on its way to the disk, ``append`` waits half a second
    for it, and then the message is lost: Tune's loop must not wait for a slow disk. Any thread calls ``append``; one
    thread calls ``hold_first``, ``read`` and ``drop_first``.

    Args:
        folder: The parent of a temporary folder, made when the first message comes. None: the system's.
        on_lost: Told each message that the disk does not take, and why.
        most_bytes: How much may be on the disk. Small messages may take a tenth more: they are the trials' ends and
            numbers.
        most_on_the_way: How much memory messages may hold that are not on the disk yet; small ones a tenth more.
        without_content: Returns a message without what is large in it. It stays in memory, to tell which message is
            lost if a file cannot be read.
    """

    def __init__(
        self,
        folder: Path | None = None,
        on_lost: Callable[[M, OSError], None] = lambda message, error: None,
        most_bytes: Callable[[], float] = lambda: float("inf"),
        most_on_the_way: Callable[[], float] = lambda: float("inf"),
        without_content: Callable[[M], M] = lambda message: message,
    ) -> None:
        self._parent, self._on_lost, self._without_content = folder, on_lost, without_content
        self._most_bytes, self._most_on_the_way = most_bytes, most_on_the_way
        self._folder: Path | None = None
        self._first = self._next = 0
        self._in_memory: dict[int, M] = {}  # by number
        self._on_disk: dict[int, M] = {}  # by number, without content
        self._memory: dict[int, int] = {}  # how much memory each message holds, by number
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
            self._memory[number] = nbytes
            self._next += 1
        if in_memory:
            return
        task = Task("writing a message that waits", functools.partial(self._write, number), nbytes)
        most = max(self._most_on_the_way() * _tolerance(nbytes), nbytes)
        try:
            is_taken = self._open().put(task, most, seconds=_PATIENCE)
        except RuntimeError:  # the system allows no more threads
            self._write(number)
            return
        if not is_taken:
            self._lose(number, SpoolFullError(f"{most / 1e6:.3g} MB are on their way to the disk, which is too slow"))

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

    def memory_of(self, number: int) -> int:
        """Return how much memory a message that is held takes."""
        return self._memory[number]

    def read(self, number: int) -> M:
        """Return a message that is held.

        Raises:
            UnreadableError: Its file is gone or broken.
        """
        with self._lock:
            if number in self._in_memory:
                return self._in_memory[number]
            file = self._file(number)
        try:
            message: M = _unpickled(file)
        except Exception as error:
            raise UnreadableError(
                f"it waited on the driver's disk, and its file cannot be read ({type(error).__name__}: {error}). "
                "Nothing may delete the folders tune_media-waiting-* while an experiment runs"
            ) from error
        return message

    def named(self, number: int) -> M:
        """Return a message that is held, without what is large in it if it is on the disk."""
        with self._lock:
            return self._on_disk[number] if number in self._on_disk else self._in_memory[number]

    def drop_first(self) -> None:
        """Remove the oldest message."""
        with self._lock:
            for held in (self._in_memory, self._on_disk, self._memory):
                held.pop(self._first, None)
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
            for held in (self._in_memory, self._on_disk, self._memory, self._sizes, self._lost):
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
            pieces = _pickled(message)
        except Exception:  # an open file, a generator: it stays in memory
            return
        nbytes = sum(map(len, pieces))
        file = None
        try:
            with self._lock:
                if number not in self._in_memory or number == self._taken:
                    return
                self._make_room(nbytes)
                self._make_folder()
                file = self._file(number)
            with file.open("wb") as stream:
                stream.writelines(pieces)
        except OSError as error:
            if file is not None:
                with contextlib.suppress(OSError):  # part of it, which takes the room of others
                    file.unlink(missing_ok=True)
            self._lose(number, error)
            return
        with self._lock:
            if number in self._in_memory:
                self._on_disk[number] = self._without_content(self._in_memory.pop(number))
                self._sizes[number] = nbytes
                self._nbytes += nbytes
                return
            is_gone = file.parent != self._folder
        file.unlink(missing_ok=True)  # it was delivered meanwhile
        if is_gone:
            shutil.rmtree(file.parent, ignore_errors=True)

    def _make_room(self, nbytes: int) -> None:
        if self._nbytes + nbytes > self._most_bytes() * _tolerance(nbytes):
            raise SpoolFullError(
                f"{self._nbytes / 1e6:.3g} MB wait there, and no more than MediaOptions(max_spilled_bytes="
                f"{self._most_bytes():g}) may"
            )

    def _lose(self, number: int, error: OSError) -> None:
        with self._lock:
            if number not in self._in_memory or number == self._taken:
                return
            message = self._in_memory.pop(number)
            del self._memory[number]
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
        without_content: Returns a message without what is large in it.
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
        without_content: Callable[[M], M] = lambda message: message,
    ) -> None:
        self._early = early
        self._queue, self._handle, self._give_up, self._name = queue, handle, give_up, name
        self._most_bytes, self._on_spill, self._on_lost = most_bytes, on_spill, on_lost
        self._spool: Spool[M] = Spool(folder, on_lost, most_on_disk, lambda: most_bytes() / 2, without_content)
        self._lock = threading.Lock()

    def put(self, message: M, nbytes: int, *, in_memory: bool = False) -> None:
        """Have a message delivered after all others.

        Args:
            message: The message.
            nbytes: How much memory it holds.
            in_memory: It must not be copied: it waits in memory, even if other messages wait on disk.
        """
        with self._lock:
            if not self._spool and self._queue.put(self._task(message, nbytes), self._most_bytes()):
                return
            is_first = not self._spool
            self._spool.append(message, nbytes, in_memory=in_memory)
            if is_first:
                self._fetch_later()
        if is_first:
            self._on_spill()

    def take_rest(self) -> Iterator[M]:
        """Yield the messages that wait on disk, one by one, and forget them; for the end, when the queue is closed."""
        try:
            while True:
                lost = None
                with self._lock:
                    number = self._spool.hold_first()
                    if number is None:
                        return
                    try:
                        message = self._spool.read(number)
                    except UnreadableError as error:
                        message, lost = self._spool.named(number), error
                    self._spool.drop_first()
                if lost is None:
                    yield message
                else:
                    self._on_lost(message, lost)
        finally:
            self._spool.clear()

    def _task(self, message: M, nbytes: int) -> Task:
        return Task(
            self._name(message),
            lambda: self._handle(message),
            nbytes,
            lambda error: self._give_up(message, error),
            early=self._early(message),
        )

    def _fetch_later(self) -> None:
        """Have messages fetched from the disk after what waits in memory, unless that is planned already."""
        self._queue.put(Task("fetching messages from the driver's disk", self._fetch, key=self, is_local=True))

    def _fetch(self) -> None:
        """Move the oldest messages from the disk back into the queue, as many as there is room for.

        The next ones are fetched when half of these are delivered, so that helpers always have several to work on.
        """
        try:
            for count in range(_FETCHED):
                if count == _FETCHED // 2:
                    self._fetch_later()
                if not self._fetch_first():
                    break
        finally:
            with self._lock:
                if self._spool and not self._queue.is_closed:
                    self._fetch_later()

    def _fetch_first(self) -> bool:
        """Move the oldest message into the queue; return whether there was one, and room for it."""
        number = self._spool.hold_first()
        if number is None:
            return False
        nbytes = self._spool.memory_of(number)
        most = max(self._most_bytes(), nbytes)
        if nbytes and self._queue.nbytes + nbytes > most:
            return False
        message, lost = None, None
        try:
            message = self._spool.read(number)  # while others put
        except UnreadableError as error:
            lost = error
        with self._lock:
            if not self._spool or self._spool.position != number:  # the end has taken it
                return False
            if message is not None and not self._queue.put(self._task(message, nbytes), most):
                return False
            named = self._spool.named(number)
            self._spool.drop_first()
            if not self._spool:
                self._spool.clear()
        if lost is not None:
            self._on_lost(named, lost)
        return True


def _tolerance(nbytes: int) -> float:
    return 1.1 if nbytes < _SMALL_BYTES else 1


class _Pickler(cloudpickle.CloudPickler):
    """Pickles locks as new ones: values that encode themselves when first asked hold one."""

    dispatch_table: ClassVar[dict[Any, Any]] = {
        **cloudpickle.CloudPickler.dispatch_table,
        _thread.LockType: lambda lock: (threading.Lock, ()),
    }


def _pickled(message: Any) -> list[bytes | memoryview]:
    """Return a message as pieces of a file. Among them is the memory of large arrays, which is not copied.

    A copy would hold the GIL, and with it Tune's loop; writing to the disk does not.
    """
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(message)
    pieces: list[bytes | memoryview] = [file.getvalue(), *(buffer.raw() for buffer in buffers)]
    sizes = pickle.dumps([len(piece) for piece in pieces])
    return [sizes, *pieces]


def _unpickled(file: Path) -> Any:
    with file.open("rb") as stream:
        pieces = [np.empty(nbytes, np.uint8) for nbytes in pickle.load(stream)]
        for piece in pieces:
            if stream.readinto(piece.data) < len(piece):
                raise EOFError("the file is too short")
    content, *buffers = pieces
    return pickle.loads(content.data, buffers=buffers)
