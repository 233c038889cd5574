"""The names of Trackio that are not public and that we need; ``tests/callbacks/test_trackio_names.py`` pins each."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any


def check_project(name: str) -> None:
    """Raise ValueError if Trackio does not take a project's name."""
    from trackio.sqlite_storage import SQLiteStorage

    SQLiteStorage.validate_project_name(name)


def reserved_keys() -> Collection[str]:
    """Return the names that a number cannot have."""
    from trackio.utils import RESERVED_KEYS

    keys: Collection[str] = RESERVED_KEYS
    return keys


def as_value(shown: Any, *place: Any) -> dict[str, Any]:
    """Return a table or a histogram of Trackio's as a row has it; a table is written at project, run and step."""
    value: dict[str, Any] = shown._to_dict(*place)
    return value


def as_file(shown: Any, file: Path) -> dict[str, Any]:
    """Return a clip or a picture of Trackio's as a row has it: the file itself, no copy with a random name."""
    from trackio.utils import MEDIA_DIR

    shown._file_path = file.relative_to(MEDIA_DIR)
    return as_value(shown)


def media_folder(project: str, run: str, step: int) -> Path:
    """Return the folder of the files of a step, made if need be."""
    import trackio

    return Path(trackio.get_project_media_path(project, run, step))


class RecordWriter:
    """Writes records of rows, each with an id: Trackio ignores a record whose id it has."""

    def __init__(self) -> None:
        self._fragments: Any = None  # on a network's disk, where Trackio reads the files in the order of their names

    def __getstate__(self) -> dict[str, Any]:
        return {"_fragments": None}

    def write(self, facts: Mapping[str, Any]) -> None:
        """Write a record; raises OSError or sqlite3.OperationalError if the disk does not take it."""
        from trackio import fragments, utils

        records = [fragments.metric_record(dict(facts))]
        if utils.get_storage_mode() == "jsonl":
            self._fragments = self._fragments or fragments.FragmentWriter(f"{time.time_ns():020d}")
            self._fragments.write_local(records)
        else:
            fragments.import_records(records)
