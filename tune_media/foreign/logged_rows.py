"""Rows of numbers as W&B and Trackio log them, each with its step: their curves by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tune_media.foreign.curve_cache import Series
from tune_media.foreign.return_tags import curves_of
from tune_media.foreign.told import STEPS, Curve
from tune_media.values.clip_columns import Columns

STEP, TIME = "_step", "_timestamp"
_AXES = ("global_step", STEP)
"""The first is TensorBoard's, if the tool copied the numbers from there; the second counts rows if nobody gave it."""
_NO_NUMBERS = frozenset((*_AXES, "_runtime", TIME))


def series_of_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, Series]:
    """Return the numbers by ``<axis>:<name>``, over the first axis that all rows with that name have."""
    columns: dict[str, list[tuple[float, ...]]] = {}
    for row in map(dict, map(_flat, rows)):
        steps = [float(row.get(name, math.nan)) for name in (*_AXES, TIME)]
        for name, value in row.items():
            if name not in _NO_NUMBERS and not name.startswith("_wandb/"):
                columns.setdefault(name, []).append((*steps, value))
    series = {}
    for name, numbers in columns.items():
        first, second, times, values = np.array(numbers, float).T
        axis, steps = (_AXES[0], first) if np.isfinite(first).all() else (_AXES[1], second)
        series[f"{axis}:{name}"] = Series(steps, values, times)
    return series


def curves_of_rows(series: Mapping[str, Series], columns: Columns) -> list[Curve]:
    """Return curves of what ``series_of_rows`` returned; the steps of a tool itself have no other unit."""
    curves: list[Curve] = []
    for axis in _AXES:
        own = {("", name.removeprefix(f"{axis}:")): one for name, one in series.items() if name.startswith(f"{axis}:")}
        found = curves_of(own, columns)
        curves += found if axis == _AXES[0] else [dataclasses.replace(curve, unit=STEPS) for curve in found]
    return curves


def _flat(row: Mapping[str, Any], outer: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the numbers of a row, without those of its media."""
    media = tuple(name.removesuffix("_type") for name in row if name.endswith("/_type"))
    for name, value in row.items():
        if type(value) in (int, float) and not name.startswith(media):
            yield f"{outer}{name}", value
        elif isinstance(value, Mapping) and "_type" not in value:
            yield from _flat(value, f"{outer}{name}/")
