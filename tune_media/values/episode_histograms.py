"""Makes the histograms of a batch of episodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tune_media.values.histogram import Histogram

if TYPE_CHECKING:
    from tune_media.values.episodes import EpisodeData

STATISTICS = ("avg", "sum", "min", "max", "last")
"""The statistics of a running value, in the names of metrics: ``<name>_avg``."""


def histograms_of(episodes: Iterable[EpisodeData]) -> dict[str, Histogram]:
    """Return, by name, the histogram of all values of the episodes.

    >>> histograms_of([])
    {}
    """
    parts: dict[str, list[tuple[npt.ArrayLike, int]]] = {}
    for episode in episodes:
        for name, values, count in _numbers(episode):
            parts.setdefault(name, []).append((values, count))
    return {name: _histogram(found) for name, found in parts.items()}


def _numbers(episode: EpisodeData) -> Iterator[tuple[str, npt.ArrayLike, int]]:
    """Yield each name with its numbers, and the number of values that they stand for; each name once.

    A final value that is also a series counts in the series, and the statistics of a series count nowhere.
    """
    record = episode.record
    numeric = {name: series for name, series in episode.series.items() if series.is_numeric}
    statistics = {f"{name}_{kind}" for name in episode.series for kind in STATISTICS}
    single = {name: value for name, value in record.metrics.items() if name not in statistics}
    single |= {"episode_return": record.episode_return, "episode_length": record.episode_length}
    for name, value in single.items():
        if name not in numeric:
            yield name, [value], 1
    for name, series in numeric.items():
        yield name, series.values, series.count


def _histogram(parts: Sequence[tuple[npt.ArrayLike, int]]) -> Histogram:
    """Make the histogram of several arrays; a value of a thinned series weighs as many values as it stands for."""
    arrays = [np.asarray(values, np.float64) for values, _ in parts]
    values = np.concatenate(arrays)
    if all(array.size == count for array, (_, count) in zip(arrays, parts, strict=True)):
        return Histogram(values)
    weights = [np.full(a.size, count / max(1, a.size)) for a, (_, count) in zip(arrays, parts, strict=True)]
    return Histogram(values, weights=np.concatenate(weights))
