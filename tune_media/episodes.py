"""The episodes of one round (an evaluation, or a training iteration) with all that was taken from their steps.

Everything here is bounded: a series that grows long keeps every second value, then every fourth, and says so.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tune_media.conversions import as_numbers, as_plain, converted, is_picture
from tune_media.steps import FINAL, SERIES, Named, Rule
from tune_media.values import Artifact, EpisodeRecord, Histogram, Image, Medium, json_bytes, new_id

UNKNOWN = "unknown"
"""What stands for the episode's id where values cannot be ascribed to one."""
MOST_POINTS = 10_000
"""Values of one series of one episode that are held at the most; of longer ones, every second, fourth, ..."""
MOST_NAMES = 200
"""Names of values of one episode."""
MOST_ELEMENTS = 64
"""Elements of a vector that are values of their own, ``<name>/0`` and so on; longer ones are kept as a whole."""
MOST_ROUND_POINTS = 2_000_000
"""Values of all series of one round, of one env runner and of an Algorithm's result: 16 MB."""
MOST_EPISODES = 20_000
"""Episodes of one round and env runner that are held until they are collected."""
_RAW_CLIP_AXES = 5
_OBJECT_POINTS = 8  # what a value that is no number counts for, at least, in points of eight bytes


@dataclass(frozen=True, eq=False)
class Series:
    """What a name had in the steps of an episode.

    Attributes:
        values: The values: float64, or a list of what JSON has.
        stride: Each stride-th value of the episode is here, from the first on.
        count: How many there were.
    """

    values: npt.NDArray[np.float64] | list[Any]
    stride: int
    count: int

    @property
    def is_numeric(self) -> bool:
        """Whether all its values are numbers."""
        return isinstance(self.values, np.ndarray)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class EpisodeData:
    """One episode.

    Attributes:
        record: What is known of it; its ``metrics`` are the statistics of its running values and its final numbers.
        series: The running values.
        values: Final values that are no numbers: text, arrays as nested lists, whatever JSON has.
        is_late: Whether it ended after the evaluation that it belongs to was over.
    """

    record: EpisodeRecord
    series: Mapping[str, Series] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    is_late: bool = False

    def as_dict(self, *, with_series: bool = True) -> dict[str, Any]:
        """Return it as JSON has it: the record's facts, ``metrics``, ``values``, ``series``."""
        row: dict[str, Any] = {**self.record.facts(), "metrics": dict(self.record.metrics)}
        row["finished_at"] = self.record.finished_at or None
        if self.record.training_iteration is not None:
            row["training_iteration"] = self.record.training_iteration
        if self.record.note:
            row["note"] = self.record.note
        if self.is_late:
            row["late"] = True
        if self.values:
            row["values"] = dict(self.values)
        if self.series and with_series:
            row["series"] = {name: series.values for name, series in self.series.items()}
        strides = {name: series.stride for name, series in self.series.items() if series.stride > 1}
        return row | ({"every": strides} if strides else {})


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The steps of an episode, the reset included: row t is what frame t shows.

    Attributes:
        columns: By name, one entry a row: ``step``, ``reward``, ``observation`` and ``action`` (of dicts and tuples one
            column a leaf, ``observation/<key>``), ``info`` (JSON text). Row 0, the reset, has no reward and no action.
        note: Where it was cut, or None.
    """

    columns: Mapping[str, Sequence[Any]]
    note: str | None = None

    def __len__(self) -> int:
        return len(self.columns["step"])


@dataclass(frozen=True, repr=False, eq=False)
class EpisodeBatch(Medium):
    """All episodes of one round, as a recorder reports them.

    Attributes:
        episodes: The episodes, in the order in which they ended.
        trajectories: The steps of the chosen ones, by the id of their record.
        id: Made where it was collected.
        note: What a reader should be told.
        holds_legacy: Whether it has what the old API stack reports of the same episodes.
    """

    kind: ClassVar[str] = "episodes"

    episodes: tuple[EpisodeData, ...]
    trajectories: Mapping[str, Trajectory] = field(default_factory=dict)
    id: str = field(default_factory=new_id)
    note: str | None = None
    may_repeat: str | None = None
    holds_legacy: bool = False

    @property
    def suffix(self) -> str:  # noqa: D102
        return ".json"

    @property
    def nbytes(self) -> int:  # noqa: D102
        points = sum(len(series) for episode in self.episodes for series in episode.series.values())
        return 8 * points + 1000 * len(self.episodes)

    def content(self) -> bytes:  # noqa: D102
        return json_bytes([episode.as_dict() for episode in self.episodes])

    def facts(self) -> dict[str, Any]:  # noqa: D102
        return {"format": "json", "episodes": len(self.episodes)}

    def counted(self) -> list[EpisodeData]:
        """Return the episodes of this round, without those that ended after it was over."""
        return [episode for episode in self.episodes if not episode.is_late]

    def metrics(self) -> dict[str, float]:
        """Return ``<metric>_mean``, ``_min`` and ``_max`` over the episodes of this round; NaN is left out."""
        return summarized(episode.record.metrics for episode in self.counted())

    def histograms(self) -> dict[str, Histogram]:
        """Return, by name, the histogram of all values of each series, and of return, length and final values."""
        parts: dict[str, list[tuple[npt.ArrayLike, int, int]]] = {}
        for episode in self.counted():
            record = episode.record
            single = {"episode_return": record.episode_return, "episode_length": record.episode_length}
            statistics = {f"{name}_{kind}" for name in episode.series for kind in ("avg", "sum", "min", "max", "last")}
            single = {name: value for name, value in record.metrics.items() if name not in statistics} | single
            for name, value in single.items():
                parts.setdefault(name, []).append(([value], 1, 1))
            for name, series in episode.series.items():
                if series.is_numeric:
                    parts.setdefault(name, []).append((series.values, series.stride, series.count))
        return {name: _histogram(found) for name, found in parts.items()}

    def texts(self) -> dict[str, list[tuple[EpisodeRecord, str]]]:
        """Return, by name, the text values of the episodes."""
        found: dict[str, list[tuple[EpisodeRecord, str]]] = {}
        for episode in self.counted():
            for name, value in episode.values.items():
                if isinstance(value, str):
                    found.setdefault(name, []).append((episode.record, value))
        return found

    def __repr__(self) -> str:
        return f"EpisodeBatch({len(self.episodes)} episodes)"


def with_progress(
    episodes: Iterable[EpisodeData], training_iteration: int | None, env_steps: int | None
) -> list[EpisodeData]:
    """Return the episodes in the order in which they ended, with how far training was when they were collected."""
    ordered = sorted(episodes, key=lambda episode: (episode.record.finished_at, episode.record.id))
    return [
        replace(e, record=replace(e.record, training_iteration=training_iteration, env_steps=env_steps))
        for e in ordered
    ]


def summarized(metrics: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return ``<metric>_mean``, ``_min`` and ``_max`` over episodes, as RLlib's old API stack names them."""
    values: dict[str, list[float]] = {}
    for of_episode in metrics:
        for name, value in of_episode.items():
            if not math.isnan(value):
                values.setdefault(name, []).append(value)
    return {
        f"{name}_{kind}": float(reduce(found))
        for name, found in values.items()
        for kind, reduce in (("mean", np.mean), ("min", np.min), ("max", np.max))
    }


def thinned(episodes: Sequence[EpisodeData], most: int = MOST_ROUND_POINTS) -> list[EpisodeData]:
    """Return the episodes with at most so many values in all their series, each second one left out as often as needed.

    Series that have been thinned least go first.
    """
    held = list(episodes)
    while _points(held) > most:
        strides = [s.stride for episode in held for s in episode.series.values() if len(s) > 1]
        if not strides:  # nothing is left but single values: those of the oldest episodes go
            for index, episode in enumerate(held):
                held[index] = _without_values(episode)
                if _points(held[: index + 1]) + _points(held[index + 1 :]) <= most:
                    break
            break
        least = min(strides)
        held = [
            replace(episode, series={name: _halved(series, least) for name, series in episode.series.items()})
            for episode in held
        ]
    return held


class EpisodeValues:
    """Takes in the named values of an episode's steps, in bounded memory."""

    def __init__(self) -> None:
        self._points: dict[str, _Points] = {}
        self._statistics: dict[str, tuple[_Total, Rule]] = {}
        self._finals: dict[str, Any] = {}
        self._media: dict[str, Any] = {}  # pictures and files: the last of each name

    def add(self, named: Named) -> None:
        """Take in a value.

        Raises:
            TypeError: It is nothing that can be stored.
            ValueError: The episode has too many names.
        """
        name, rule = named.name, named.rule
        if not name.isascii():
            name = name.encode("utf-8", "replace").decode()
        value = named.value if type(named.value) in (float, int) else converted(named.value)
        if isinstance(value, (Image, Artifact)):
            self._hold(self._media, name, value)
            return
        if is_picture(value):
            self._hold(self._media, name, value.copy())  # envs draw into the same buffer again
            return
        numbers = as_numbers(value)
        if numbers is None or (numbers.size != 1 and (rule.kind == SERIES or numbers.size > MOST_ELEMENTS)):
            self._add_object(name, value, rule)
        elif numbers.size == 1:
            self._add_number(name, float(numbers.item()), rule)
        else:
            for index, element in enumerate(numbers.ravel().tolist()):
                self._add_number(f"{name}/{index}", float(element), rule)

    def add_whole(self, name: str, value: Any) -> None:
        """Take in a final value as it is; clips and raw arrays of frames are left to whoever stores media.

        Raises:
            TypeError: It holds something that cannot be stored.
            ValueError: The episode has too many names.
        """
        value = converted(value)
        if isinstance(value, Medium) or (isinstance(value, np.ndarray) and value.ndim == _RAW_CLIP_AXES):
            return
        plain = as_plain(value, name)
        self._hold(self._finals, name, float(plain) if isinstance(plain, (bool, int, float)) else plain)

    def metrics(self) -> dict[str, float]:
        """Return the statistics of running values, ``<name>_avg`` and so on, and the final numbers."""
        metrics = {
            f"{name}_{statistic}": total.all()[statistic]
            for name, (total, rule) in self._statistics.items()
            for statistic in rule.statistics
        }
        return metrics | {name: value for name, value in self._finals.items() if isinstance(value, float)}

    def series(self) -> dict[str, Series]:
        """Return the series."""
        return {name: points.series() for name, points in self._points.items()}

    def values(self) -> dict[str, Any]:
        """Return the final values that are no numbers."""
        return {name: value for name, value in self._finals.items() if not isinstance(value, float)}

    def media(self) -> dict[str, Image | Artifact]:
        """Return the pictures and files, the last of each name."""
        return {name: Image(value) if is_picture(value) else value for name, value in self._media.items()}

    def _add_number(self, name: str, value: float, rule: Rule) -> None:
        if rule.kind == FINAL:
            self._hold(self._finals, name, value)
            return
        if name not in self._points:
            self._hold(self._points, name, _Points(array("d")))
            if rule.kind != SERIES:
                self._statistics[name] = (_Total(), rule)
        points = self._points[name]
        points.add(value)
        if name in self._statistics:
            self._statistics[name][0].add(value)

    def _add_object(self, name: str, value: Any, rule: Rule) -> None:
        plain = as_plain(value, name)
        if rule.kind == FINAL:
            self._hold(self._finals, name, plain)
            return
        if name not in self._points:
            self._hold(self._points, name, _Points([]))
        points = self._points[name]
        if not isinstance(points.held, list):  # a name that was numbers so far
            points.held = list(points.held)
        points.add(plain)
        if isinstance(plain, str):
            self._finals[name] = plain

    def _hold(self, where: dict[str, Any], name: str, value: Any) -> None:
        if name not in where and len({*self._points, *self._finals, *self._media, name}) > MOST_NAMES:
            raise ValueError(f"an episode has more than {MOST_NAMES} names of values; those after them are left out")
        where[name] = value


class _Points:
    """A series as it grows: each second value goes when it becomes too long."""

    def __init__(self, held: array[float] | list[Any]) -> None:
        self.held = held
        self.stride, self.count = 1, 0
        self._weight = 0

    def add(self, value: Any) -> None:
        if self.count % self.stride == 0:
            self.held.append(value)
            self._weight += 1 if isinstance(value, float) else _weight(value)
            if self._weight > MOST_POINTS and len(self.held) > 1:
                self.held = self.held[::2]
                self.stride *= 2
                self._weight = len(self.held) if isinstance(self.held, array) else sum(map(_weight, self.held))
        self.count += 1

    def series(self) -> Series:
        held = np.frombuffer(self.held, np.float64).copy() if isinstance(self.held, array) else list(self.held)
        return Series(held, self.stride, self.count)


@dataclass
class _Total:
    count: int = 0
    total: float = 0.0
    least: float = math.inf
    largest: float = -math.inf
    last: float = math.nan

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        if value < self.least or value != value:
            self.least = value
        if value > self.largest or value != value:
            self.largest = value
        self.last = value

    def all(self) -> dict[str, float]:
        average = self.total / self.count
        return {"avg": average, "sum": self.total, "min": self.least, "max": self.largest, "last": self.last}


def _weight(value: Any) -> int:
    """Return about how many points of eight bytes a value of JSON takes."""
    if isinstance(value, str):
        return _OBJECT_POINTS + len(value) // 8
    if isinstance(value, Mapping):
        return _OBJECT_POINTS + sum(map(_weight, value.values()))
    if isinstance(value, list):
        if value and isinstance(value[0], (int, float)):
            return _OBJECT_POINTS + len(value)
        return _OBJECT_POINTS + sum(map(_weight, value))
    return 1


def points_of(episode: EpisodeData) -> int:
    """Return how much an episode's series and values hold, in points of eight bytes."""
    series = sum(
        len(series) if series.is_numeric else sum(map(_weight, series.values)) for series in episode.series.values()
    )
    return series + sum(map(_weight, episode.values.values()))


def _points(episodes: Sequence[EpisodeData]) -> int:
    return sum(map(points_of, episodes))


def _without_values(episode: EpisodeData) -> EpisodeData:
    if not episode.values:
        return episode
    note = "; ".join(text for text in (episode.record.note, "its values are left out: there were too many") if text)
    return replace(episode, values={}, record=replace(episode.record, note=note))


def _halved(series: Series, stride: int) -> Series:
    """Leave out every second value of a series of this stride."""
    if series.stride != stride or len(series) < 2:
        return series
    return Series(series.values[::2], 2 * stride, series.count)


def _histogram(parts: Sequence[tuple[npt.ArrayLike, int, int]]) -> Histogram:
    """Count values in bins; one that stands for several that were left out counts for as many."""
    arrays = [np.asarray(values, np.float64) for values, _, _ in parts]
    values = np.concatenate(arrays)
    if all(stride == 1 for _, stride, _ in parts):
        return Histogram(values)
    weights = [np.full(a.size, count / max(1, a.size)) for a, (_, _, count) in zip(arrays, parts, strict=True)]
    return Histogram(values, weights=np.concatenate(weights))
