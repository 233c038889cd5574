"""Tasks that a thread of its own runs one after the other, and tries again while the server or disk is away.

The thread is a daemon: a storage or tracker that hangs keeps neither Tune's loop nor the end of the process waiting.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from tune_media.callbacks.helpers import Helpers

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_MAX_FAILURES = 5  # of one task, if others succeed
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@dataclass(eq=False)
class Task:
    """A piece of work.

    Attributes:
        what: Its name, for warnings.
        do: Does it.
        nbytes: How much memory it holds until it is done.
        give_up: Told why it is never done.
        key: While work with this key waits, no more of it is taken.
        is_vital: It is never given up before the end.
        early: Part of the work that may be done before its turn; if it fails, ``do`` does all of it.
        is_local: It asks nothing of the storage or tracker: its success does not say that they are back.
    """

    what: str
    do: Callable[[], None]
    nbytes: int = 0
    give_up: Callable[[Exception], None] = lambda error: None
    key: Any = None
    is_vital: bool = False
    early: Callable[[], None] | None = None
    is_local: bool = False
    failures: int = 0
    done_before: int = 0  # tasks done when it first failed
    under_way: Future[None] | None = None  # the early part


class WorkQueue:
    """Work for one storage or tracker.

    Args:
        name: Of the thread.
        is_away: Takes the error of a task; returns whether the task is worth trying again.
        report: Called with a task's name, its error, and whether it will be tried again or is given up.
        keeps_order: A task that fails holds up the next ones. Otherwise they go first, and a task that has failed
            several times while others succeeded is given up, unless a disk is full.
        helpers: They do the early parts of the next tasks.
        niceness: Of the thread, as for ``os.nice``.
    """

    def __init__(
        self,
        name: str,
        is_away: Callable[[Exception], bool],
        report: Callable[[str, Exception, bool], None],
        *,
        keeps_order: bool = True,
        helpers: Helpers | None = None,
        niceness: int = 0,
    ) -> None:
        self._is_away, self._report, self._keeps_order = is_away, report, keeps_order
        self._helpers, self._niceness = helpers, niceness
        self._waiting: deque[Task] = deque()
        self._keys: set[Any] = set()  # of the tasks that wait
        self._under_way: Task | None = None
        self._nbytes = self._done = 0
        self._pause = 0.0
        self._deadline: float | None = None
        self._hurries = False
        self._changed = threading.Condition()
        self._name = name
        self._thread: threading.Thread | None = None

    def put(self, work: Task, most_bytes: float = float("inf"), *, first: bool = False, seconds: float = 0.0) -> bool:
        """Have something done.

        Args:
            work: The task.
            most_bytes: How much may wait. A task that holds no memory always may.
            first: Before all that waits.
            seconds: How long to wait for room.

        Returns:
            Whether it will be done; False if too much waits, or if ``most_bytes`` is given and the queue is closed.
        """
        with self._changed:
            if work.nbytes and not self._wait_for(lambda: self._nbytes + work.nbytes <= most_bytes, seconds):
                return False
            if self.is_closed and most_bytes < float("inf"):
                return False
            if work.key is not None and work.key in self._keys:
                return True
            self._nbytes += work.nbytes
            self._keys.add(work.key)
            (self._waiting.appendleft if first else self._waiting.append)(work)
            self._changed.notify_all()
            self._start_thread()
        return True

    @property
    def nbytes(self) -> int:
        """How much memory the waiting tasks hold."""
        return self._nbytes

    @property
    def is_closed(self) -> bool:
        """Whether the end was told which tasks are left."""
        return self._deadline == 0.0

    @property
    def is_away(self) -> bool:
        """Whether the last task failed, and will be tried again."""
        return self._pause > 0

    def wait(self, seconds: float, *, patiently: bool = True) -> bool:
        """Wait until all is done; unless ``patiently``, no longer than it takes to see that the other side is away."""
        with self._changed:
            return self._wait_for(lambda: self._is_idle or (self.is_away and not patiently), seconds) and self._is_idle

    def close(self, seconds: float) -> list[Task]:
        """Wait for the remaining tasks, at most so long, and end; return the tasks that were not done."""
        with self._changed:
            self._deadline = time.monotonic() + seconds
            self._hurries = True
            if self._waiting:
                self._start_thread()
            self._changed.notify_all()
            self._wait_for(lambda: self._is_idle, seconds)
            left = [*([self._under_way] if self._under_way else []), *self._waiting]
            self._waiting.clear()
            self._deadline, self._hurries = 0.0, True
            self._changed.notify_all()
        return left

    @property
    def _is_idle(self) -> bool:
        return not self._waiting and self._under_way is None

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition; Python's own wait raises if it is given infinity."""
        return self._changed.wait_for(condition, min(seconds, threading.TIMEOUT_MAX))

    def _start_thread(self) -> None:
        """Start the thread with the first task; with the next one, if the system refuses another thread."""
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._run, name=f"tune_media {self._name}", daemon=True)
        try:
            thread.start()
            self._thread = thread
        except RuntimeError as error:
            self._report("starting a thread", error, True)

    def _run(self) -> None:
        _stand_back(self._niceness)
        while (work := self._next()) is not None:
            if work.under_way is not None:
                work.under_way.exception()  # waits; if it failed, the work is done below, or fails there
            try:
                work.do()
            except BaseException as raised:  # SystemExit, too: a thread that ends would leave all the rest undone
                error = raised if isinstance(raised, Exception) else RuntimeError(f"{type(raised).__name__}: {raised}")
                with contextlib.suppress(Exception):
                    self._failed(work, error)
            else:
                self._finish(work, succeeded=not work.is_local)

    def _next(self) -> Task | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._deadline is not None)
            if not self._waiting:
                return None
            self._under_way = self._waiting.popleft()
            self._keys.discard(self._under_way.key)
            if self._helpers is not None:
                with contextlib.suppress(Exception):
                    self._start_early(self._helpers)
            return self._under_way

    def _start_early(self, helpers: Helpers) -> None:
        """Have the early parts of the next tasks done, and those that failed again."""
        for task in itertools.islice(self._waiting, helpers.count):
            former = task.under_way
            if task.early is not None and (former is None or (former.done() and former.exception())):
                task.under_way = helpers.start(task.early)

    def _failed(self, work: Task, error: Exception) -> None:
        if not work.failures:
            work.done_before = self._done
        work.failures += 1
        others_succeed = work.failures >= _MAX_FAILURES and self._done > work.done_before
        alone = others_succeed and not self._keeps_order and not work.is_vital and not _has_no_room(error)
        if not self._is_away(error) or alone:
            self._report(work.what, error, False)
            try:
                work.give_up(error)
            finally:
                self._finish(work, succeeded=False)
            return
        if work.failures == 1:
            self._report(work.what, error, True)
        with self._changed:
            self._under_way = None
            if self.is_closed:  # who closed it was told that this was left
                return
            if work.key is None or work.key not in self._keys:  # else the newer task does it
                (self._waiting.appendleft if self._keeps_order else self._waiting.append)(work)
                self._keys.add(work.key)
            self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._changed.notify_all()
            until = time.monotonic() + self._pause
            self._changed.wait_for(lambda: self._hurries or time.monotonic() >= until, self._pause)
            if self._hurries and self._deadline:  # the end is near: at once, and soon again
                self._hurries, self._pause = False, _FIRST_PAUSE / 2

    def _finish(self, work: Task, *, succeeded: bool) -> None:
        with self._changed:
            self._nbytes -= work.nbytes
            self._done += succeeded
            self._pause = 0.0 if succeeded else self._pause
            self._under_way = None
            self._changed.notify_all()


def _stand_back(niceness: int) -> None:
    """Leave the processor to others; on Linux alone each thread has a niceness of its own."""
    if niceness and sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))


def _has_no_room(error: Exception) -> bool:
    """Say whether a disk is full: it takes small things and no large ones until room is made."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM
