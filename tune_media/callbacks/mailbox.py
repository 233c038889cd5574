"""Messages for one handler: in memory as far as it has room, then on the driver's disk, and in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from tune_media.callbacks.spool import Spool, UnreadableError
from tune_media.callbacks.work_queue import Task, WorkQueue

M = TypeVar("M")

_FETCHED = 64  # messages that come back from the disk at a time


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

    def take_rest(self, *, named: bool = False) -> Iterator[M]:
        """Yield the messages that wait on disk, one by one, and forget them; for the end, when the queue is closed.

        Args:
            named: They are yielded without what is large in them, and their files are not read.
        """
        try:
            while True:
                lost = None
                with self._lock:
                    number = self._spool.hold_first()
                    if number is None:
                        return
                    message = self._spool.named(number)
                    if not named:
                        try:
                            message = self._spool.read(number)
                        except UnreadableError as error:
                            lost = error
                    self._spool.drop_first()
                self._spool.tidy()
                if lost is None:
                    yield message
                else:
                    self._on_lost(message, lost)
        finally:
            self._spool.clear()
            self._spool.tidy()

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
        self._spool.tidy()
        if lost is not None:
            self._on_lost(named, lost)
        return True
