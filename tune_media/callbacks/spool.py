"""Messages that wait on the driver's disk, in order."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from tune_media.callbacks.pickling import pickled, unpickled
from tune_media.callbacks.work_queue import Task, WorkQueue
from tune_media.values.secrets import error_text

M = TypeVar("M")

_SMALL_BYTES = 64_000
_PATIENCE = 2.0  # how long large messages wait for those that are on their way to the disk, seconds


class SpoolFullError(OSError):
    """More waits on the disk, or on its way there, than may."""


class UnreadableError(OSError):
    """A message that waited on the disk is lost: its file is gone or broken."""


class Spool(Generic[M]):
    """Messages on disk, first in, first out; a message that cannot be pickled stays in memory.

    A thread of its own pickles and writes them. If too much is on its way to the disk, ``append`` waits for it, at most
    two seconds. Then the message is lost, and so are others without a wait, until there is room again: Tune's loop must
    not wait for a disk that hangs. Only the thread that writes, ``read`` and ``tidy`` ask anything of the disk, and
    none of them holds a lock meanwhile. Any thread calls ``append``; one thread calls ``hold_first``, ``read`` and
    ``drop_first``.

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
        self._on_lost, self._without_content = on_lost, without_content
        self._most_on_the_way, self._patience = most_on_the_way, _PATIENCE
        self._files = _Files(folder, most_bytes)
        self._first = self._next = 0
        self._in_memory: dict[int, M] = {}  # by number
        self._on_disk: dict[int, M] = {}  # by number, without content
        self._memory: dict[int, int] = {}  # how much memory each message holds, by number
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
        began = time.monotonic()
        try:
            is_taken = self._open().put(task, most, seconds=self._patience)
        except RuntimeError:  # the system allows no more threads
            self._write(number)
            return
        waited = time.monotonic() - began
        if not is_taken:
            self._patience = max(0.0, self._patience - waited)
        elif nbytes >= _SMALL_BYTES:  # a small one may still be taken beside a disk that takes nothing
            self._patience = _PATIENCE
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
        return self._memory.get(number, 0)

    def read(self, number: int) -> M:
        """Return a message that is held.

        Raises:
            UnreadableError: Its file is gone or broken.
        """
        with self._lock:
            if number in self._in_memory:
                return self._in_memory[number]
        try:
            message: M = unpickled(self._files.path(number))
        except Exception as error:
            raise UnreadableError(
                f"it waited on the driver's disk, and its file cannot be read ({error_text(error)}). "
                "Nothing may delete the folders tune_media-waiting-* while an experiment runs"
            ) from error
        return message

    def named(self, number: int) -> M:
        """Return a message that is held, without what is large in it if it is on the disk."""
        with self._lock:
            return self._on_disk[number] if number in self._on_disk else self._in_memory[number]

    def drop_first(self) -> None:
        """Remove the oldest message; ``tidy`` removes its file."""
        with self._lock:
            for held in (self._in_memory, self._on_disk, self._memory):
                held.pop(self._first, None)
            self._files.drop(self._first)
            self._first += 1
            self._skip_lost()

    def clear(self) -> None:
        """Remove all messages; ``tidy`` removes their folder."""
        with self._lock:
            writers, self._writers = self._writers, None
            self._files.clear()
            self._first = self._next
            for held in (self._in_memory, self._on_disk, self._memory, self._lost):
                held.clear()
        if writers is not None:
            writers.close(0)

    def tidy(self) -> None:
        """Remove dropped messages from the disk; the caller holds no lock that Tune's loop may want."""
        self._files.tidy()

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
            pieces = pickled(message)
        except Exception:  # an open file, a generator: it stays in memory
            return
        if not self._is_wanted(number):
            return
        try:
            self._files.write(number, pieces)
        except OSError as error:
            self._lose(number, error)
            return
        with self._lock:
            if number in self._in_memory:
                self._on_disk[number] = self._without_content(self._in_memory.pop(number))
                return
            self._files.drop(number)  # it was delivered meanwhile
            if self._first == self._next:
                self._files.clear()
        self._files.tidy()

    def _is_wanted(self, number: int) -> bool:
        """Return whether a message is to be written: it is in memory, and not about to be delivered."""
        with self._lock:
            return number in self._in_memory and number != self._taken

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


class _Files:
    """The files of a spool, in a temporary folder of bounded size. No lock is held while the disk is asked.

    Any thread calls all methods.
    """

    def __init__(self, parent: Path | None, most_bytes: Callable[[], float]) -> None:
        self._folder: Path | None = None
        self._parent, self._most_bytes = parent, most_bytes
        self._sizes: dict[int, int] = {}
        self._nbytes = 0
        self._dropped: list[Path] = []  # files and folders that are on the disk yet
        self._lock = threading.Lock()

    def write(self, number: int, pieces: Sequence[bytes | memoryview]) -> None:
        """Write a file.

        Raises:
            SpoolFullError: There is no room for it.
            OSError: The disk does not take it.
        """
        nbytes = sum(map(len, pieces))
        if self._nbytes + nbytes > self._most_bytes() * _tolerance(nbytes):
            raise SpoolFullError(
                f"{self._nbytes / 1e6:.3g} MB wait there, and no more than MediaOptions(max_spilled_bytes="
                f"{self._most_bytes():g}) may"
            )
        folder = self._folder or self._new_folder()
        file = _file_in(folder, number)
        try:
            with file.open("wb") as stream:
                stream.writelines(pieces)
        except OSError:
            with contextlib.suppress(OSError):  # part of it, which takes the room of others
                file.unlink(missing_ok=True)
            raise
        with self._lock:
            if folder == self._folder:
                self._sizes[number] = nbytes
                self._nbytes += nbytes
            else:  # all files were dropped meanwhile
                self._dropped.append(folder)

    def path(self, number: int) -> Path:
        """Return the place of a file."""
        assert self._folder is not None
        return _file_in(self._folder, number)

    def drop(self, number: int) -> None:
        """Forget a file, if there is one."""
        with self._lock:
            if number in self._sizes:
                self._nbytes -= self._sizes.pop(number)
                self._dropped.append(self.path(number))

    def clear(self) -> None:
        """Forget all files and the folder."""
        with self._lock:
            if self._folder is not None:
                self._dropped.append(self._folder)
            self._folder = None
            self._sizes.clear()
            self._nbytes = 0

    def tidy(self) -> None:
        """Remove forgotten files and folders from the disk."""
        with self._lock:
            dropped, self._dropped = self._dropped, []
        for path in dropped:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                shutil.rmtree(path, ignore_errors=True)

    def _new_folder(self) -> Path:
        folder = None
        with contextlib.suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix="tune_media-waiting-", dir=self._parent))
        if folder is None:  # the experiment's own folder is full, or gone
            folder = Path(tempfile.mkdtemp(prefix="tune_media-waiting-"))
        with self._lock:
            if self._folder is None:
                self._folder = folder
            else:  # a thread that was given up before the last ``clear`` is not over, and both made one
                self._dropped.append(folder)
            return self._folder


def _file_in(folder: Path, number: int) -> Path:
    return folder / f"{number:012d}"


def _tolerance(nbytes: int) -> float:
    return 1.1 if nbytes < _SMALL_BYTES else 1
