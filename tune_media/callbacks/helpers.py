"""Threads that do work ahead of its turn: requests to a remote storage take long, and many can be under way at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future


class Helpers:
    """Daemon threads, made as they are needed: a storage that hangs keeps nobody waiting for them.

    Any thread calls all methods.

    Example:
        >>> helpers = Helpers("example", count=2)
        >>> helpers.start(lambda: None).exception(timeout=10)
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

    def start(self, do: Callable[[], None]) -> Future[None]:
        """Have something done; the future tells when it is, or how it failed."""
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
            self._work.put((do, done))
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
