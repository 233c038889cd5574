"""Work done one after the other by a thread of its own, and tried again while what it is for is away.

The thread is a daemon: a storage or tracker that hangs keeps neither Tune's loop nor the end of the process waiting.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_MOST_FAILURES = 5  # of one piece of work, where others succeed
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@dataclass(eq=False)
class Work:
    """A piece of work.

    Attributes:
        what: What it is, for warnings.
        do: Does it.
        nbytes: How much memory it holds until it is done.
        give_up: Told why it is never done.
        key: While work with this key waits, no more of it is taken.
        is_vital: It is never given up before the end.
    """

    what: str
    do: Callable[[], None]
    nbytes: int = 0
    give_up: Callable[[Exception], None] = lambda error: None
    key: Any = None
    is_vital: bool = False
    failures: int = 0
    done_before: int = 0  # what had been done when it first failed


class Outbox:
    """Work for one storage or tracker.

    Args:
        name: Of the thread.
        is_away: Told what a piece of work raised, says whether it is worth trying again.
        report: Told what was given up, or (``is_tried_again``) is not, and why.
        keeps_order: What fails holds up what comes after it. Otherwise the others go first, and what has failed
            several times while others succeeded is given up, unless a disk is full.
    """

    def __init__(
        self,
        name: str,
        is_away: Callable[[Exception], bool],
        report: Callable[[str, Exception, bool], None],
        *,
        keeps_order: bool = True,
    ) -> None:
        self._is_away, self._report, self._keeps_order = is_away, report, keeps_order
        self._waiting: deque[Work] = deque()
        self._keys: set[Any] = set()  # of what waits
        self._under_way: Work | None = None
        self._nbytes = self._done = 0
        self._pause = 0.0
        self._deadline: float | None = None
        self._hurries = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"tune_media {name}", daemon=True)
        self._thread.start()

    def put(self, work: Work, most_bytes: float = float("inf"), *, first: bool = False) -> bool:
        """Have something done.

        Args:
            work: What.
            most_bytes: How much may wait. What holds no memory always may.
            first: Before all that waits.

        Returns:
            Whether it will be; False where too much waits.
        """
        with self._changed:
            if work.nbytes and self._nbytes + work.nbytes > most_bytes:
                return False
            if work.key is not None and work.key in self._keys:
                return True
            self._nbytes += work.nbytes
            self._keys.add(work.key)
            (self._waiting.appendleft if first else self._waiting.append)(work)
            self._changed.notify_all()
        return True

    @property
    def nbytes(self) -> int:
        """How much memory is held by what waits."""
        return self._nbytes

    @property
    def is_away(self) -> bool:
        """Whether what was tried last failed, and will be tried again."""
        return self._pause > 0

    def wait(self, seconds: float, *, patiently: bool = True) -> bool:
        """Wait until all is done; unless ``patiently``, no longer than it takes to see that the other side is away."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_idle or (self.is_away and not patiently), seconds) and (
                self._is_idle
            )

    def close(self, seconds: float) -> list[Work]:
        """Wait for what is left, at most so long, and end; return what was not done."""
        with self._changed:
            self._deadline = time.monotonic() + seconds
            self._hurries = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_idle, seconds)
            left = [*([self._under_way] if self._under_way else []), *self._waiting]
            self._waiting.clear()
            self._deadline, self._hurries = 0.0, True
            self._changed.notify_all()
        return left

    @property
    def _is_idle(self) -> bool:
        return not self._waiting and self._under_way is None

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work.do()
            except Exception as error:
                with contextlib.suppress(Exception):  # a thread that ends would leave all the rest undone
                    self._failed(work, error)
            else:
                self._finish(work, succeeded=True)

    def _next(self) -> Work | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._deadline is not None)
            if not self._waiting:
                return None
            self._under_way = self._waiting.popleft()
            self._keys.discard(self._under_way.key)
            return self._under_way

    def _failed(self, work: Work, error: Exception) -> None:
        if not work.failures:
            work.done_before = self._done
        work.failures += 1
        others_succeed = work.failures >= _MOST_FAILURES and self._done > work.done_before
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
            if self._deadline == 0.0:  # closed: who closed it was told that this was left
                return
            if work.key is None or work.key not in self._keys:  # else what came since does it
                (self._waiting.appendleft if self._keeps_order else self._waiting.append)(work)
                self._keys.add(work.key)
            self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._changed.notify_all()
            until = time.monotonic() + self._pause
            self._changed.wait_for(lambda: self._hurries or time.monotonic() >= until, self._pause)
            if self._hurries and self._deadline:  # the end is near: at once, and soon again
                self._hurries, self._pause = False, _FIRST_PAUSE / 2

    def _finish(self, work: Work, *, succeeded: bool) -> None:
        with self._changed:
            self._nbytes -= work.nbytes
            self._done += succeeded
            self._pause = 0.0 if succeeded else self._pause
            self._under_way = None
            self._changed.notify_all()


def _has_no_room(error: Exception) -> bool:
    """Say whether a disk is full: it takes small things and no large ones until room is made."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM
