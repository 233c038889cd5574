"""Work for one tracker, done in order by one thread, and tried again while the tracker is away.

The thread is a daemon: a tracker that hangs keeps neither Tune's loop nor the end of the process waiting.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tune_media.callbacks.base import MediaLogging

logger = logging.getLogger("tune_media")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0


@dataclass
class _Item:
    what: str
    work: Callable[[], None]
    nbytes: int


class Outbox:
    """Work for one tracker.

    Args:
        media: The callback's hold on its session: where faults are told.
        is_away: Told what work raised, says whether the tracker was away, so that it is worth trying again.
    """

    def __init__(self, media: MediaLogging, is_away: Callable[[Exception], bool]) -> None:
        self._media, self._is_away = media, is_away
        self._items: queue.Queue[_Item | None] = queue.Queue()
        self._pending_bytes = 0
        self._dropped = self._left = 0
        self._closing = threading.Event()
        self._deadline = float("inf")
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"tune_media {media.name}", daemon=True)
        self._thread.start()

    def put(self, what: str, work: Callable[[], None], nbytes: int = 0) -> None:
        """Have something done; where too many bytes of clips wait already, a clip is dropped, counted and named.

        Args:
            what: What it is, for warnings.
            work: Does it.
            nbytes: How much memory it holds until it is done. What holds none is never dropped.
        """
        most = self._media.options.max_pending_bytes
        with self._lock:
            if nbytes and self._pending_bytes + nbytes > most:
                self._dropped += 1
                full = True
            else:
                self._pending_bytes += nbytes
                full = False
        if full:
            reason = RuntimeError(f"more than MediaOptions(max_pending_bytes={most}) wait for {self._media.name}")
            self._media.report(f"{what}; it is in the trial's folder", reason, kind="dropped")
            return
        with self._lock:
            self._left += 1
        self._items.put(_Item(what, work, nbytes))

    def close(self, timeout: float) -> None:
        """Wait for what is left, at most so long, and say what is missing."""
        self._deadline = time.monotonic() + timeout
        self._closing.set()
        self._items.put(None)
        self._thread.join(timeout)
        with self._lock:
            left = self._left
        if left or self._dropped:
            logger.warning(
                "tune_media: %s: %d piece(s) of work were not done after %g s, and %d clip(s) were dropped before. All "
                "media are in the trials' folders. MediaOptions(flush_seconds=...) says how long the end waits.",
                self._media.name,
                left,
                timeout,
                self._dropped,
            )

    def _run(self) -> None:
        while True:
            item = self._items.get()
            if item is None or not self._do(item):
                return
            with self._lock:
                self._pending_bytes -= item.nbytes
                self._left -= 1

    def _do(self, item: _Item) -> bool:
        """Do a piece of work; return False where the time is over and the tracker still away."""
        pause = _FIRST_PAUSE
        while True:
            try:
                item.work()
                return True
            except Exception as error:
                if not self._is_away(error):
                    self._media.report(item.what, error)
                    return True
                if time.monotonic() > self._deadline:
                    return False
                if pause == _FIRST_PAUSE:
                    self._media.report(f"{item.what} (it is tried again)", error, kind="away")
                left = self._deadline - time.monotonic()
                (time.sleep if self._closing.is_set() else self._closing.wait)(max(0.0, min(pause, left)))
                pause = min(2 * pause, _LONGEST_PAUSE)
