"""The loop of all threads that work for the outbox, written once.

The threads are daemons: a storage or tracker that hangs keeps neither Tune's loop nor the end of the process waiting.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence

from tune_media.callbacks.services import Services
from tune_media.values.threads import start_thread

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0  # seconds, while the storage or tracker is away
_LOOK_SECONDS = 0.5  # how often a thread looks for work that did not wake it


class OutboxThread:
    """A thread that takes turns, wakes when the outbox changes, and waits after a turn that failed."""

    gather_seconds = 0.05  # from being woken to the next turn: results that come at once do not wait for their readers

    def __init__(self, name: str, services: Services, niceness: int = 0) -> None:
        self.name, self._niceness = name, niceness  # how far it stands back, as for ``os.nice``
        self._services, self._outbox, self._faults = services, services.outbox, services.faults
        self.is_away = False  # whether the last try failed, and will be repeated
        self._lock = threading.Lock()
        self._hurried = threading.Event()
        self._is_closing = self._gave_up = False
        self._pause = 0.0
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the thread, unless it runs. If the system allows no more, it is tried again at the next call."""
        if self._thread is None:
            with self._faults.guard(self.name, "starting a thread (it is tried again)", later=True):
                self._thread = start_thread(f"tune_media {self.name}", self._run)

    def close(self, seconds: float) -> bool:
        """Wait until all is done, at most so long; return whether it is. After that the thread does nothing more."""
        self._is_closing = True
        self.hurry()
        if self._thread is not None:
            self._thread.join(min(seconds, threading.TIMEOUT_MAX))
        self._gave_up = self._thread is None or self._thread.is_alive()
        return not self._gave_up

    def hurry(self) -> None:
        """Take the next turn at once."""
        self._hurried.set()
        self._outbox.wake()

    def turn(self) -> bool:
        """Do some work; return whether there may be more at once. If it raises, ``failed`` is asked what to do."""
        raise NotImplementedError

    def failed(self, error: Exception) -> bool:
        """Take note that a turn raised; return whether to wait before the next one."""
        raise NotImplementedError

    def finished(self) -> bool:
        """Return whether all is done, now that no rows come any more."""
        raise NotImplementedError

    def _run(self) -> None:
        _stand_back(self._niceness)
        while not self._gave_up:
            version = self._outbox.version
            self._hurried.clear()
            try:
                is_busy = self.turn()
                if not is_busy and self._is_closing and self.finished():
                    return
            except BaseException as raised:  # SystemExit, too: a thread that ends would leave all the rest undone
                error = raised if isinstance(raised, Exception) else RuntimeError(f"{type(raised).__name__}: {raised}")
                if self._gave_up:
                    return
                self.is_away = True
                with contextlib.suppress(Exception):
                    self.is_away = self.failed(error)
                if self.is_away:
                    self._rest()
                continue
            self.is_away, self._pause = False, 0.0
            if is_busy:
                continue
            self._outbox.wait(version, _LOOK_SECONDS)
            if not self._is_closing:
                self._hurried.wait(self.gather_seconds)

    def _rest(self) -> None:
        self._pause = min(_LONGEST_PAUSE, 2 * self._pause or _FIRST_PAUSE)
        until = time.monotonic() + (min(self._pause, 1.0) if self._is_closing else self._pause)
        while time.monotonic() < until and not self._gave_up:
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))


def _stand_back(niceness: int) -> None:
    """Leave the processor to others; only Linux has a niceness for each thread."""
    if niceness and sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))


def in_threads(jobs: Sequence[Callable[[], None]], count: int) -> list[BaseException | None]:
    """Do jobs, some at a time; return when all have ended, with the error of each, or None.

    It waits for the rest when one has failed, too: a request that is still under way could undo a later one. The
    threads are daemons, since a storage may hang.
    """
    errors: list[BaseException | None] = [None] * len(jobs)
    left = list(range(len(jobs)))[::-1]

    def run() -> None:
        while left:
            try:
                number = left.pop()
            except IndexError:
                return
            try:
                jobs[number]()
            except BaseException as error:
                errors[number] = error

    helpers: list[threading.Thread] = []
    with contextlib.suppress(RuntimeError):  # the system allows no more, or the process ends
        helpers.extend(start_thread("tune_media request", run) for _ in range(min(count, len(jobs)) - 1))
    run()
    for thread in helpers:
        thread.join()
    return errors
