"""Threads that do work ahead of its turn: requests to a remote storage take long, and many can be under way at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future


class Helpers:
    """Daemon threads, made as they are needed: a storage that hangs keeps nobody waiting for them.

    Any thread calls all methods.

    Example:
        >>> helpers = Helpers("example", count=2)
        >>> helpers.run_all([lambda: None, lambda: 1 / 0])
        [None, ZeroDivisionError('division by zero')]
        >>> helpers.close()

    Args:
        name: Of the threads.
        count: The most threads.
    """

    def __init__(self, name: str, count: int) -> None:
        self.count = count
        self._name = name
        self._work: queue.SimpleQueue[tuple[Callable[[], None], Future[None]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()

    def run_all(self, jobs: Iterable[Callable[[], None]]) -> list[BaseException | None]:
        """Do jobs, many at a time; return when all have ended, with the error of each, or None.

        It waits for the rest when one has failed, too: a request that is still under way could undo a later one.
        """
        return [done.exception() for done in [self._start(job) for job in jobs]]

    def _start(self, job: Callable[[], None]) -> Future[None]:
        done: Future[None] = Future()
        with self._lock:
            if not self._idle.acquire(blocking=False) and len(self._threads) < self.count:
                thread = threading.Thread(target=self._run, name=f"tune_media {self._name}", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system allows no more, or the process ends
                    if not self._threads:
                        done.set_exception(error)
                        return done
                else:
                    self._threads.append(thread)
            self._work.put((job, done))
        return done

    def close(self) -> None:
        """End the threads, after all that they were given; nobody waits for them."""
        with self._lock:
            threads, self._threads = self._threads, []
            for _ in threads:
                self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            do, done = work
            try:
                do()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)
            self._idle.release()
