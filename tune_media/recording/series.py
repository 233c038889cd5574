"""Collects the named values of an episode's steps, in bounded memory."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tune_media.steps import FINAL, SERIES, Named, Rule
from tune_media.values.artifact import Artifact
from tune_media.values.convert import as_numbers, converted, is_picture
from tune_media.values.episodes import STATISTICS, Series, weight_of
from tune_media.values.image import Image
from tune_media.values.medium import Medium
from tune_media.values.strict_json import as_plain

MAX_POINTS = 10_000  # of one series of one episode; a longer series keeps every second value, then every fourth
MAX_NAMES = 200  # the most names of values that one episode has
MAX_ELEMENTS = 64  # of a vector whose elements become separate values (``<name>/0``, ...); a longer one is kept whole
_MAX_REFUSED = 10_000
_MAX_EXACT = 2**53  # the largest integer up to which every integer is a float, too
_RAW_CLIP_AXES, _RAW_FRAMES_AXES = 5, 4


class EpisodeValues:
    """The named values of one episode, while it runs."""

    def __init__(self) -> None:
        self._points: dict[str, _Points] = {}
        self._statistics: dict[str, tuple[_Total, Rule]] = {}
        self._finals: dict[str, Any] = {}
        self._media: dict[str, Any] = {}  # pictures and files: the last of each name
        self._refused: set[str] = set()  # names beyond MAX_NAMES, for which a step should cost no time

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been added."""
        return not (self._points or self._finals or self._media)

    def add(self, named: Named) -> None:
        """Add a value; TypeError if it cannot be stored, ValueError (once) for too many names, or a statistic's name.

        A uint8 table with two axes is a picture, unless it is one of a series. A number has statistics, a vector has
        them for each element. Of everything else, and of integers too large for a float, the exact values are kept.
        """
        name, rule = named.name, named.rule
        if name in self._refused:
            return
        if not name.isascii():
            name = name.encode("utf-8", "replace").decode()
        value = named.value if type(named.value) in (float, int) else converted(named.value)
        if isinstance(value, (Image, Artifact)):
            self._hold(self._media, name, value)
        elif is_picture(value) and not (rule.kind == SERIES and value.ndim == 2):
            self._hold(self._media, name, value.copy())  # envs draw into the same buffer again
        else:
            self._add_value(name, value, rule)

    def _add_value(self, name: str, value: Any, rule: Rule) -> None:
        if rule.kind == SERIES and self._skips(name, value):
            return
        numbers = as_numbers(value)
        if numbers is None or numbers.size > MAX_ELEMENTS or not numbers.size:
            self._add_object(name, value, rule)
        elif numbers.size == 1 and (numbers.ndim == 0 or not (isinstance(value, (list, tuple)) or rule.kind == SERIES)):
            self._add_number(name, numbers.item(), rule)  # a list of one is no number, nor an array of one in a series
        elif rule.kind == SERIES:
            self._add_object(name, value, rule)
        else:
            for index, element in enumerate(numbers.ravel().tolist()):
                self._add_number(f"{name}/{index}", element, rule)

    def add_whole(self, name: str, value: Any) -> None:
        """Add a final value; clips and raw arrays of frames are skipped, as media. Raises TypeError or ValueError."""
        value = converted(value)
        if isinstance(value, Medium) or _is_raw_clip(value):
            return
        plain = as_plain(value, name)
        self._hold(self._finals, name, _as_number(plain) if isinstance(plain, (bool, int, float)) else plain)

    def metrics(self) -> dict[str, float]:
        """Return the statistics of running values, and final numbers (``<name>_final`` if a statistic has the name)."""
        metrics: dict[str, float] = {}
        for name, (total, rule) in self._statistics.items():
            metrics |= {f"{name}_{statistic}": total.all()[statistic] for statistic in rule.statistics}
        for name, value in self._finals.items():
            if isinstance(value, (int, float)):
                metrics[f"{name}_final" if name in metrics else name] = float(value)
        return metrics

    def series(self) -> dict[str, Series]:
        """Return the series by name."""
        return {name: points.series() for name, points in self._points.items()}

    def values(self) -> dict[str, Any]:
        """Return the final values that are not numbers, and the integers that are too large for a float."""
        return {name: value for name, value in self._finals.items() if not isinstance(value, float)}

    def media(self) -> dict[str, Image | Artifact]:
        """Return the pictures and files, the last of each name."""
        return {name: Image(value) if is_picture(value) else value for name, value in self._media.items()}

    def _add_number(self, name: str, value: float, rule: Rule) -> None:
        number = _as_number(value)
        if rule.kind == FINAL:
            self._hold(self._finals, name, number)
            self._refuse_clash(name, *name.rpartition("_")[::2])
            return
        is_new = name not in self._points
        if is_new:
            if not self._hold(self._points, name, _Points(array("d"))):
                return
            if rule.kind != SERIES:
                self._statistics[name] = (_Total(), rule)
        self._points[name].add(number)
        if name in self._statistics:
            self._statistics[name][0].add(float(number))
        if is_new:
            for statistic in rule.statistics:
                self._refuse_clash(f"{name}_{statistic}", name, statistic)

    def _refuse_clash(self, final: str, running: str, statistic: str) -> None:
        """Raise if a final value has the name of a statistic of a running value."""
        has_statistic = running in self._statistics and statistic in self._statistics[running][1].statistics
        if final in self._finals and has_statistic:
            raise ValueError(
                f"the final value {final!r} has the name of a statistic of the running value {running!r}; it is stored "
                f"as '{final}_final'"
            )

    def _add_object(self, name: str, value: Any, rule: Rule) -> None:
        if rule.kind != FINAL and self._skips(name, value):
            return
        plain = as_plain(value, name)
        if rule.kind == FINAL:
            self._hold(self._finals, name, plain)
            return
        if name not in self._points and not self._hold(self._points, name, _Points([])):
            return
        self._points[name].add(plain)
        if isinstance(plain, str):
            self._finals[name] = plain

    def _skips(self, name: str, value: Any) -> bool:
        """Count a value whose turn it is not in its series, and say so; turning it into plain data takes long."""
        points = self._points.get(name)
        if points is None or points.takes_next or isinstance(value, str):  # the last text is a final value, too
            return False
        points.count += 1
        return True

    def _hold(self, where: dict[str, Any], name: str, value: Any) -> bool:
        """Hold a value; return whether there was room for its name."""
        names = () if name in where else {*self._points, *self._finals, *self._media}
        if name not in names and len(names) >= MAX_NAMES:
            is_first = not self._refused
            if len(self._refused) < _MAX_REFUSED:
                self._refused.add(name)
            if is_first:
                raise ValueError(f"an episode has more than {MAX_NAMES} names of values; those after them are left out")
            return False
        where[name] = value
        return True


def merged_metrics(metrics: Mapping[str, float], series: Iterable[str], more: Mapping[str, float]) -> dict[str, float]:
    """Return metrics with hooks' numbers; another number under a statistic's name becomes ``<name>_final``."""
    statistics = {f"{name}_{statistic}" for name in series for statistic in STATISTICS} & metrics.keys()
    merged = dict(metrics)
    for name, value in more.items():
        if name not in statistics:
            merged[name] = value
        elif not math.isclose(value, metrics[name], rel_tol=1e-6, abs_tol=1e-12):
            merged[f"{name}_final"] = value
    return merged


def _is_raw_clip(value: Any) -> bool:
    """Return whether a value is an array of frames, which becomes a clip where the result is read."""
    if not isinstance(value, np.ndarray):
        return False
    is_frames = value.ndim == _RAW_FRAMES_AXES and value.dtype == np.uint8 and value.shape[-1] in (1, 3, 4)
    return is_frames or value.ndim == _RAW_CLIP_AXES


def _as_number(value: float) -> float:
    """Return a number as a float, unless it is an integer that no float equals."""
    return int(value) if isinstance(value, int) and abs(value) > _MAX_EXACT else float(value)


@dataclass
class _Points:
    """A growing series: when it becomes too long, it drops every second value."""

    held: array[float] | list[Any]
    stride: int = 1
    count: int = 0
    _weight: int = 0

    @property
    def takes_next(self) -> bool:
        """Whether the next value is kept."""
        return self.count % self.stride == 0

    def add(self, value: Any) -> None:
        if not isinstance(value, float) and not isinstance(self.held, list):  # it had only numbers so far
            self.held = list(self.held)
        if self.takes_next:
            self.held.append(value)
            self._weight += 1 if isinstance(value, float) else weight_of(value)
            if self._weight > MAX_POINTS and len(self.held) > 1:
                self.held = self.held[::2]
                self.stride *= 2
                self._weight = len(self.held) if isinstance(self.held, array) else sum(map(weight_of, self.held))
        self.count += 1

    def series(self) -> Series:
        held = np.frombuffer(self.held, np.float64).copy() if isinstance(self.held, array) else list(self.held)
        return Series(held, self.stride, self.count)


@dataclass
class _Total:
    """The statistics of a running value so far."""

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
