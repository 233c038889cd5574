"""The format of the index and of the log: JSON lines, each of a medium or of an event."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.fs

from tune_media.storage.filesystem import read_if_there
from tune_media.storage.passed_over import warn_of_broken_lines
from tune_media.values.strict_json import json_bytes, parse_json

INDEX_VERSION = 4
INDEX_PATH = "media/index.jsonl"

Line = dict[str, Any]
Key = tuple[str, str, str]


def key_of(line: Line) -> Key:
    """Return the line's unique key within its trial: id, section, key."""
    return str(line["id"]), str(line["section"]), str(line["key"])


def read_index(filesystem: pyarrow.fs.FileSystem, folder: str) -> tuple[list[Line], bool]:
    """Return the lines of a trial's index, and whether it is whole: there, not empty, and without broken lines.

    All readers of a trial's index call this function, or ``listed_lines``.

    Raises:
        OSError: The filesystem does not answer.
    """
    path = posixpath.join(folder, INDEX_PATH)
    found = [line for _, line in raw_lines(read_if_there(filesystem, path) or b"")]
    broken = [number for number, line in enumerate(found, 1) if line is None or "event" in line]
    warn_of_broken_lines(path, broken, "an index line")
    lines = [line for line in found if line is not None and "event" not in line]
    return lines, bool(lines) and not broken


def listed_lines(filesystem: pyarrow.fs.FileSystem, folder: str) -> Iterator[Line]:
    """Yield the lines of a trial's index one by one, for a caller that needs the first ones only.

    Raises:
        OSError: The filesystem does not answer.
    """
    for _, line in raw_lines(read_if_there(filesystem, posixpath.join(folder, INDEX_PATH)) or b""):
        if line is not None and "event" not in line:
            yield line


def raw_lines(content: bytes) -> Iterator[tuple[bytes, Line | None]]:
    """Yield the lines of a file that are not empty, each with what ``parsed`` returns of it."""
    for raw in content.split(b"\n"):
        if raw:
            yield raw, parsed(raw)


def parsed(raw: bytes) -> Line | None:
    """Return a line of an index or of the log; None if it is none, not whole, or of an older version than this one."""
    try:
        line = parse_json(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    numbers = line.get("v"), line.get("row"), line.get("undone", 0)
    if any(type(number) is not int for number in numbers) or line["v"] < INDEX_VERSION:
        return None
    return line if (is_event(line) if "event" in line else is_line(line)) else None


def is_line(line: Line) -> bool:
    """Return whether a line is one of a medium, and names a file inside its trial's folder."""
    path = line.get("path")
    texts = all(isinstance(line.get(name), str) for name in ("id", "section", "key"))
    if not texts or not isinstance(path, str) or not path.isprintable() or "\\" in path:
        return False
    may_leave = "/." in path or "//" in path or path.startswith(("/", ".")) or path.endswith("/") or not path
    return not may_leave or not {"", ".", ".."} & set(path.split("/"))


def is_event(event: Line) -> bool:
    """Return whether an event has the fields that the fold needs; events of a later version are let through."""
    name = {"again": "id", "deleted": "path", "back": "training_iteration"}.get(str(event["event"]))
    kind = int if name == "training_iteration" else str
    return isinstance(event["event"], str) and event["row"] > 0 and (name is None or type(event.get(name)) is kind)


def event_line(kind: str, trial: str, trial_id: str, row: int, **facts: object) -> Line:
    """Return an event of the log.

    Args:
        kind: ``back`` (with ``training_iteration``) or ``again`` (with ``id``).
        trial: The name of the trial's folder.
        row: The number that orders it.

    >>> event_line("again", "train_0", "t0", 7, id="ab")["event"]
    'again'
    """
    return {"v": INDEX_VERSION, "event": kind, "trial": trial, "trial_id": trial_id, "row": row, **facts}


def content_of(lines: Iterable[Line]) -> bytes:
    """Return lines as the content of a file."""
    return b"".join(json_bytes(line) + b"\n" for line in lines)
