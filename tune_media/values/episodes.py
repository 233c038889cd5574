"""The episodes of one round (an evaluation or a training iteration), with the values of their steps.

Everything here is bounded: a long series keeps every second value, then every fourth, and says so.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.histogram import Histogram
from tune_media.values.medium import Medium, joined, new_id
from tune_media.values.rates import SUCCESS_RATE, wilson
from tune_media.values.strict_json import json_bytes

STATISTICS = ("avg", "sum", "min", "max", "last")
"""The statistics of a running value, in the names of metrics: ``<name>_avg``."""
UNKNOWN = "unknown"
"""The episode id of values that cannot be assigned to one episode."""
MAX_ROUND_POINTS = 2_000_000
"""The most values that all series of one round hold, on one env runner or in an Algorithm's result: 16 MB."""
MAX_TAPE_BYTES = 16 * 2**20
"""The most bytes that the tapes of one round's episodes take; those of the chosen ones are kept in any case."""
LEFT_OUT = b""
"""The tape of an episode whose tape was left out, since those of its round took too much."""
MAX_EPISODES = 20_000
"""The most episodes of one round that an env runner holds until they are collected."""
_OBJECT_POINTS = 8  # an object that is not a number counts as at least this many points of eight bytes
_making_histograms = threading.Lock()


@dataclass(frozen=True, eq=False)
class Series:
    """The values that one name had in the steps of an episode."""

    values: npt.NDArray[np.float64] | list[Any]  # float64, or a list of JSON values
    stride: int  # 4 means that every fourth value is kept, beginning with the first
    count: int  # the number of values that there were

    @property
    def is_numeric(self) -> bool:
        """Whether all its values are numbers."""
        return isinstance(self.values, np.ndarray)

    def halved(self) -> Series:
        """Return the series without every second value that it holds."""
        return Series(self.values[::2], 2 * self.stride, self.count) if len(self) > 1 else self

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class EpisodeData:
    """One episode with the values of its steps."""

    record: EpisodeRecord  # its ``metrics`` are the statistics of running values and the final numbers
    series: Mapping[str, Series] = field(default_factory=dict)  # the running values by name
    # final values that are not numbers: text, arrays as nested lists, any JSON value
    values: Mapping[str, Any] = field(default_factory=dict)
    is_late: bool = False  # it ended after its evaluation was over, and counts in no mean
    tape: bytes | None = None  # plays the episode again (``replay.tape``); or None if it was not recorded
    recipe: str | None = None  # the hash of its env's recipe, see ``EpisodeBatch.recipes``, or None if not known
    # per step, summed over agents, with a clip; None: on its tape, or not known
    rewards: npt.NDArray[np.float64] | None = None

    def as_dict(self, *, with_series: bool = True) -> dict[str, Any]:
        """Return the episode as a JSON object: the record's facts, ``metrics``, ``values`` and ``series``."""
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

    def without_values(self) -> EpisodeData:
        """Return the episode without its final values, and with a note that says so."""
        if not self.values:
            return self
        note = joined(self.record.note, "its values are left out: there were too many")
        return replace(self, values={}, record=replace(self.record, note=note))

    def without_tape(self) -> EpisodeData:
        """Return the episode without its tape, and with a note that says so."""
        why = f"its tape is left out: those of a round take at most {MAX_TAPE_BYTES // 2**20} MB"
        return replace(self, tape=LEFT_OUT, record=replace(self.record, note=joined(self.record.note, why)))


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The steps of an episode, including the reset. Row t belongs to frame t of the clip."""

    # by name, one entry a row: ``step``, ``reward``, ``observation`` and ``action`` (of a dict or tuple, one column
    # for each leaf: ``observation/<key>``), ``info`` (JSON text). Row 0, the reset, has no reward and no action.
    columns: Mapping[str, Sequence[Any]]
    note: str | None = None  # a remark, for example that the trajectory was cut, or None

    def __len__(self) -> int:
        return len(self.columns["step"])


@dataclass(frozen=True, repr=False, eq=False)
class EpisodeBatch(Medium):
    """All episodes of one round, as a recorder reports them.

    Backends on any thread may call every method; the histograms are made once, under a lock.

    >>> records = [EpisodeRecord(f"e{i}", float(i), 10, metrics={"speed_avg": i / 2}) for i in range(3)]
    >>> batch = EpisodeBatch(tuple(EpisodeData(record) for record in records))
    >>> batch.metrics()
    {'speed_avg_mean': 0.5, 'speed_avg_min': 0.0, 'speed_avg_max': 1.0}
    >>> batch.histograms()["episode_return"]
    Histogram(3 values in 64 bins)
    """

    kind: ClassVar[str] = "episodes"
    suffix = ".json"

    episodes: tuple[EpisodeData, ...]  # in the order in which they ended
    # the steps of the chosen episodes, by the id of the episode's record
    trajectories: Mapping[str, Trajectory] = field(default_factory=dict)
    # those that the episodes' tapes refer to (``replay.recipe``), by hash; executable
    recipes: Mapping[str, bytes] = field(default_factory=dict)
    id: str = field(default_factory=new_id)
    note: str | None = None
    may_repeat: str | None = None
    holds_legacy: bool = False  # whether it contains what the old API stack reports of the same episodes

    @property
    @override
    def nbytes(self) -> int:
        size: int | None = self.__dict__.get("_nbytes")
        if size is None:  # every queue asks
            columns = [column for steps in self.trajectories.values() for column in steps.columns.values()]
            size = 8 * _points(self.episodes) + sum(map(_column_bytes, columns)) + 1000 * len(self.episodes)
            size += sum(episode.rewards.nbytes for episode in self.episodes if episode.rewards is not None)
            size += tape_bytes(self.episodes) + sum(map(len, self.recipes.values()))
            self._set(_nbytes=size)
        return size

    @override
    def content(self) -> bytes:
        return json_bytes([episode.as_dict() for episode in self.episodes])

    @override
    def facts(self) -> dict[str, Any]:
        return {"format": "json", "episodes": len(self.episodes)}

    def counted(self) -> list[EpisodeData]:
        """Return the episodes that count in this round: all but the late ones."""
        return [episode for episode in self.episodes if not episode.is_late]

    def metrics(self) -> dict[str, float]:
        """Return ``<metric>_mean``, ``_min`` and ``_max`` over the counted episodes, no NaN, and the success rate."""
        records = [episode.record for episode in self.counted()]
        return summarized(record.metrics for record in records) | success_rate(record.success for record in records)

    def histograms(self) -> Mapping[str, Histogram]:
        """Return, by name, histograms of the series, returns, lengths and final numbers, made at the first call."""
        with _making_histograms:
            made: dict[str, Histogram] | None = self.__dict__.get("_histograms")
            if made is None:
                made = histograms_of(self.counted())
                self._set(_histograms=made)
            return made

    def texts(self) -> dict[str, list[tuple[EpisodeRecord, str]]]:
        """Return, by name, the episodes' values that are text."""
        by_name: dict[str, list[tuple[EpisodeRecord, str]]] = {}
        for episode in self.counted():
            for name, value in episode.values.items():
                if isinstance(value, str):
                    by_name.setdefault(name, []).append((episode.record, value))
        return by_name

    def __repr__(self) -> str:
        return f"EpisodeBatch({len(self.episodes)} episodes)"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_histograms"}


def with_progress(
    episodes: Iterable[EpisodeData], training_iteration: int | None, env_steps: int | None
) -> list[EpisodeData]:
    """Return the episodes in the order in which they ended, marked with the progress of training.

    >>> (episode,) = with_progress([EpisodeData(EpisodeRecord("e", 1.0, 5))], training_iteration=3, env_steps=1200)
    >>> episode.record.training_iteration, episode.record.env_steps
    (3, 1200)
    """
    ordered = sorted(episodes, key=lambda episode: (episode.record.finished_at, episode.record.id))
    return [
        replace(e, record=replace(e.record, training_iteration=training_iteration, env_steps=env_steps))
        for e in ordered
    ]


def summarized(metrics: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return ``<metric>_mean``, ``_min`` and ``_max`` over episodes, named as on RLlib's old API stack.

    >>> summarized([{"speed": 1.0}, {"speed": 4.0}, {"speed": float("nan")}])
    {'speed_mean': 2.5, 'speed_min': 1.0, 'speed_max': 4.0}
    """
    values: dict[str, list[float]] = {}
    for of_episode in metrics:
        for name, value in of_episode.items():
            if not math.isnan(value):
                values.setdefault(name, []).append(value)
    return {
        f"{name}_{kind}": float(reduce(numbers))
        for name, numbers in values.items()
        for kind, reduce in (("mean", np.mean), ("min", np.min), ("max", np.max))
    }


def success_rate(successes: Iterable[bool | None], count: float | None = None) -> dict[str, float]:
    """Return the share of episodes that succeeded and the ends of Wilson's 95 % interval; nothing if none is known.

    ``count`` is how many episodes would tell as much, if some are copies of others; 0: there is no interval.
    """
    outcomes = [success for success in successes if success is not None]
    if not outcomes:
        return {}
    rate, count = sum(outcomes) / len(outcomes), len(outcomes) if count is None else count
    low, high = wilson(rate * count, count)
    return {SUCCESS_RATE: rate, f"{SUCCESS_RATE}_low": low, f"{SUCCESS_RATE}_high": high}


def thinned(episodes: Sequence[EpisodeData], most: int = MAX_ROUND_POINTS) -> list[EpisodeData]:
    """Return the episodes with at most ``most`` values in all their series together.

    Every second value is dropped as often as needed, first from the series that have been thinned least. If single
    values are all that is left, the oldest episodes lose their final values.
    """
    held = list(episodes)
    while _points(held) > most:
        strides = [s.stride for episode in held for s in episode.series.values() if len(s) > 1]
        if not strides:
            return _with_fewer_values(held, most)
        least = min(strides)
        held = [
            replace(
                episode,
                series={name: s.halved() if s.stride == least else s for name, s in episode.series.items()},
            )
            for episode in held
        ]
    return held


def tape_bytes(episodes: Iterable[EpisodeData]) -> int:
    """Return the bytes that the tapes of episodes take."""
    return sum(len(episode.tape) for episode in episodes if episode.tape)


def with_fewer_tapes(
    episodes: Sequence[EpisodeData], chosen: Collection[str] = (), most: int = MAX_TAPE_BYTES
) -> list[EpisodeData]:
    """Return the episodes with the tapes of the chosen ones, and of the newest others that fit ``most`` bytes.

    The episodes are in the order in which they ended. The tape of each of the others is ``LEFT_OUT``, as its note says.

    >>> records = [EpisodeRecord(f"e{number}", 1.0, 3, id=str(number)) for number in range(3)]
    >>> episodes = [EpisodeData(record, tape=b"1234") for record in records]
    >>> [episode.tape for episode in with_fewer_tapes(episodes, chosen={"0"}, most=8)]
    [b'1234', b'', b'1234']
    """
    if tape_bytes(episodes) <= most:
        return list(episodes)
    left = most - tape_bytes(episode for episode in episodes if episode.record.id in chosen)
    kept = []
    for episode in reversed(episodes):
        if episode.tape and episode.record.id not in chosen:
            left -= len(episode.tape)
            if left < 0:
                episode = episode.without_tape()
        kept.append(episode)
    return kept[::-1]


def points_of(episode: EpisodeData) -> int:
    """Return the size of an episode's series and values, in points of eight bytes.

    >>> points_of(EpisodeData(EpisodeRecord("e", 1.0, 3), {"x": Series(np.zeros(3), 1, 3)}))
    3
    """
    series = sum(
        len(series) if series.is_numeric else sum(map(weight_of, series.values)) for series in episode.series.values()
    )
    return series + sum(map(weight_of, episode.values.values()))


def weight_of(value: Any) -> int:
    """Return about how many points of eight bytes a JSON value takes.

    >>> weight_of(1.0), weight_of("x" * 80), weight_of([0.0] * 100)
    (1, 18, 108)
    """
    if isinstance(value, str):
        return _OBJECT_POINTS + len(value) // 8
    if isinstance(value, Mapping):
        return _OBJECT_POINTS + sum(map(weight_of, value.values()))
    if isinstance(value, list):
        if value and isinstance(value[0], (int, float)):
            return _OBJECT_POINTS + len(value)
        return _OBJECT_POINTS + sum(map(weight_of, value))
    return 1


def histograms_of(episodes: Iterable[EpisodeData]) -> dict[str, Histogram]:
    """Return, by name, the histogram of all values of the episodes."""
    parts: dict[str, list[tuple[npt.ArrayLike, int]]] = {}
    for episode in episodes:
        for name, values, count in _numbers(episode):
            parts.setdefault(name, []).append((values, count))
    return {name: _histogram(values_and_counts) for name, values_and_counts in parts.items()}


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


def _points(episodes: Iterable[EpisodeData]) -> int:
    return sum(map(points_of, episodes))


def _column_bytes(column: Sequence[Any]) -> int:
    """Return about how much memory a column of a trajectory holds."""
    if isinstance(column, np.ndarray):
        return column.nbytes
    return sum(int(getattr(value, "nbytes", 0)) or 8 * weight_of(value) for value in column)


def _with_fewer_values(episodes: Sequence[EpisodeData], most: int) -> list[EpisodeData]:
    """Drop the final values of the oldest episodes until the rest is small enough."""
    held = list(episodes)
    total = _points(held)
    for index, episode in enumerate(held):
        if total <= most:
            break
        held[index] = episode.without_values()
        total -= points_of(episode) - points_of(held[index])
    return held
