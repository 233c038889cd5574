"""The format of the index: JSON lines, of which the last of each key is valid."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

import pyarrow.fs

from tune_media.storage.filesystem import read_if_there
from tune_media.values.strict_json import json_bytes, parse_json

INDEX_VERSION = 3
"""Version 1 had one line for each key at any time. From version 2 on, a change of a medium is one more line. Version 3
has the stamp ``at`` in each line, and is a view of the experiment's log."""

INDEX_PATH = "media/index.jsonl"

Line = dict[str, Any]
Key = tuple[str, str, str]


def key_of(line: Line) -> Key:
    """Return the line's unique key: id, section, key."""
    return str(line["id"]), str(line["section"]), str(line["key"])


def valid_raw_lines(content: bytes) -> list[tuple[bytes, Line]]:
    r"""Return the last line of each key, as it is in the file and parsed, in the order in which the keys first appear.

    Example:
        >>> line = b'{"id": "a", "section": "train", "key": "k", "path": "media/x.mp4", "status": "%s"}'
        >>> found = valid_raw_lines(line % b"stored" + b"\n" + line % b"deleted" + b"\n{half")
        >>> [line["status"] for _, line in found]
        ['deleted']
    """
    return list({key_of(line): (raw, line) for raw, line in raw_lines(content) if line is not None}.values())


def lines_of_trial(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[tuple[bytes, Line]] | None:
    """Read the valid lines of a trial's index, each as it is in the file and parsed; None if it has no index.

    All readers of a trial's index call this function.

    Args:
        filesystem: Any pyarrow filesystem; several threads may share it.
        folder: The trial's folder on it.

    Raises:
        OSError: The filesystem does not answer.
    """
    content = read_if_there(filesystem, posixpath.join(folder, INDEX_PATH))
    return None if content is None else valid_raw_lines(content)


def changed_line(line: Line, changes: Line) -> bytes:
    """Return a line with changes, as JSON; None as a value removes the field."""
    changed = {**line, **changes, "v": INDEX_VERSION}
    return json_bytes({name: value for name, value in changed.items() if value is not None})


def raw_lines(content: bytes) -> Iterator[tuple[bytes, Line | None]]:
    """Yield the lines of a file that are not empty, each with the parsed index line, or None if it is no index line."""
    for raw in content.split(b"\n"):
        if not raw:
            continue
        try:
            line = parse_json(raw)
        except ValueError:
            line = None
        yield raw, line if is_line(line) else None


def is_line(line: Any) -> bool:
    """Say whether a value is an index line that names a file inside its trial's folder."""
    if not isinstance(line, dict):
        return False
    path = line.get("path")
    texts = (
        isinstance(line.get("id"), str) and isinstance(line.get("section"), str) and isinstance(line.get("key"), str)
    )
    if not texts or not isinstance(path, str) or not path.isprintable() or "\\" in path:
        return False
    may_leave = "/." in path or "//" in path or path.startswith(("/", ".")) or path.endswith("/") or not path
    return not may_leave or not {"", ".", ".."} & set(path.split("/"))
