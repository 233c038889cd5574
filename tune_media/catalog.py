"""The indices of an experiment as one table: what was recorded, in which trial, with which hyperparameters."""

from __future__ import annotations

import contextlib
import json
import logging
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs

from tune_media.entries import STORED
from tune_media.episode_files import EPISODE_COLUMNS, parquet_name
from tune_media.episodes import UNKNOWN, EpisodeBatch
from tune_media.files import read_if_there
from tune_media.index import read_index
from tune_media.store import PLACE_FILE

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

_PARAMS = "params.json"
_COLUMNS = ["trial", "section", "key", "kind", "step", "training_iteration", "episode_return", "frames", "file"]


class Catalog(Sequence[dict[str, Any]]):
    """Everything recorded in an experiment, one row (a dict) a medium, ordered by trial, step and key.

    A row is a line of a trial's index and, added to it: ``trial`` (the name of the trial's folder), ``params`` (its
    hyperparameters) and ``file`` (the medium's place on the filesystem). ``episodes()`` has what is known of all
    episodes, with or without a clip.
    """

    def __init__(self, path: str, filesystem: pyarrow.fs.FileSystem, rows: list[dict[str, Any]]) -> None:
        self.path = path
        self.filesystem = filesystem
        self._rows = [row for row in rows if row.get("kind") != EpisodeBatch.kind]
        told = {row["file"]: row for row in rows if row.get("kind") == EpisodeBatch.kind}
        self.reports = [(row["trial"], row["params"], file) for file, row in told.items()]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def __repr__(self) -> str:
        trials = len({row["trial"] for row in self._rows})
        return f"Catalog({len(self)} media of {trials} trials in {self.path})"

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame, each hyperparameter in a column ``config/<name>``."""
        flat = [
            {name: value for name, value in row.items() if name != "params"}
            | {f"config/{name}": value for name, value in row["params"].items()}
            for row in self._rows
        ]
        return _data_frame(flat, _COLUMNS)

    def episodes(self) -> pd.DataFrame:
        """Return all recorded episodes, one row each, of all trials.

        The columns are those of the Parquet files beside ``episode_data/data-<step>.json``; each metric has a column
        ``metrics/<name>`` of its own, each hyperparameter one ``config/<name>``; ``series`` and ``values`` hold dicts.
        """
        rows: list[dict[str, Any]] = []
        for trial, params, path in self.reports:
            config = {f"config/{name}": value for name, value in params.items()}
            try:
                rows.extend({"trial": trial, **row, **config} for row in self._episodes_of(parquet_name(path)))
            except Exception as error:  # it is gone, or no such file: those of the others are here
                logger.warning("tune_media: %r is left out (%s: %s)", parquet_name(path), type(error).__name__, error)
        return _data_frame(rows, ["trial", *EPISODE_COLUMNS])

    def _episodes_of(self, path: str) -> list[dict[str, Any]]:
        import pyarrow.parquet

        with self.filesystem.open_input_file(path) as file:
            table = pyarrow.parquet.read_table(file)
        rows = []
        for row in table.to_pylist():
            if row["episode_id"] == UNKNOWN:  # values that no result ascribes to an episode
                continue
            row["series"], row["every"] = dict(row["series"]), dict(row["every"])
            row["series"] |= {name: json.loads(text) for name, text in row.pop("lists")}
            row["values"] = {name: json.loads(text) for name, text in row["values"]}
            metrics = {f"metrics/{name}": value for name, value in row.pop("metrics")}
            rows.append({**row, **metrics})
        return rows

    def _repr_html_(self) -> str:
        return self.to_pandas().to_html()


def load(path: str | Path, filesystem: pyarrow.fs.FileSystem | None = None) -> Catalog:
    """Read what was recorded in an experiment (or in one trial), while it runs or afterwards.

    Args:
        path: The experiment's folder: a local path, a URI such as ``s3://bucket/experiment``, or a path on
            ``filesystem``.
        filesystem: A pyarrow filesystem that ``path`` is on. None: told by the path.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    if filesystem is None:
        text = str(path)
        if "://" in text:
            filesystem, text = pyarrow.fs.FileSystem.from_uri(text)
        else:
            filesystem, text = pyarrow.fs.LocalFileSystem(), str(Path(path).expanduser().resolve())
    else:
        text = str(path)
    if filesystem.get_file_info(text).type != pyarrow.fs.FileType.Directory:
        raise FileNotFoundError(f"There is no folder {text!r}; pass the experiment's, which tuner.fit() prints.")
    rows: list[dict[str, Any]] = []
    for folder in (text, *_folders(filesystem, text)):
        rows.extend(_trial_rows(filesystem, folder))
    rows.sort(key=lambda row: (row["trial"], _number(row.get("step")), row["section"], row["key"]))
    return Catalog(text, filesystem, rows)


def _folders(filesystem: pyarrow.fs.FileSystem, path: str) -> Iterator[str]:
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector(path)):
        with contextlib.suppress(UnicodeDecodeError):  # a name that is no text: no trial's
            if not info.is_file:
                yield info.path


def format_table(catalog: Catalog, params: Sequence[str] = ()) -> str:
    """Lay out what was recorded as text, one line a clip; files are relative to the experiment."""
    header = ["trial", *params, "step", "key", "return", "frames", "file"]
    lines = [header]
    for row in catalog:
        values = [str(row["params"].get(name, "")) for name in params]
        facts = [row.get("step", ""), row["key"], _rounded(row.get("episode_return")), row.get("frames", "")]
        lines.append([row["trial"], *values, *facts, posixpath.relpath(row["file"], catalog.path)])
    lines = [[printable(str(cell)) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _trial_rows(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[dict[str, Any]]:
    lines = [line for line in read_index(filesystem, folder) if line.get("status") == STORED]
    if not lines:
        return []
    added = {"trial": posixpath.basename(folder), "params": _params(filesystem, folder)}
    place = _place_of_media(filesystem, folder, lines[0]["path"])
    return [{**line, **added, "file": posixpath.join(place, line["path"])} for line in lines]


def _place_of_media(filesystem: pyarrow.fs.FileSystem, folder: str, path: str) -> str:
    """Return where a trial's media are: beside the index, unless it is the driver's copy of it."""
    if filesystem.get_file_info(posixpath.join(folder, path)).type == pyarrow.fs.FileType.File:
        return folder
    try:
        told = json.loads(read_if_there(filesystem, posixpath.join(folder, PLACE_FILE)) or b"{}").get("media_of")
    except (ValueError, AttributeError):
        return folder
    is_there = isinstance(told, str) and filesystem.get_file_info(told).type == pyarrow.fs.FileType.Directory
    return told if is_there else folder


def _params(filesystem: pyarrow.fs.FileSystem, folder: str) -> dict[str, Any]:
    """Return the trial's scalar settings, nested ones as ``outer/inner``."""
    content = read_if_there(filesystem, posixpath.join(folder, _PARAMS))
    try:
        params = json.loads(content or b"{}")
        return dict(_scalars(params, "")) if isinstance(params, dict) else {}
    except (ValueError, RecursionError):
        return {}


def _scalars(params: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        if isinstance(value, dict):
            yield from _scalars(value, f"{prefix}{name}/")
        elif value is None or isinstance(value, (bool, int, float, str)):
            yield f"{prefix}{name}", value


def _data_frame(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    """Return rows as a DataFrame; these are its columns where there are no rows."""
    import pandas as pd

    try:
        return pd.DataFrame(rows, columns=None if rows else columns)
    except UnicodeEncodeError:  # halves of characters, which no table of Arrow's takes
        return pd.DataFrame([{_whole(name): _whole(value) for name, value in row.items()} for row in rows])


def _whole(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _number(value: Any) -> float:
    """Return what to sort by: a number, or 0 where a line has none."""
    return value if isinstance(value, (int, float)) and value == value else 0


def _rounded(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str("" if value is None else value)


def printable(text: str) -> str:
    """Return a text in which what would move, hide or colour other text of a terminal stands as its escape."""
    return text if text.isprintable() else re.sub(r"[^ -~]", _escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return character if character.isprintable() else ascii(character)[1:-1]
