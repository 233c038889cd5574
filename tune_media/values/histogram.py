"""A histogram of any number of values."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from tune_media.values.checks import as_shown, between
from tune_media.values.medium import Medium, new_id
from tune_media.values.strict_json import json_bytes

_MAX_BINS = 100_000


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Histogram(Medium):
    """How many values fall into each bin.

    NaN and infinity are counted separately. No values at all, or only equal values, are fine.

    >>> histogram = Histogram([1.0, 2.0, 2.0, float("nan")], bins=2)
    >>> histogram.counts, histogram.count, histogram.nonfinite
    ((1.0, 2.0), 3, 1)

    Args:
        values: Numbers, any shape.
        bins: Number of bins, or their edges in rising order.
        weights: How many values each number stands for. None: one.

    Attributes:
        edges: Edges of the bins, rising, one more than there are bins.
        counts: Number of values in each bin.
        count: Number of finite values.
        nonfinite: Number of NaN and infinite values.
        minimum: Smallest finite value, or NaN if there is none.
        maximum: Largest finite value, or NaN if there is none.
        total: Sum of the finite values.
        squares: Sum of their squares.

    Raises:
        TypeError: Values or weights that are no numbers, or ``bins`` of the wrong type.
        ValueError: No bins, falling edges, another number of weights than of values, or weights below 0 or NaN.
    """

    kind: ClassVar[str] = "histogram"
    suffix = ".json"

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    count: int
    nonfinite: int
    minimum: float
    maximum: float
    total: float
    squares: float
    id: str

    def __init__(
        self, values: npt.ArrayLike, bins: int | Sequence[float] = 64, weights: npt.ArrayLike | None = None
    ) -> None:
        array = _numbers("Histogram takes numbers", values)
        each = np.ones(array.size) if weights is None else _numbers("Histogram(weights=...) takes numbers", weights)
        if each.size != array.size:
            raise ValueError(f"Histogram(weights=...) takes one weight a value: {array.size}, got {each.size}.")
        if weights is not None:
            _check_heights("weights=...", each)
        _check_bins(bins)
        is_finite = np.isfinite(array)
        finite, each_finite = array[is_finite], each[is_finite]
        counts, edges = _count(finite, bins, each_finite)
        self._set(
            edges=tuple(edges.tolist()),
            counts=tuple(counts.tolist()),
            count=round(each_finite.sum()),
            nonfinite=round(each.sum() - each_finite.sum()),
            minimum=float(finite.min()) if finite.size else math.nan,
            maximum=float(finite.max()) if finite.size else math.nan,
            total=_clipped((finite * each_finite).sum()),
            squares=_clipped((np.square(np.clip(finite, -1e153, 1e153)) * each_finite).sum()),
            id=new_id(),
        )

    @classmethod
    def from_counts(cls, edges: Sequence[float], counts: Sequence[float]) -> Histogram:
        """Make a histogram of values that were counted elsewhere.

        >>> Histogram.from_counts([0, 1, 2], [5, 3])
        Histogram(8 values in 2 bins)

        Args:
            edges: Edges of the bins, rising.
            counts: Number of values in each bin, one fewer than there are edges.

        Raises:
            ValueError: The lengths do not fit together, the edges do not rise, or counts are below 0 or NaN.
            TypeError: Something other than two lists of numbers.
        """
        if np.ndim(edges) != 1 or np.ndim(counts) != 1:
            raise TypeError(
                "Histogram.from_counts takes a list of edges and one of counts, got "
                f"{as_shown(edges)} and {as_shown(counts)}."
            )
        borders = _numbers("Histogram.from_counts takes numbers as edges", edges)
        weights = _numbers("Histogram.from_counts takes numbers as counts", counts)
        if borders.size != weights.size + 1 or not np.all(np.diff(borders) > 0):
            raise ValueError(
                f"Histogram.from_counts needs rising edges, one more than counts; got {len(edges)} edges and "
                f"{len(counts)} counts."
            )
        _check_heights("counts", weights)
        middles = (borders[:-1] + borders[1:]) / 2
        filled = np.flatnonzero(weights)
        histogram = cls.__new__(cls)
        histogram._set(
            edges=tuple(borders.tolist()),
            counts=tuple(weights.tolist()),
            count=int(weights.sum()),
            nonfinite=0,
            minimum=float(borders[filled[0]]) if filled.size else math.nan,
            maximum=float(borders[filled[-1] + 1]) if filled.size else math.nan,
            total=float((middles * weights).sum()),
            squares=float((middles**2 * weights).sum()),
            id=new_id(),
        )
        return histogram

    @override
    def content(self) -> bytes:
        names = [f.name for f in fields(self) if f.name not in ("id", "note")]
        return json_bytes({name: getattr(self, name) for name in names})

    @override
    def facts(self) -> dict[str, Any]:
        return {"format": "json", "count": self.count}

    def quantile(self, share: float) -> float:
        """Return the value below which this share (0 to 1) of the values lies, estimated from the bins.

        Returns NaN if there are no values.

        >>> Histogram([1.0, 2.0, 3.0], bins=2).quantile(0.5)
        2.25
        """
        between(0, 1).check("quantile(share)", share)
        if not self.count:
            return math.nan
        heights = np.concatenate([[0.0], np.cumsum(self.counts)])
        estimate = float(np.interp(share * heights[-1], heights, self.edges))
        return min(max(estimate, self.minimum), self.maximum)

    def __repr__(self) -> str:
        return f"Histogram({self.count} values in {len(self.counts)} bins)"


def _numbers(expected: str, values: Any) -> npt.NDArray[np.float64]:
    try:
        if values is None:
            raise TypeError
        return np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise TypeError(f"{expected}, any shape with rows of equal length; got {as_shown(values)}.") from None


def _check_heights(kind: str, heights: npt.NDArray[np.float64]) -> None:
    if not np.all(np.isfinite(heights) & (heights >= 0)):
        raise ValueError(f"A Histogram takes finite {kind} from 0, got {as_shown(heights)}.")


def _check_bins(bins: Any) -> None:
    message = f"Histogram(bins=...) takes a number of bins, or two or more rising edges; got {as_shown(bins)}."
    if isinstance(bins, numbers.Integral) and int(bins) > _MAX_BINS:
        raise ValueError(f"Histogram(bins=...) takes at most {_MAX_BINS:,} bins, got {bins}.")
    if isinstance(bins, str) or (np.ndim(bins) == 0 and not isinstance(bins, numbers.Integral)):
        raise TypeError(message)
    if (np.ndim(bins) == 0 and bins < 1) or (np.ndim(bins) and (len(bins) < 2 or not np.all(np.diff(bins) >= 0))):
        raise ValueError(message)


def _count(
    values: npt.NDArray[np.float64], bins: int | Sequence[float], weights: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Count finite values in bins; return the counts and the edges."""
    if np.ndim(bins):
        return np.histogram(values, bins=bins, weights=weights)
    if not values.size:
        return np.zeros(1), np.array([0.0, 1.0])
    low, high = float(values.min()), float(values.max())
    try:
        with np.errstate(over="raise"):
            return np.histogram(values, bins=bins, weights=weights)
    except (ValueError, FloatingPointError):  # too close together for that many bins, or the range overflows
        return np.array([weights.sum()]), np.array([low, max(high, float(np.nextafter(low, np.inf)))])


def _clipped(value: Any) -> float:
    """Return a sum as a float, or the largest finite float if the sum overflowed."""
    return float(np.clip(value, -np.finfo(np.float64).max, np.finfo(np.float64).max))
