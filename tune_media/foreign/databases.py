"""Reads the SQLite databases of MLflow and Trackio, whose clips alone lie in folders of runs."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tune_media.foreign.curve_cache import Series
from tune_media.foreign.logged_clips import clips_in_rows
from tune_media.foreign.logged_rows import STEP, TIME, curves_of_rows, series_of_rows
from tune_media.foreign.return_tags import curves_of
from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.settings import env_id_of, literal, without_own
from tune_media.foreign.told import Curve, Told, unread
from tune_media.storage.filesystem import local_path
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.clip_columns import Columns
from tune_media.values.strict_json import parse_json

_MLFLOW_ID = re.compile(r"[0-9a-f]{32}")


class _Database(NamedTuple):
    """A database, the run's name in it, and how its hyperparameters, curves and rows with clips are read."""

    path: Path
    run: str
    config: Callable[[sqlite3.Connection, str], dict[str, Any]]
    curves: Callable[[sqlite3.Connection, str, Columns], list[Curve]]
    clips: Callable[[sqlite3.Connection, str], list[dict[str, Any]]]


def read_database(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Read what the database of its tool tells of a run; nothing if there is none on this machine's disk."""
    database = _database_of(files)
    if database is None or not database.path.is_file():
        return Told()
    try:
        with _opened(database.path) as connection:
            config = database.config(connection, database.run)
            clips = clips_in_rows(database.clips(connection, database.run), frozenset(files.clips))
    except (OSError, sqlite3.Error, ValueError) as error:
        return Told(not_understood=[unread(database.path.name, error)])
    return Told(
        config=without_own(config, files.folder),
        env_id=env_id_of(config),
        clips=clips,
        curves=functools.partial(_curves, database, columns or {}),
    )


def _database_of(files: RunFiles) -> _Database | None:
    """Return the database that lies where the tool of this run has it, three folders above."""
    local = local_path(files.filesystem, files.folder)
    folder = Path(local or ".")
    if len(folder.parents) < 3:
        return None
    project, media, above = folder.parents[:3]
    if media.name == "media":
        readers = _config_of_trackio, _curves_of_trackio, _clips_of_trackio
        return _Database(above / f"{project.name}.db", folder.name, *readers)
    if _MLFLOW_ID.fullmatch(folder.name):
        return _Database(above / "mlflow.db", folder.name, _config_of_mlflow, _curves_of_mlflow, lambda *_: [])
    return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database so that SQLite writes nothing beside it: with the log of a killed writer, it opens a copy."""
    log, index = (path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))
    options = "mode=ro" if log.exists() else "mode=ro&immutable=1"
    with contextlib.ExitStack() as stack:
        if log.exists() and not index.exists():  # which SQLite would make
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tune_media-")))
            for file in (path, log):
                shutil.copy(file, folder)
            path = folder / path.name
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True)
        stack.enter_context(contextlib.closing(connection))
        views = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall()
        if views:  # which may take for ever
            raise ValueError(f"it has the view {views[0][0]!r}, so it is none of MLflow or Trackio")
        yield connection


def _curves(database: _Database, columns: Columns) -> list[Curve]:
    try:
        with _opened(database.path) as connection:
            return database.curves(connection, database.run, columns)
    except (OSError, sqlite3.Error, ValueError) as error:
        warn_passed_over(str(database.path), str(error))
        return []


def _config_of_mlflow(connection: sqlite3.Connection, run: str) -> dict[str, Any]:
    rows = connection.execute("SELECT key, value FROM params WHERE run_uuid = ?", (run,))
    return {name: literal(text) for name, text in rows}


def _curves_of_mlflow(connection: sqlite3.Connection, run: str, columns: Columns) -> list[Curve]:
    query = "SELECT key, step, value, timestamp, is_nan FROM metrics WHERE run_uuid = ? ORDER BY timestamp, step"
    found: dict[str, list[tuple[float, ...]]] = {}
    for name, step, value, time, is_nan in connection.execute(query, (run,)):
        found.setdefault(name, []).append((step, np.nan if is_nan else value, time / 1000))
    return curves_of({("", name): Series(*np.array(rows, float).T) for name, rows in found.items()}, columns)


def _config_of_trackio(connection: sqlite3.Connection, run: str) -> dict[str, Any]:
    rows = connection.execute("SELECT config FROM configs WHERE run_name = ? ORDER BY id DESC LIMIT 1", (run,))
    config = _parsed(*next(rows, ("{}",)))
    return {name: value for name, value in config.items() if not name.startswith("_")}


def _curves_of_trackio(connection: sqlite3.Connection, run: str, columns: Columns) -> list[Curve]:
    rows = connection.execute("SELECT metrics, step, timestamp FROM metrics WHERE run_name = ? ORDER BY id", (run,))
    times = ((numbers, step, datetime.fromisoformat(time).timestamp()) for numbers, step, time in rows)
    found = series_of_rows({**_parsed(numbers), STEP: step, TIME: time} for numbers, step, time in times)
    return curves_of_rows(found, columns)


def _clips_of_trackio(connection: sqlite3.Connection, run: str) -> list[dict[str, Any]]:
    query = "SELECT metrics, step FROM metrics WHERE run_name = ? AND instr(CAST(metrics AS TEXT), 'trackio.video')"
    return [{**_parsed(media), STEP: step} for media, step in connection.execute(f"{query} ORDER BY id", (run,))]


def _parsed(text: bytes | str) -> dict[str, Any]:
    value = parse_json(text.encode() if isinstance(text, str) else text)
    return value if isinstance(value, dict) else {}
