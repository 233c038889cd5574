"""All episodes of an experiment as columns, as their Parquet files have them: no episode becomes a dict."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from tune_media.experiment.trial_files import TrialFiles
from tune_media.experiment.trial_folders import in_parallel
from tune_media.storage import episode_files
from tune_media.values.episodes import UNKNOWN
from tune_media.values.secrets import error_text
from tune_media.viewing.conditions import as_numpy

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("tune_media")

_CELLS: dict[str, type] = {"series": dict, "every": dict, "values": dict, "clips": list}
_METRICS = "metrics"
_NESTED = [*_CELLS, "lists"]
_PLAIN = [name for name in episode_files.EPISODE_COLUMNS if name not in _CELLS]
_AT_ONCE = 256  # files whose tables, which are small, become one


class _File(NamedTuple):
    """A report's file; ``number`` is that of its trial."""

    trial: TrialFiles
    report: str
    number: int
    is_rolled_back: bool

    @property
    def filesystem(self) -> pyarrow.fs.FileSystem:
        return self.trial.filesystem


@dataclass(frozen=True)
class EpisodeColumns:
    """Episodes in the order of their trials and files.

    Attributes:
        table: Their numbers and texts, and the metrics, which are maps.
        cells: The columns whose cells are dicts or lists.
        trials: The number of the trial of each.
        rolled_back: Whether the trial has left it behind.
    """

    table: pa.Table
    cells: Mapping[str, list[Any]]
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
        cells: dict[str, list[Any]] = {name: [] for name in _CELLS}
        counts: list[int] = []
        for start in range(0, len(files), _AT_ONCE):
            part = in_parallel(_read, files[start : start + _AT_ONCE])
            counts += [0 if read is None else len(read[0]) for read in part]
            found = [read for read in part if read is not None]
            for _, own in found:
                for name, of_file in own.items():
                    cells[name] += of_file
            if found:
                tables.append(pa.concat_tables([table for table, _ in found]).combine_chunks())
        if not sum(counts):
            return None
        numbers = np.repeat(np.array([file.number for file in files]), counts)
        rolled_back = np.repeat(np.array([file.is_rolled_back for file in files]), counts)
        return cls(pa.concat_tables(tables), cells, numbers, rolled_back)

    def as_series(self) -> dict[str, pd.Series[Any]]:
        """Return the columns as pandas makes them of Python's values, each metric as a column of its own."""
        import pandas as pd

        texts = pd.Series([""]).dtype  # since pandas 3 they have a type of their own
        found = {name: _as_series(self.table[name], texts) for name in _PLAIN}
        found |= {name: pd.Series(cells, dtype=object) for name, cells in self.cells.items()}
        metrics = numbers_of_maps(self.table[_METRICS], len(self.table))
        return found | {f"metrics/{name}": pd.Series(values) for name, values in metrics}


def _read(file: _File) -> tuple[pa.Table, dict[str, list[Any]]] | None:
    """Return the plain columns of a file, and those of dicts and lists; None if it is gone, or broken."""
    try:
        table = file.trial.episodes(file.report, episode_files.WITHOUT_TAPES)
        if pc.index(table["episode_id"], UNKNOWN).as_py() >= 0:  # values that no result ascribes to an episode
            table = table.filter(pc.fill_null(pc.not_equal(table["episode_id"], UNKNOWN), True))
        return table.select([*_PLAIN, _METRICS]), _cells_of(table.select(_NESTED))
    except Exception as error:  # the episodes of the other files are here
        path = posixpath.join(file.trial.media_path, episode_files.parquet_name(file.report))
        logger.warning("tune_media: %r is left out (%s)", path, error_text(error))
        return None


def _cells_of(maps: pa.Table) -> dict[str, list[Any]]:
    """Return the columns of dicts and lists; few episodes have something in them."""
    cells: dict[str, list[Any]] = {name: [kind() for _ in range(len(maps))] for name, kind in _CELLS.items()}
    if all(map(_is_empty, maps.columns)):
        return cells
    rows = np.flatnonzero(np.logical_or.reduce([_has_cell(column) for column in maps.columns]))
    for row, own in zip(rows.tolist(), maps.take(pa.array(rows)).to_pylist(), strict=True):
        own |= episode_files.values_of(own)
        for name, column in cells.items():
            column[row] = own[name]
    return cells


def _is_empty(maps: pa.ChunkedArray) -> bool:
    """Return whether each row has an empty map."""
    return not maps.null_count and not any(len(chunk.keys) for chunk in maps.chunks)


def _has_cell(maps: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which rows have another map than an empty one."""
    lengths = np.diff(np.from_dlpack(maps.combine_chunks().offsets))
    return np.asarray((lengths > 0) | as_numpy(maps.is_null()).astype(bool), bool)


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
