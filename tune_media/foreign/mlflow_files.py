"""Reads the runs of MLflow's file store: ``mlruns/<experiment>/<run>`` with ``params``, ``metrics`` and ``tags``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tune_media.foreign.curve_cache import Series, cached
from tune_media.foreign.return_tags import curves_of
from tune_media.foreign.run_files import RunFiles, whole_lines
from tune_media.foreign.settings import env_id_of, literal, without_own
from tune_media.foreign.told import Curve, Told, unread
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.clip_columns import Columns
from tune_media.values.secrets import error_text

_META, _PARAMS, _METRICS = "meta.yaml", "params/", "metrics/"
_VALUES = "values"
MLFLOW = (_META, f"{_PARAMS}*", f"{_METRICS}*")


def read_mlflow(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Read a run's params, which are a text a file, and its metrics."""
    if _META not in paths:
        return Told()
    config: dict[str, Any] = {}
    not_understood = []
    for path in (path for path in paths if path.startswith(_PARAMS)):
        try:
            config[path.removeprefix(_PARAMS)] = literal(files.read(path).decode())
        except (OSError, ValueError) as error:
            not_understood.append(unread(path, error))
    metrics = [path for path in paths if path.startswith(_METRICS)]
    return Told(
        config=without_own(config, files.run_folder),
        env_id=env_id_of(config),
        curves=functools.partial(_curves, files, metrics, columns or {}) if metrics else None,
        not_understood=not_understood,
    )


def _curves(files: RunFiles, paths: Sequence[str], columns: Columns) -> list[Curve]:
    series = {}
    for path in paths:
        name = path.removeprefix(_METRICS)
        try:
            series["", name] = cached(files, path, functools.partial(_read_metric, files, path))[_VALUES]
        except (OSError, ValueError) as error:
            warn_passed_over(files.full(path), error_text(error))
    return curves_of(series, columns)


def _read_metric(files: RunFiles, path: str) -> dict[str, Series]:
    """Return the numbers of a file, whose lines are a time in milliseconds, a value and a step."""
    rows = [line.split()[:3] for line in whole_lines(files.read(path)).splitlines()]
    times, values, steps = np.array([row for row in rows if len(row) == 3], float).reshape(-1, 3).T
    return {_VALUES: Series(steps, values, times / 1000)}
