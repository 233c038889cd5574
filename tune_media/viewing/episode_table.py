"""All recorded episodes of an experiment as one table: filtered, sorted, counted and paged without sending it whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tune_media.experiment.params import UNKNOWN, UNSET, in_quotes
from tune_media.values import checks, strict_json
from tune_media.values.number import as_number
from tune_media.values.safe_names import shown_names
from tune_media.viewing.conditions import Mask, Numbers, Rows, Texts, mask
from tune_media.viewing.configurations import without_kind

SHORT = {"return": "episode_return", "length": "episode_length", "iteration": "training_iteration"}
_CONFIG = "config/"
_BINS = 30
_ROUNDING = 1e-9  # of the largest number
_OUTLIER = 3.5  # of a robust z score, as Iglewicz and Hoaglin have it


@dataclass
class EpisodeTable:
    """Episodes as columns: facts, hyperparameters that differ (``config/<name>``), and metrics (``metrics/<name>``).

    Attributes:
        columns: The values of each column; missing numbers are NaN.
        clips: The path of a clip by the row of its episode, for those that have one.
        params: The hyperparameters of each trial, in the order of the texts of the column ``trial``.
        configs: The names of those that have a column.
        counting: The rows that count, not left behind; None if all do.
        read: The share of the trials whose episodes are in the table.
        tapes: The number of the report that has the tape of each episode, -1 without a tape; None if none has one.

    >>> table = EpisodeTable({"episode_return": np.array([3.0, 1.0, 2.0])})
    >>> table.rows("return > 1", "return")["rows"]
    [[2], [3]]
    """

    columns: Mapping[str, Numbers | Texts]
    clips: Mapping[int, str] = field(default_factory=dict)
    params: Sequence[Mapping[str, Any]] = ()
    configs: Sequence[str] = ()
    counting: Mask | None = None
    read: float = 1.0
    tapes: npt.NDArray[np.int32] | None = None
    reports: Sequence[str] = ()

    def __post_init__(self) -> None:
        configs = [f"{_CONFIG}{name}" for name in self.configs]
        facts = [name for name in self.columns if not name.startswith("metrics/") and name != "episode_id"]
        others = [name for name in self.columns if name not in facts and name != "episode_id"]
        self.names = [*facts, *configs, *others, *(["episode_id"] if "episode_id" in self.columns else [])]
        """The names of all columns."""
        self._count = len(next(iter(self.columns.values()), ()))
        self._total = self._count if self.counting is None else int(self.counting.sum())

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[Any, Any]]) -> EpisodeTable:
        """Return the table of episodes that are given as rows, whose metrics are a dict or columns of their own.

        Only what is a number or a text is in the table, and only columns in which a row has a value.

        >>> EpisodeTable.of_rows([{"episode_return": 1.0, "metrics": {"distance": 2}, "task": None}]).names
        ['episode_return', 'metrics/distance']
        """
        columns: dict[str, Numbers | Texts] = {}
        for prefix, parts in (("", rows), ("metrics/", [row.get("metrics", {}) for row in rows])):
            for name in dict.fromkeys(name for part in parts for name in part):
                values = [_scalar(part.get(name)) for part in parts]
                kinds = {type(value) for value in values if value is not None}
                if kinds:
                    names = [None if value is None else str(value) for value in values]
                    columns[prefix + name] = _texts(names, values) if str in kinds else np.array(values, float)
        if isinstance(trial := columns.get("trial"), Texts):
            columns["trial"] = trial_names(trial.indices, trial.texts.to_pylist())
        return cls(columns)

    def __len__(self) -> int:
        return self._count

    def found(self, where: str = "") -> Rows:
        """Return the rows that count and that a filter lets through."""
        if not where.strip() and self.counting is None:
            return np.arange(len(self))
        passing = mask(where, self)
        return np.flatnonzero(passing if self.counting is None else passing & self.counting)

    def rows(
        self, where: str = "", sort: str = "", *, descending: bool = False, offset: int = 0, limit: int = 100
    ) -> dict[str, Any]:
        """Return a page of the episodes that a filter of ``viewing.conditions`` lets through; missing values come last.

        It is ``count``, ``total``, ``read`` (the share of the trials that are in the table yet), ``columns``, ``rows``
        (lists), and ``places`` (for each row its trial, its clip, and the report that has its tape).
        """
        found = self.found(where)
        last = offset + limit
        page = found[_first(self._keys(self.resolve(sort), found, descending), last)] if sort else found[:last]
        return {"count": len(found), **self._page(page[offset:])}

    def histogram(self, name: str, where: str = "") -> dict[str, Any]:
        """Return ``edges``, ``counts`` and ``outliers`` (one for each bin) of a column; a column of texts has none."""
        full = self.resolve(name)
        known = self.numbers(name)[self.found(where)]
        known = known[np.isfinite(known)]
        if not len(known):
            return {"name": full, "edges": [], "counts": [], "outliers": []}
        counts, edges = np.histogram(known, _BINS)
        outliers = known[np.abs(robust_z(known)) > _OUTLIER]
        return {
            "name": full,
            "edges": edges.tolist(),
            "counts": counts.tolist(),
            "outliers": np.histogram(outliers, edges)[0].tolist(),
        }

    def resolve(self, name: str) -> str:
        """Return the full name of a column."""
        wanted = SHORT.get(name, name)
        if wanted in self.names:
            return wanted
        for full in self.names:
            if full.partition("/")[2] == wanted or full.rpartition("/")[2] == wanted:
                return full
        shorter = [short for short, full in SHORT.items() if full in self.names]
        known = [*shorter, *(full.removeprefix("metrics/").removeprefix("values/") for full in self.names)]
        raise ValueError(f"there is no column {name!r}; " + checks.did_you_mean(name, known))

    def column(self, name: str) -> Numbers | Texts:
        """Return a column."""
        full = self.resolve(name)
        return self.columns[full] if full in self.columns else _at(self._of_trials(full), self._trial.indices)

    def numbers(self, name: str) -> Numbers:
        """Return a column of numbers; a text is a missing one."""
        values = self.column(name)
        if not isinstance(values, Texts):
            return values
        return np.full(len(self), np.nan) if values.numbers is None else values.numbers

    def texts(self) -> list[Texts]:
        """Return the columns of texts."""
        return [values for values in map(self.column, self.names) if isinstance(values, Texts)]

    def _keys(self, name: str, found: Rows, descending: bool) -> Numbers:
        """Return numbers by which some rows are sorted; missing values come last."""
        values = self.column(name)
        if isinstance(values, Texts) and (values.numbers is None or not values.is_setting):
            keys = values.ranks(found)
        else:
            keys = self.numbers(name)[found]
        return np.where(np.isnan(keys), np.inf, -keys if descending else keys)

    @property
    def _trial(self) -> Texts:
        trial = self.columns["trial"]
        assert isinstance(trial, Texts)
        return trial

    def _of_trials(self, name: str) -> Numbers | Texts:
        """Return a hyperparameter of each trial."""
        setting = name.removeprefix(_CONFIG)
        return _settings([strict_json.read_apart(params.get(setting, UNSET)) for params in self.params])

    def values_of(self, name: str, found: Rows) -> list[Any]:
        """Return the values of some rows as JSON has them."""
        values, plain = self.columns.get(name), strict_json.finite
        if values is None:
            plain = strict_json.told_apart
            values = _at(self._of_trials(name), self._trial.indices[found])
            found = np.arange(len(found))
        if isinstance(values, Texts):
            return values.take(found)
        return [_json(plain(value)) for value in values[found].tolist()]

    def _page(self, found: Rows) -> dict[str, Any]:
        columns = [self.values_of(name, found) for name in self.names]
        trials = self.values_of("trial", found) if "trial" in self.columns else [None] * len(found)
        tapes = [-1] * len(found) if self.tapes is None else self.tapes[found].tolist()
        return {
            "total": self._total,
            "read": self.read,
            "columns": self.names,
            "rows": [list(row) for row in zip(*columns, strict=True)],
            "places": [
                [trial, self.clips.get(row), None if tape < 0 else self.reports[tape]]
                for trial, row, tape in zip(trials, found.tolist(), tapes, strict=True)
            ],
        }


def trial_names(trials: npt.NDArray[np.int32], names: Sequence[str]) -> Texts:
    """Return the column of the trials (their numbers), which may be called by the names that the page shows, too.

    >>> column = trial_names(np.array([0, 1], np.int32), ["PPO_a1b2c_00000_0_lr=0.1_2026-11-26", "other"])
    >>> [column.equal(name).tolist() for name in ("a1b2c_00000", "PPO_a1b2c_00000", "other")]
    [[True, False], [True, False], [False, True]]
    """
    shown = [pa.array(column, pa.string()) for column in zip(*map(shown_names, names), strict=True)]
    return Texts(trials, pa.array(names, pa.string()), shown=shown)


def robust_z(values: Numbers) -> Numbers:
    """Return the distance of each value from the median, in units of the median distance (1 for a normal sigma).

    If more than half of the values are equal, the unit is the mean distance; if all are, the distances are 0.
    """
    median, distance = _middle(values)
    if math.isnan(median):
        return np.zeros(len(values))
    unit = distance / 0.6745 or np.mean(np.abs(values[np.isfinite(values)] - median)) * 1.253314
    return np.nan_to_num((values - median) / unit, nan=0.0) if unit else np.zeros(len(values))


def _middle(values: Numbers) -> tuple[float, float]:
    """Return the median of the finite values, and their median distance from it, 0 if that is rounding; else NaN.

    >>> _middle(np.array([1.0, 2.0, 3.0, np.nan])), _middle(np.array([0.1 + 0.2, 0.3, 0.3 + 1e-16, 0.3 - 1e-16]))[1]
    ((2.0, 1.0), 0.0)
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return math.nan, 0.0
    median = float(np.median(known))
    distance = float(np.median(np.abs(known - median)))
    return median, distance if distance > _ROUNDING * max(-known.min(), known.max()) else 0.0


def _first(keys: Numbers, count: int) -> Rows:
    """Return the places of the smallest keys in their order, without sorting all of them."""
    if count < len(keys):
        candidates = np.flatnonzero(keys <= np.partition(keys, count)[count])
        return candidates[np.argsort(keys[candidates], kind="stable")][:count]
    return np.argsort(keys, kind="stable")


def _scalar(value: Any) -> float | str | None:
    """Return a number or a text of a row; None if it is missing, or something else."""
    if value is None or isinstance(value, str):
        return value
    number = as_number(value)
    return None if math.isnan(number) else number


def _at(values: Numbers | Texts, rows: npt.NDArray[Any]) -> Numbers | Texts:
    """Return the values of some rows as a column."""
    return replace(values, indices=values.indices[rows]) if isinstance(values, Texts) else values[rows]


def _texts(names: Sequence[str | None], values: Sequence[Any]) -> Texts:
    """Return texts as a column, with the numbers that some of the values are."""
    texts = Texts.of(names)
    shown = pa.array([without_kind(text) for text in texts.texts.to_pylist()], pa.string())
    numbers = {str(value): float(value) for value in values if checks.is_number(value)}
    of_texts = np.array([numbers.get(text, math.nan) for text in texts.texts.to_pylist()])
    return replace(texts, of_texts=of_texts if numbers else None, shown=[shown])


def _settings(values: Sequence[Any]) -> Numbers | Texts:
    """Return hyperparameters as numbers if all are, else as texts that stand for one value each."""
    if all(checks.is_number(value) and not math.isnan(value) for value in values):
        return np.array(values, float)
    whole = [in_quotes(value) if isinstance(value, str) else UNKNOWN if value == {} else value for value in values]
    return replace(_texts([None if value is UNSET else str(value) for value in whole], values), is_setting=True)


def _json(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
