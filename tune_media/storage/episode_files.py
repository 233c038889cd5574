"""The files in which the episodes of a report lie beside the trial's results: JSON, and the same as Parquet.

Every Parquet file of an experiment has the same columns, whatever its trials recorded: values that users name are in
columns of maps, so that any reader takes all files at once and loses nothing.
"""

from __future__ import annotations

import functools
import io
import json
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series, Trajectory
from tune_media.values.foreign import shown
from tune_media.values.number import as_number, whole_number
from tune_media.values.secrets import error_text
from tune_media.values.strict_json import json_bytes, parse_json

FOLDER = "episode_data"
RECIPE_FOLDER = "media_recipes"
"""The folder of an experiment that holds what makes its envs again: pickles, which run code when they are read."""
DATA_KEY = "/data"
MAX_JSON_POINTS = 1_000_000
"""The most values of series that a JSON file holds; if there are more, only the Parquet file has the series."""
SUCCESS = ("success", "success_once", "success_at_end")
_NEWER = frozenset(SUCCESS[1:])  # columns that older files lack
_MAX_INT = 2**63
_SMALL = 2**20  # bytes
_LITTLE = 2**16  # bytes of a table whose zstd takes 1.5 ms more to write, 0.5 to read, and saves a tenth of the file


@dataclass(frozen=True)
class RecorderEpisodes:
    """The episodes of one section, as one recorder reported them."""

    section: str
    recorder: str
    batch: EpisodeBatch


@dataclass(frozen=True)
class EpisodeReport:
    """The episodes that one result of a trial reported."""

    trial_id: str
    training_iteration: int | None  # None if they belong to no result
    step: int  # that TensorBoard shows for the result
    parts: Sequence[RecorderEpisodes]
    clips: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by episode: the id of each clip by its path

    @property
    def has_steps(self) -> bool:
        """Whether the steps of some of its episodes were recorded."""
        return any(part.batch.trajectories for part in self.parts)


def file_names(step: int, id: str = "") -> str:
    """Return the path of a report's JSON in the trial folder; ``id`` distinguishes two reports at the same step.

    >>> file_names(40_000), file_names(40_000, "a1")
    ('episode_data/data-00040000.json', 'episode_data/data-00040000-a1.json')
    """
    return posixpath.join(FOLDER, f"data-{step:08d}{'-' if id else ''}{id}.json")


def rows_of_parquet(content: bytes) -> list[dict[str, Any]]:
    """Return the rows of a report, one an episode, without tapes; maps are lists of pairs. Raises ValueError."""
    try:
        parquet = _opened(pa.BufferReader(content))
        table = _table(parquet, WITHOUT_TAPES, _columns_of(parquet)[1])
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"no Parquet file of a report: {error_text(error)}") from error
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def episode_table(file: pa.NativeFile, columns: Sequence[str], *, ahead: bool = False) -> pa.Table:
    """Return columns of a report's Parquet file. Raises OSError, pyarrow.ArrowException, ValueError.

    ``ahead``: Arrow's threads may read them, with few requests: the file is none of Python's, see ``_table``.
    """
    parquet = _opened(file, ahead=ahead)
    there, with_values = _columns_of(parquet)
    if missing := [name for name in columns if name not in there and name not in _NEWER]:
        raise ValueError(f"it has no column {missing[0]!r}, so it is no report of episodes")
    return _table(parquet, columns, with_values)


def parquet_rows(file: Any, episode: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return an episode's rows in a file of episodes or of steps. Raises OSError, pyarrow.ArrowException."""
    table = pyarrow.parquet.ParquetFile(file).read(columns=columns, use_threads=False)
    rows: list[dict[str, Any]] = table.filter(pa.compute.equal(table["episode_id"], episode)).to_pylist()
    return rows


def _opened(file: pa.NativeFile, *, ahead: bool = False) -> pyarrow.parquet.ParquetFile:
    """Open a Parquet file; a small one is read as a whole, with one request."""
    is_small = file.size() <= _SMALL
    source = pa.BufferReader(file.read_at(file.size(), 0)) if is_small else file
    ahead = ahead and not is_small
    return pyarrow.parquet.ParquetFile(source, pre_buffer=ahead)  # read_table would load pyarrow.dataset


def _columns_of(parquet: pyarrow.parquet.ParquetFile) -> tuple[set[str], set[str]]:
    """Return the columns of a file, and those that have a value, by its statistics, or may have one."""
    there, with_values = set[str](), {"metrics"}
    for number in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(number)
        for chunk in map(group.column, range(group.num_columns)):
            name, told = chunk.path_in_schema.partition(".")[0], chunk.statistics
            there.add(name)
            if told is None or not told.has_null_count or told.null_count < chunk.num_values:
                with_values.add(name)
    there = there or set(parquet.schema_arrow.names)  # without a row there is no group
    return there, with_values & there


def _table(parquet: pyarrow.parquet.ParquetFile, columns: Sequence[str], with_values: Collection[str]) -> pa.Table:
    """Return columns of a report, each of the type that this package gives it; those without values are null.

    It reads in this thread: Arrow's own free objects of Python when they like, and abort the process if it ends.
    """
    read = [name for name in columns if name in with_values]  # each takes long
    table = parquet.read(columns=read, use_threads=False)
    schema, types = _types(tuple(columns))
    found = dict(zip(table.column_names, table.columns, strict=True))
    count = parquet.metadata.num_rows
    cells = [
        _nulls(count, type) if (own := found.get(name)) is None else own if own.type == type else own.cast(type)
        for name, type in zip(columns, types, strict=True)
    ]
    return pa.table(cells, schema)


@functools.lru_cache(maxsize=64)
def _types(columns: tuple[str, ...]) -> tuple[pa.Schema, list[pa.DataType]]:
    schema = pa.schema([_EPISODES.field(name) for name in columns])
    return schema, schema.types


@functools.lru_cache(maxsize=64)
def _nulls(count: int, type: pa.DataType) -> pa.Array:
    return pa.nulls(count, type)


def parquet_name(path: str) -> str:
    """Return the path of the Parquet file that has the same episodes as a JSON file."""
    return path.removesuffix(".json") + ".parquet"


def steps_name(path: str) -> str:
    """Return the path of the file that has the steps of a report's episodes.

    >>> steps_name("episode_data/data-00040000.json")
    'episode_data/steps-00040000.parquet'
    """
    return posixpath.join(FOLDER, "steps" + posixpath.basename(parquet_name(path)).removeprefix("data"))


def record_of(row: Mapping[str, Any]) -> EpisodeRecord:
    """Return the facts of the episode of a row of a report's Parquet file; metrics may be pairs or a dict."""
    names = ("section", "training_iteration", "terminated", *SUCCESS, "seed", "env_runner", "env_index", "note")
    more = ("env_steps", "explored", "weights_version", "rendered", "task")
    facts = {name: row[name] for name in (*names, *more)}
    number, length = as_number(row["episode_return"]), whole_number(row["episode_length"])
    finished_at, metrics = row["finished_at"] or 0.0, dict(row["metrics"] or ())
    return EpisodeRecord(row["episode_id"], number, length, finished_at=finished_at, metrics=metrics, **facts)


def values_of(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the maps of a row of a report's Parquet file: ``series``, ``every``, ``values`` and ``metrics``."""
    maps = {name: dict(row.get(name) or ()) for name in ("series", "every", "metrics")}
    columns = (row[name] or () for name in ("lists", "values"))
    lists, values = ({name: parse_json(text.encode()) for name, text in column} for column in columns)
    return {**maps, "series": maps["series"] | lists, "values": values}


def taped_rows(file: Any) -> list[dict[str, Any]]:
    """Return the rows of a report's Parquet file whose episodes have tapes, without these; metrics as dicts."""
    table = episode_table(file, _OF_TAPES)
    rows = table.filter(pa.compute.is_valid(table["tape_bytes"])).to_pylist()
    return [{**row, "metrics": dict(row["metrics"])} for row in rows]


def tape_of(file: Any, section: str, recorder: str, episode_id: str) -> bytes:
    """Return the tape of an episode in a report's Parquet file. Raises KeyError if it has none."""
    asked = {"episode_id": episode_id, "section": section, "recorder": recorder}
    table = episode_table(file, ["tape", *asked])
    for name, value in asked.items():
        table = table.filter(pa.compute.equal(table[name], value))
    tapes = table["tape"].drop_null()
    if not len(tapes):
        raise KeyError(episode_id)
    return bytes(tapes[0].as_py())


def recipe_name(hash: str) -> str:
    """Return the path of a recipe, relative to the trial folder: the recipes of an experiment are beside its trials."""
    return posixpath.join("..", RECIPE_FOLDER, f"{hash}.pickle")


def recorder_of(key: str) -> str:
    """Return the recorder's name, out of the key of its episodes."""
    return key.removesuffix(DATA_KEY)


def report_json(report: EpisodeReport, path: str) -> bytes:
    """Return the episodes as a JSON list, one object an episode; numbers that are not finite are null."""
    points = sum(len(series) for _, episode in _episodes(report) for series in episode.series.values())
    inline = points <= MAX_JSON_POINTS
    rows = []
    for part, episode in _episodes(report):
        row = {"section": part.section, "recorder": part.recorder, **episode.as_dict(with_series=inline)}
        if episode.series and not inline:
            row["series_note"] = f"{points} values: in {posixpath.basename(parquet_name(path))}"
        rows.append(row)
    return b"[\n" + b",\n".join(map(json_bytes, rows)) + b"\n]\n"


def report_parquet(report: EpisodeReport) -> bytes:
    """Return the episodes as Parquet, one row an episode."""
    rows = [_row(report, part, episode) for part, episode in _episodes(report)]
    return _parquet(pa.Table.from_pylist(rows, schema=_EPISODES))


def steps_parquet(report: EpisodeReport) -> bytes:
    """Return the steps of the episodes that have them, one row a step, the reset being step 0."""
    tables = [
        _steps_table(report, part, episode, trajectory)
        for part, episode in _episodes(report)
        if (trajectory := part.batch.trajectories.get(episode.record.id)) is not None
    ]
    return _parquet(pa.concat_tables(tables, promote_options="permissive"))


_NUMBERS = pa.map_(pa.string(), pa.float64())
_EPISODES = pa.schema(
    [
        ("trial_id", pa.string()),
        ("section", pa.string()),
        ("recorder", pa.string()),
        ("training_iteration", pa.int64()),
        ("step", pa.int64()),
        ("episode_id", pa.string()),
        ("episode_return", pa.float64()),
        ("episode_length", pa.int64()),
        ("terminated", pa.bool_()),
        ("success", pa.bool_()),  # null: not known
        ("success_once", pa.bool_()),
        ("success_at_end", pa.bool_()),
        ("seed", pa.int64()),
        ("env_runner", pa.int64()),
        ("env_index", pa.int64()),
        ("env_steps", pa.int64()),
        ("explored", pa.bool_()),
        ("weights_version", pa.int64()),
        ("task", pa.string()),
        ("rendered", pa.string()),
        ("finished_at", pa.float64()),
        ("late", pa.bool_()),
        ("note", pa.string()),
        ("metrics", _NUMBERS),
        ("series", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ("every", pa.map_(pa.string(), pa.int64())),
        ("lists", pa.map_(pa.string(), pa.string())),  # series of other things than numbers, as JSON
        ("values", pa.map_(pa.string(), pa.string())),  # as JSON
        ("clips", pa.map_(pa.string(), pa.string())),  # the path of each clip of the episode -> its id
        ("recipe", pa.string()),  # the hash of the recipe that makes its env again
        ("tape_bytes", pa.int64()),  # null: it has no tape
        ("tape", pa.binary()),  # see replay.tape
        ("rewards", pa.list_(pa.float64())),  # of each step, if it has a clip and no tape has them
    ]
)

WITHOUT_TAPES = [name for name in _EPISODES.names if name not in ("tape", "rewards")]
"""The columns of a report's Parquet file but for the tapes and rewards, which few readers need."""
_OF_TAPES = [name for name in WITHOUT_TAPES if name not in ("series", "lists", "values", "every", "clips")]
EPISODE_COLUMNS = [name for name in WITHOUT_TAPES if name not in ("metrics", "lists")]


def _episodes(report: EpisodeReport) -> Iterator[tuple[RecorderEpisodes, EpisodeData]]:
    return ((part, episode) for part in report.parts for episode in part.batch.episodes)


def _row(report: EpisodeReport, part: RecorderEpisodes, episode: EpisodeData) -> dict[str, Any]:
    """Return a row of ``_EPISODES``; columns that it lacks are null."""
    record, tape = episode.record, episode.tape
    names = ("episode_return", "episode_length", "terminated", "env_runner", "env_index", *SUCCESS, "env_steps")
    more = ("explored", "weights_version", "rendered")
    texts = {name: getattr(record, name) for name in ("episode_id", "note", "task")}
    return {
        **{name: getattr(record, name) for name in (*names, *more)},
        **{name: _text(text) for name, text in texts.items() if text is not None},
        "seed": record.seed if record.seed is None or abs(record.seed) < _MAX_INT else None,
        "trial_id": report.trial_id,
        "section": part.section,
        "recorder": _text(part.recorder),
        "training_iteration": report.training_iteration,
        "step": record.env_steps if report.training_iteration is None else report.step,
        "finished_at": record.finished_at or None,
        "late": episode.is_late,
        "metrics": [(_text(name), value) for name, value in record.metrics.items()],
        **_columns_of_series(episode.series),
        "values": [(_text(name), json_bytes(value).decode()) for name, value in episode.values.items()],
        "clips": [(path, _text(id)) for path, id in report.clips.get(record.episode_id, {}).items()],
        **({"recipe": episode.recipe, "tape_bytes": len(tape), "tape": tape} if tape else {}),
        "rewards": episode.rewards,
    }


def _columns_of_series(series: Mapping[str, Series]) -> dict[str, Any]:
    named = [(_text(name), part) for name, part in series.items()]
    return {
        "series": [(name, part.values) for name, part in named if part.is_numeric],
        "every": [(name, part.stride) for name, part in named if part.stride > 1],
        "lists": [(name, json_bytes(part.values).decode()) for name, part in named if not part.is_numeric],
    }


def _text(value: Any) -> str:
    """Return a value as text that Arrow takes."""
    return shown(value, str).encode("utf-8", "replace").decode()


def _steps_table(
    report: EpisodeReport, part: RecorderEpisodes, episode: EpisodeData, trajectory: Trajectory
) -> pa.Table:
    count = len(trajectory)
    facts = {
        "trial_id": report.trial_id,
        "section": part.section,
        "recorder": _text(part.recorder),
        "training_iteration": report.training_iteration,
        "step": report.step,
        "episode_id": _text(episode.record.episode_id),
    }
    columns = {name: pa.array([value] * count) for name, value in facts.items()}
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    for name, values in trajectory.columns.items():
        title = "episode_step" if name == "step" else _text(name)
        column, shape = _column(values)
        columns[title] = column
        fields.append(pa.field(title, column.type, metadata={"shape": json.dumps(shape)} if shape else None))
    is_whole = columns["episode_step"].to_pylist()[-1] == episode.record.episode_length
    ended = bool(episode.record.terminated)
    for name, is_how in (("terminated", ended), ("truncated", not ended)):
        columns[name] = pa.array([False] * (count - 1) + [is_whole and is_how])
        fields.append(pa.field(name, pa.bool_()))
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def _column(values: Sequence[Any]) -> tuple[pa.Array, list[int] | None]:
    """Return values as a column, arrays as flat lists; and the arrays' shape if all have the same."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if not arrays or any(value is not None and not isinstance(value, np.ndarray) for value in values):
        try:
            return pa.array(values), None
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several kinds
            return pa.array([None if value is None else json_bytes(value).decode() for value in values]), None
    shapes = {array.shape for array in arrays}
    element = pa.from_numpy_dtype(np.result_type(*{array.dtype for array in arrays}))
    flat = [None if value is None else np.ravel(value).tolist() for value in values]
    return pa.array(flat, pa.list_(element)), list(shapes.pop()) if len(shapes) == 1 else None


def _parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression="snappy" if table.nbytes < _LITTLE else "zstd")
    return file.getvalue()
