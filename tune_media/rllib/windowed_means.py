"""The means of custom metrics over the last episodes, across rounds and restores."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from tune_media.values.episodes import EpisodeData

State = dict[str, dict[str, list[float]]]


class WindowedMeans:
    """The means of each section's custom metrics over its last ``length`` episodes, or None if there are no means."""

    def __init__(self, length: int | None) -> None:
        self._length = length
        self._last: dict[str, dict[str, deque[float]]] = {}

    def add(self, section: str, episodes: Sequence[EpisodeData]) -> dict[str, float]:
        """Add a round's episodes, and return ``<metric>_windowed_mean`` of the section; NaN is left out."""
        if self._length is None:
            return {}
        windows = self._last.setdefault(section, {})
        for episode in episodes:
            for name, value in episode.record.metrics.items():
                if not math.isnan(value):
                    windows.setdefault(name, deque(maxlen=self._length)).append(value)
        return {f"{name}_windowed_mean": sum(values) / len(values) for name, values in windows.items()}

    def state(self) -> State:
        """Return the values that the means cover, for a checkpoint."""
        return {
            section: {name: list(values) for name, values in windows.items()} for section, windows in self._last.items()
        }

    def set_state(self, state: State) -> None:
        """Go on from a checkpoint."""
        self._last = {
            section: {name: deque(values, maxlen=self._length) for name, values in windows.items()}
            for section, windows in state.items()
        }
