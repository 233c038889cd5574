"""Measures the share of the sampling time that rendering and encoding take, for ``RenderBudget``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class RenderClock:
    """Adds up the time between steps and the time spent on frames.

    Attributes:
        rendering: Time spent on rendering and encoding, seconds.
        sampling: Time between the first and the last tick, without pauses, seconds. Includes ``rendering``.

    Example:
        >>> clock = RenderClock()
        >>> clock.tick()
        >>> with clock.render():
        ...     frame = bytes(1000)
        >>> clock.tick()
        >>> 0 < clock.rendering <= clock.sampling
        True
    """

    def __init__(self) -> None:
        self.rendering = 0.0
        self.sampling = 0.0
        self._last: float | None = None

    def tick(self) -> None:
        """Count the time since the last tick as sampling time."""
        now = time.perf_counter()
        if self._last is not None:
            self.sampling += now - self._last
        self._last = now

    def pause(self) -> None:
        """Count no time until the next tick: nobody asks for samples."""
        self._last = None

    @contextlib.contextmanager
    def render(self) -> Iterator[None]:
        """Count the time of a ``with`` block as rendering time."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.rendering += time.perf_counter() - started
