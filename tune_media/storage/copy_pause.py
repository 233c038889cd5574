"""How often a file that grows is copied to the storage, where it can only be replaced as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable


class CopyPause:
    """Decides when an index may be copied to the storage again.

    A copy takes the whole file, so copies must become rarer as it grows. A copy of an index is made if all copies
    together stay below 5 % of the media that were recorded or deleted. If media are small, that would keep the index
    waiting, so a copy is also made after a pause: on this machine's disk a tenth of the trial's age (one minute at
    most, plus a second for each megabyte of the index), elsewhere a quarter of the trial's age. There the copies of an
    index that grows evenly then take about five times its final size.

    Args:
        is_local: Whether the storage is this machine's own disk.
        clock: Returns the time, seconds.

    Example:
        >>> now = [0.0]
        >>> pause = CopyPause(is_local=False, clock=lambda: now[0])
        >>> pause.is_over(nbytes=500)  # it has not been copied yet
        True
        >>> pause.begin(nbytes=500)
        >>> pause.is_over(nbytes=500)
        False
        >>> pause.add_recorded(1_000_000)
        >>> now[0] = 6.0
        >>> pause.is_over(nbytes=1000)
        True
    """

    _SHARE_OF_MEDIA = 0.05

    def __init__(self, *, is_local: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._shortest = 0.5 if is_local else 5.0
        self._share_of_age, self._longest = (0.1, 60.0) if is_local else (0.25, float("inf"))
        self._clock = clock
        self._opened_at = clock()
        self._copied_at = float("-inf")
        self._recorded = self._copied = 0  # bytes

    def begin(self, nbytes: int = 0) -> None:
        """Note that a copy of so many bytes has been made."""
        self._copied_at = self._clock()
        self._copied += nbytes

    def add_recorded(self, nbytes: int) -> None:
        """Note that media of so many bytes have been recorded or deleted."""
        self._recorded += nbytes

    def is_over(self, nbytes: int = 0) -> bool:
        """Say whether a file of so many bytes may be copied now."""
        now = self._clock()
        waited = now - self._copied_at
        if waited <= self._shortest:
            return False
        if self._recorded and self._copied + nbytes <= self._SHARE_OF_MEDIA * self._recorded:
            return True
        return waited > min(self._share_of_age * (now - self._opened_at), self._longest + nbytes / 1e6)
