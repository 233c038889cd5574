"""Measures how long rendering and encoding take, for ``RenderBudget`` and ``render="auto"``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class RenderClock:
    """Adds up the time between steps and the time spent on frames."""

    def __init__(self) -> None:
        self.rendering = 0.0  # rendering and encoding, seconds
        # from the first tick (or ``resume``) to the last one, without pauses, with ``rendering``, seconds
        self.sampling = 0.0
        self._last: float | None = None

    def tick(self) -> None:
        """Count the time since the last tick as sampling time."""
        now = time.perf_counter()
        if self._last is not None:
            self.sampling += now - self._last
        self._last = now

    def pause(self) -> None:
        """Count the time since the last tick, and then none until the next one: no samples are wanted."""
        if self._last is not None:
            self.tick()
        self._last = None

    def resume(self) -> None:
        """Count the time from now on: samples are asked for. Without this call, it counts from the next tick on."""
        self._last = time.perf_counter()

    @contextlib.contextmanager
    def render(self) -> Iterator[None]:
        """Count the time of a ``with`` block as rendering time."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.rendering += time.perf_counter() - started
