"""All episodes of an experiment as columns, as their Parquet files have them: no episode becomes a dict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage import episode_files
from tune_media.values.episodes import UNKNOWN
from tune_media.viewing.conditions import as_numpy

if TYPE_CHECKING:
    import pandas as pd

_CELLS: dict[str, type] = {"series": dict, "every": dict, "values": dict, "clips": list}
_METRICS = "metrics"
_NESTED = [*_CELLS, "lists"]
_PLAIN = [name for name in episode_files.EPISODE_COLUMNS if name not in _CELLS]
_THREADS, _THREADS_FAR = 4, 16  # if files are on this machine, and if they are far away
_AT_ONCE = 256  # files whose tables, which are small, become one


class _File(NamedTuple):
    """A report's file; ``number`` is that of its trial."""

    trial: TrialFiles
    report: str
    number: int
    is_rolled_back: bool


@dataclass(frozen=True)
class EpisodeColumns:
    """Episodes in the order of their trials and files.

    Attributes:
        table: Their numbers and texts, and the metrics, which are maps.
        cells: The cells that are dicts or lists, of each episode that has some, by column.
        trials: The number of the trial of each.
        rolled_back: Whether the trial has left it behind.
    """

    table: pa.Table
    cells: Mapping[int, Mapping[str, Any]]
    trials: npt.NDArray[np.int64]
    rolled_back: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, trials: Sequence[TrialFiles]) -> EpisodeColumns | None:
        """Read the episodes of trials; None if there are none. Files that cannot be read are left out, with a warning.

        >>> EpisodeColumns.of([])
        """
        files = [
            _File(trial, report, number, is_rolled_back)
            for number, trial in enumerate(trials)
            for report, is_rolled_back in trial.report_files.items()
        ]
        tables: list[pa.Table] = []
        cells: dict[int, Mapping[str, Any]] = {}
        counts = np.zeros(len(files), np.int64)
        total = 0
        threads = _THREADS_FAR if any(trial.is_far for trial in trials) else _THREADS
        with ThreadPoolExecutor(threads, "tune_media-episodes") as pool:
            for start in range(0, len(files), _AT_ONCE):
                found: list[pa.Table] = []
                for number, read in enumerate(pool.map(_read, files[start : start + _AT_ONCE]), start):
                    if read is not None:
                        table, own = read
                        found.append(table)
                        cells |= {total + row: of_row for row, of_row in own.items()}
                        counts[number] = len(table)
                        total += len(table)
                if found:
                    tables.append(pa.concat_tables(found).combine_chunks())
        if not total:
            return None
        numbers = np.repeat(np.array([file.number for file in files]), counts)
        rolled_back = np.repeat(np.array([file.is_rolled_back for file in files]), counts)
        return cls(pa.concat_tables(tables), cells, numbers, rolled_back)._of_episodes()

    def _of_episodes(self) -> EpisodeColumns | None:
        """Return them without the rows of values that no result ascribes to an episode."""
        is_known = pc.fill_null(pc.not_equal(self.table["episode_id"], UNKNOWN), True)
        keep = as_numpy(is_known).astype(bool)
        if keep.all():
            return self
        places = np.cumsum(keep) - 1
        cells = {int(places[row]): own for row, own in self.cells.items() if keep[row]}
        if not keep.any():
            return None
        return EpisodeColumns(self.table.filter(is_known), cells, self.trials[keep], self.rolled_back[keep])

    def as_series(self) -> dict[str, pd.Series[Any]]:
        """Return the columns as pandas makes them of Python's values, each metric as a column of its own."""
        import pandas as pd

        texts = pd.Series([""]).dtype  # since pandas 3 they have a type of their own
        found = {name: _as_series(self.table[name], texts) for name in _PLAIN}
        for name, kind in _CELLS.items():
            column = [kind() for _ in range(len(self.table))]
            for row, own in self.cells.items():
                column[row] = own[name] or column[row]
            found[name] = pd.Series(column, dtype=object)
        metrics = numbers_of_maps(self.table[_METRICS], len(self.table))
        return found | {f"metrics/{name}": pd.Series(values) for name, values in metrics}


def _read(file: _File) -> tuple[pa.Table, dict[int, dict[str, Any]]] | None:
    """Return the plain columns of a file, and its cells that are dicts or lists; None if it is gone, or broken."""
    try:
        table = file.trial.episodes(file.report, episode_files.WITHOUT_TAPES)
        return table.select([*_PLAIN, _METRICS]), _cells_of(table.select(_NESTED))
    except Exception as error:  # the episodes of the other files are here
        file.trial.pass_over(episode_files.parquet_name(file.report), error)
        return None


def _cells_of(maps: pa.Table) -> dict[int, dict[str, Any]]:
    """Return the cells of the episodes that have something in a map, which are few, by their rows."""
    if all(map(_is_empty, maps.columns)):
        return {}
    rows = np.flatnonzero(np.logical_or.reduce([_lengths(column) > 0 for column in maps.columns]))
    found = maps.take(pa.array(rows)).to_pylist()
    return {row: own | episode_files.values_of(own) for row, own in zip(rows.tolist(), found, strict=True)}


def _is_empty(maps: pa.ChunkedArray) -> bool:
    """Return whether no row has an entry."""
    return not any(len(chunk.keys) for chunk in maps.chunks)


def _lengths(maps: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Return how many entries each row has."""
    return np.diff(np.from_dlpack(maps.combine_chunks().offsets))


def _as_series(column: pa.ChunkedArray, texts: Any) -> pd.Series[Any]:
    """Return a column; without any value it is one of None, and whole numbers of which some lack are floats."""
    import pandas as pd

    is_text = pa.types.is_string(column.type)
    values: Any = column.to_pandas() if is_text else column.to_numpy()
    if column.null_count == len(column):
        is_text, values = False, np.full(len(column), None, object)
    found: pd.Series[Any] = pd.Series(values, dtype=texts if is_text else values.dtype)
    return found


def numbers_of_maps(maps: pa.ChunkedArray, count: int) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    """Yield each name of a column of maps with the values of all rows, in the order in which they come first."""
    if not count:
        return
    row, names, values = entries_of_maps(maps, count)
    keys, numbers = names.dictionary_encode(), as_numpy(values)
    key = np.from_dlpack(keys.indices)
    for number, name in enumerate(keys.dictionary.to_pylist()):
        own = key == number
        column = np.full(count, np.nan)
        column[row[own]] = numbers[own]
        yield name, column


def entries_of_maps(maps: pa.ChunkedArray, count: int) -> tuple[npt.NDArray[np.int64], Any, Any]:
    """Return the row, the key and the value of each entry of a column of maps."""
    joined = maps.combine_chunks()
    offsets = np.from_dlpack(joined.offsets)
    inner = slice(offsets[0], offsets[-1])
    return np.repeat(np.arange(count), np.diff(offsets)), joined.keys[inner], joined.items[inner]
