"""All recorded episodes of an experiment as one table: filtered, sorted, counted and paged without sending it whole."""

from __future__ import annotations

import logging
import math
import posixpath
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from tune_media.experiment.params import differing
from tune_media.experiment.trial_files import Line, TrialFiles
from tune_media.storage.episode_files import parquet_name
from tune_media.values.checks import did_you_mean
from tune_media.values.episodes import UNKNOWN
from tune_media.values.secrets import error_text
from tune_media.viewing.payload import finite

logger = logging.getLogger("tune_media")

_TEXTS = ("trial", "section", "task", "note", "episode_id")
_FACTS = ("section", "step", "training_iteration", "episode_return", "episode_length", "terminated", "seed", "task")
_READ = [*_FACTS, "recorder", "episode_id", "note", "metrics", "clips"]
_SHORT = {"return": "episode_return", "length": "episode_length", "iteration": "training_iteration"}
_NOT_STRANGE = ("step", "training_iteration", "seed")  # numbers that tell nothing of what happened in an episode
_TOKEN = re.compile(r'\s*(?:([()])|(<=|>=|!=|==|=|<|>)|("[^"]*"|[^\s()<>=!"]+))')
_BINS = 30
_STRANGE = 3.5  # of a robust z score, as Iglewicz and Hoaglin have it
_THREADS = 16

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]


class EpisodeFiles:
    """Reads the episode files of trials; each file once, since none changes. Any thread may ask.

    >>> EpisodeFiles().table([]).rows()["count"]
    0
    """

    def __init__(self) -> None:
        self._read: dict[tuple[str, str], pa.Table | None] = {}
        self._made: tuple[Any, EpisodeTable] | None = None
        self._lock = threading.Lock()

    def table(self, trials: Sequence[TrialFiles]) -> EpisodeTable:
        """Return the table of the episodes that the trials have not left behind."""
        reports = [(trial, line) for trial in trials for line in trial.report_lines if not line.get("rolled_back")]
        files = dict.fromkeys((trial.path, line["path"]) for trial, line in reports)
        with self._lock:
            if self._made is None or self._made[0] != list(files):
                own = {(trial.path, line["path"]): (trial, line) for trial, line in reports}
                new = [key for key in files if key not in self._read]
                with ThreadPoolExecutor(_THREADS) as pool:
                    self._read |= zip(new, pool.map(lambda key: _read(*own[key]), new), strict=True)
                tables = [(own[key][0], found) for key in files if (found := self._read[key]) is not None]
                self._made = list(files), EpisodeTable.of(tables)
            return self._made[1]


class EpisodeTable:
    """Episodes as columns: facts, hyperparameters that differ (``config/<name>``), and metrics (``metrics/<name>``).

    Args:
        columns: The values of each column: numbers with NaN for missing ones, or texts.
        clips: The path of a clip of each episode, or None.
    """

    def __init__(self, columns: Mapping[str, Numbers | npt.NDArray[Any]], clips: Sequence[str | None]) -> None:
        self.columns = dict(columns)
        self.clips = clips

    @classmethod
    def of(cls, tables: Sequence[tuple[TrialFiles, pa.Table]]) -> EpisodeTable:
        """Join the tables of trials."""
        if not tables:
            return cls({}, [])
        trials = [trial for trial, _ in tables]
        counts = [len(table) for _, table in tables]
        joined = pa.concat_tables([table for _, table in tables])
        columns: dict[str, Any] = {"trial": np.repeat(np.array([trial.name for trial in trials], object), counts)}
        for name in _FACTS:
            columns[name] = _texts(joined[name]) if name in _TEXTS else _numbers(joined[name])
        for name in differing([trial.params for trial in trials]):
            values = [trial.params.get(name) for trial in trials]
            columns[f"config/{name}"] = np.repeat(_plain(values), counts)
        metrics = joined["metrics"].combine_chunks()
        for name in pc.unique(metrics.keys).to_pylist() if len(joined) else []:
            columns[f"metrics/{name}"] = _numbers(pc.map_lookup(metrics, pa.scalar(name), "first"))
        columns["episode_id"] = _texts(joined["episode_id"])
        clips = [next((path for path, _ in found or ()), None) for found in joined["clips"].to_pylist()]
        return cls(columns, clips)

    def __len__(self) -> int:
        return len(self.clips)

    def rows(
        self, where: str = "", sort: str = "", *, descending: bool = False, offset: int = 0, limit: int = 100
    ) -> dict[str, Any]:
        """Return a page of the episodes that a filter lets through.

        Args:
            where: Comparisons with ``and``, ``or``, ``not`` and parentheses: ``return < 20 and distance_avg > 3``. The
                last part of a column's name is enough.
            sort: A column. Missing values come last.
            descending: Whether the largest comes first.
            offset: The number of the first row.
            limit: How many rows at most.

        Returns:
            ``count``, ``total``, ``columns``, ``rows`` (lists), and ``places`` (for each row its trial and its clip).

        Raises:
            ValueError: The filter cannot be read, or there is no such column.

        >>> table = EpisodeTable({"episode_return": np.array([3.0, 1.0, 2.0])}, [None] * 3)
        >>> table.rows("return > 1", "return")["rows"]
        [[2], [3]]
        """
        found = np.flatnonzero(self.mask(where))
        if sort:
            found = found[_order(self.columns[self.resolve(sort)][found], descending)]
        return {"count": len(found), "total": len(self), **self._page(found[offset : offset + limit])}

    def strangest(self, count: int = 10, where: str = "") -> dict[str, Any]:
        """Return the episodes that differ most from the others in one of their numbers, the strangest first.

        A number's strangeness is its robust z score: its distance from the median of its column, in units of the median
        distance. An episode is as strange as its strangest number.

        Returns:
            As ``rows``, with ``why``: for each row the column and its z score.
        """
        found = np.flatnonzero(self.mask(where))
        names = [n for n, v in self.columns.items() if v.dtype == float and n not in _NOT_STRANGE]
        names = [name for name in names if not name.startswith("config/")]
        if not len(found) or not names:
            return {"count": 0, "total": len(self), **self._page(found[:0]), "why": []}
        scores = np.nan_to_num(np.abs([robust_z(self.columns[name][found]) for name in names]), posinf=0.0)
        column = scores.argmax(axis=0)
        strangeness = scores.max(axis=0)
        order = np.argsort(-strangeness, kind="stable")[:count]
        why = [[names[column[at]], float(strangeness[at])] for at in order]
        return {"count": len(order), "total": len(self), **self._page(found[order]), "why": why}

    def histogram(self, name: str, where: str = "") -> dict[str, Any]:
        """Return how often values of a column occur: ``edges``, ``counts``, and ``outliers``, a count for each bin.

        A column of texts has none, and empty lists.

        >>> table = EpisodeTable({"x": np.array([1.0, 1.0, 2.0])}, [None] * 3)
        >>> sum(table.histogram("x")["counts"])
        3
        """
        full = self.resolve(name)
        values = self.columns[full]
        values = values[self.mask(where) & np.isfinite(values)] if values.dtype == float else values[:0]
        if not len(values):
            return {"name": full, "edges": [], "counts": [], "outliers": []}
        counts, edges = np.histogram(values, _BINS)
        strange = values[np.abs(robust_z(values)) > _STRANGE]
        return {
            "name": full,
            "edges": edges.tolist(),
            "counts": counts.tolist(),
            "outliers": np.histogram(strange, edges)[0].tolist(),
        }

    def resolve(self, name: str) -> str:
        """Return the full name of a column.

        Raises:
            ValueError: There is none.
        """
        wanted = _SHORT.get(name, name)
        for full in self.columns:
            if full == wanted:
                return full
        for full in self.columns:
            if full.partition("/")[2] == wanted or full.rpartition("/")[2] == wanted:
                return full
        raise ValueError(f"there is no column {name!r}; {did_you_mean(name, self.columns)}")

    def mask(self, where: str) -> Mask:
        """Return which episodes a filter lets through.

        Raises:
            ValueError: The filter cannot be read.

        >>> table = EpisodeTable({"a": np.array([1.0, 2.0, 3.0]), "b": np.array([0.0, 1.0, 1.0])}, [None] * 3)
        >>> table.mask("(a = 1 or a >= 3) and not b = 1").tolist()
        [True, False, False]
        """
        return _Filter(where, self).read() if where.strip() else np.ones(len(self), bool)

    def _page(self, found: npt.NDArray[np.int64]) -> dict[str, Any]:
        columns = [[_json(value) for value in values[found].tolist()] for values in self.columns.values()]
        trials = self.columns["trial"][found].tolist() if "trial" in self.columns else [None] * len(found)
        places = [[trial, self.clips[at]] for trial, at in zip(trials, found.tolist(), strict=True)]
        return {
            "columns": list(self.columns),
            "rows": [list(row) for row in zip(*columns, strict=True)],
            "places": places,
        }


class _Filter:
    """Reads a filter from left to right: ``or`` of ``and`` of ``not``, parentheses and comparisons."""

    def __init__(self, text: str, table: EpisodeTable) -> None:
        self._table = table
        self._tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if not match:
                raise ValueError(f"the filter cannot be read from {text[at:].strip()!r} on.")
            self._tokens.append(next(filter(None, match.groups())))
            at = match.end()

    def read(self) -> Mask:
        mask = self._any()
        if self._tokens:
            raise ValueError(f"the filter has {self._tokens[0]!r} too much.")
        return mask

    def _next(self, *words: str) -> bool:
        """Take the next token if it is one of these."""
        if self._tokens and self._tokens[0].lower() in words:
            self._tokens.pop(0)
            return True
        return False

    def _any(self) -> Mask:
        mask = self._all()
        while self._next("or"):
            mask = mask | self._all()
        return mask

    def _all(self) -> Mask:
        mask = self._one()
        while self._next("and") or (self._tokens and self._tokens[0].lower() not in ("or", ")")):
            mask = mask & self._one()
        return mask

    def _one(self) -> Mask:
        if self._next("not"):
            return ~self._one()
        if self._next("("):
            mask = self._any()
            if not self._next(")"):
                raise ValueError("the filter lacks a ')'.")
            return mask
        if len(self._tokens) < 3 or self._tokens[1] not in _COMPARE:
            raise ValueError(f"the filter needs a comparison such as return<20, not {' '.join(self._tokens[:3])!r}.")
        name, operator, text = (self._tokens.pop(0).strip('"') for _ in range(3))
        values = self._table.columns[self._table.resolve(name)]
        return _compared(values, operator, text)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def robust_z(values: Numbers) -> Numbers:
    """Return the distance of each value from the median, in units of the median distance (1 for a normal sigma).

    If more than half of the values are equal, the unit is the mean distance; if all are, the distances are 0.

    >>> robust_z(np.array([1.0, 2.0, 3.0, 4.0, 100.0])).round(2).tolist()
    [-1.35, -0.67, 0.0, 0.67, 65.43]
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros(len(values))
    median = np.median(known)
    distances = np.abs(known - median)
    unit = np.median(distances) / 0.6745 or np.mean(distances) * 1.253314
    return np.nan_to_num((values - median) / unit, nan=0.0) if unit else np.zeros(len(values))


def _compared(values: npt.NDArray[Any], operator: str, text: str) -> Mask:
    is_missing = text.lower() in ("none", "null")
    if values.dtype == float:
        if is_missing:
            return np.asarray(np.isnan(values) != (operator == "!="), bool)
        try:
            number = {"true": 1.0, "false": 0.0}.get(text.lower())
            number = float(text) if number is None else number
        except ValueError:
            raise ValueError(f"the filter compares numbers with {text!r}.") from None
        if operator in ("=", "==", "!="):
            return np.asarray(np.isclose(values, number, rtol=1e-9, atol=0.0) != (operator == "!="), bool)
        return np.asarray(_COMPARE[operator](values, number), bool)
    wanted = None if is_missing else text
    if operator not in ("=", "==", "!="):
        raise ValueError(f"the filter asks if texts are {operator} {text!r}.")
    return np.array([(value == wanted) != (operator == "!=") for value in values], bool)


def _order(values: npt.NDArray[Any], descending: bool) -> npt.NDArray[np.int64]:
    if values.dtype == float:
        return np.argsort(np.where(np.isnan(values), np.inf, -values if descending else values), kind="stable")
    missing = np.array([value is None for value in values], bool)
    texts = np.where(missing, "", values).astype(str)
    _, rank = np.unique(texts, return_inverse=True)
    return np.lexsort((-rank if descending else rank, missing))


def _read(trial: TrialFiles, line: Line) -> pa.Table | None:
    try:
        filesystem, folder = trial.place
        path = posixpath.join(folder, parquet_name(line["path"]))
        with filesystem.open_input_file(path) as file:
            table = pyarrow.parquet.ParquetFile(file).read(columns=_READ)  # read_table would load pyarrow.dataset
    except (OSError, ValueError, pa.ArrowException) as error:
        logger.warning("tune_media: cannot read the episodes in %r: %s", line["path"], error_text(error))
        return None
    return table.filter(pc.not_equal(table["episode_id"], UNKNOWN))


def _numbers(column: Any) -> Numbers:
    return (
        np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), float)
        if isinstance(column, pa.Array)
        else np.asarray(pc.cast(column, pa.float64()).to_numpy(), float)
    )


def _texts(column: Any) -> npt.NDArray[Any]:
    return np.array(column.to_pylist(), object)


def _plain(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return hyperparameters as numbers if all are, else as texts."""
    if all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values):
        return np.array([math.nan if value is None else value for value in values], float)
    return np.array([None if value is None else str(value) for value in values], object)


def _json(value: Any) -> Any:
    value = finite(value)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
