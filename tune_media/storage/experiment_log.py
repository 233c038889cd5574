"""The log of an experiment on its storage: each line of each trial, written before the file that it names.

``<experiment>/.tune_media_log/<outbox>-<generation>.jsonl``, on an object store ``<outbox>-<generation>-<part>.jsonl``,
holds JSON lines: index lines, each with ``trial`` (the name of the trial's folder) and ``at`` (its stamp), and events:
``{"event": "back", "training_iteration": N}``, ``{"event": "deleted", "path": ...}``, ``{"event": "again", "id":
...}``, and those of ``suspects.py``. A trial's ``media/index.jsonl`` is a view of them. When a driver has completed all
indexes, its log ends in ``.done.jsonl``, with all parts in one file; readers leave it out, unless a trial's index is
lost, empty or damaged.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

import pyarrow.fs

from tune_media.storage.filesystem import append_whole, file_info, read_if_there, write_atomically
from tune_media.storage.index_lines import is_line
from tune_media.storage.passed_over import warn_of_broken_lines
from tune_media.values.strict_json import json_bytes, parse_json

FOLDER = ".tune_media_log"
_PART, _DONE = ".jsonl", ".done.jsonl"
_MOST_PARTS = 16  # of one driver, on a remote storage; then they become one larger part

Event = dict[str, Any]


class ExperimentLog:
    """The part of an experiment's log that one process writes. One thread calls all methods.

    On the storage of this machine it is one file that grows. An object store takes whole objects only: there each call
    of ``append`` writes a small one, and sixteen of them become a larger one.

    Args:
        filesystem: The storage.
        experiment: The experiment's folder on it.
        name: The name of this process's parts, which no other process uses.

    Raises:
        OSError: The storage does not answer.

    Attributes:
        grows: Whether it is one file that grows.
        has_earlier: Whether other processes had left parts that were not done when this one began.

    Example:
        >>> import tempfile
        >>> folder, local = tempfile.mkdtemp(), pyarrow.fs.LocalFileSystem()
        >>> log = ExperimentLog(local, folder, "box-1")
        >>> log.append([{"trial": "t1", "event": "again", "id": "x", "at": [1, 2]}])
        >>> read_log(local, folder)["t1"][0]["event"]
        'again'
        >>> log.finish()
        >>> read_log(local, folder), len(read_log(local, folder, done=True)["t1"])
        ({}, 1)
    """

    def __init__(self, filesystem: pyarrow.fs.FileSystem, experiment: str, name: str) -> None:
        self._filesystem, self._name = filesystem, name
        self._folder = posixpath.join(experiment, FOLDER)
        self.grows = str(filesystem.type_name) == "local"
        self._earlier = {info.path: info.size for info in _parts_in(filesystem, self._folder)}  # by other processes
        self.has_earlier = bool(self._earlier)
        self._count = 0
        self._parts: list[list[tuple[str, bytes]]] = []  # by level: the path and content of each part

    def append(self, lines: Iterable[Event]) -> None:
        """Write lines.

        Raises:
            OSError: The storage does not answer.
        """
        content = b"".join(json_bytes(line) + b"\n" for line in lines)
        if not content:
            return
        if self.grows:
            self._filesystem.create_dir(self._folder, recursive=True)
            append_whole(Path(self._folder, f"{self._name}{_PART}"), content)
            return
        self._write_part(0, content)
        for level in range(len(self._parts)):
            if len(self._parts[level]) >= _MOST_PARTS:
                parts, self._parts[level] = self._parts[level], []
                self._write_part(level + 1, b"".join(part for _, part in parts))
                for path, _ in parts:
                    with contextlib.suppress(OSError):  # what stays is read twice, which changes nothing
                        self._filesystem.delete_file(path)

    def finish(self) -> None:
        """Put the parts together, and those that earlier processes left: all indexes are complete.

        The parts of a process that has written since this log was made are left to it.

        Raises:
            OSError: The storage does not answer.
        """
        found = {info.path: info.size for info in _parts_in(self._filesystem, self._folder)}
        mine = posixpath.join(self._folder, self._name)
        parts = [
            path
            for path, size in found.items()
            if path.startswith((f"{mine}-", f"{mine}.")) or self._earlier.get(path) == size
        ]
        if self.grows:
            for path in parts:
                done = path.removesuffix(_PART) + _DONE
                if self._filesystem.get_file_info(done).is_file:  # another process has put a part of it there
                    append_whole(Path(done), read_if_there(self._filesystem, path) or b"")
                    self._filesystem.delete_file(path)
                else:
                    self._filesystem.move(path, done)
        elif parts:
            content = b"".join(read_if_there(self._filesystem, path) or b"" for path in parts)
            write_atomically(self._filesystem, posixpath.join(self._folder, f"{self._name}{_DONE}"), content)
            for path in parts:
                self._filesystem.delete_file(path)
        self._parts = []

    def _write_part(self, level: int, content: bytes) -> None:
        path = posixpath.join(self._folder, f"{self._name}-{self._count:06d}{_PART}")
        write_atomically(self._filesystem, path, content)
        self._count += 1
        while len(self._parts) <= level:
            self._parts.append([])
        self._parts[level].append((path, content))


def read_log(filesystem: pyarrow.fs.FileSystem, experiment: str, *, done: bool = False) -> dict[str, list[Event]]:
    """Return the lines of an experiment's log by the name of the trial's folder, in the order of their stamps.

    Lines and events that are not whole are passed over, with a warning.

    Args:
        filesystem: The storage.
        experiment: The experiment's folder on it.
        done: Read the parts, too, whose lines are all in the trials' indexes.

    Raises:
        OSError: The storage does not answer.
    """
    events: dict[str, dict[bytes, Event]] = {}
    for info in _parts_in(filesystem, posixpath.join(experiment, FOLDER), done=done):
        broken = []
        *lines, half = (read_if_there(filesystem, info.path) or b"").split(b"\n")  # a writer may be at the last one
        for number, raw in enumerate([*lines, half], 1):
            event = _parsed(raw)
            if event is not None:
                events.setdefault(event["trial"], {})[raw] = event
            elif raw and number <= len(lines):
                broken.append(number)
        warn_of_broken_lines(info.path, broken, "a line of the log")
    return {trial: sorted(lines.values(), key=stamp_of) for trial, lines in events.items()}


def unfinished_parts(filesystem: pyarrow.fs.FileSystem, experiment: str) -> list[pyarrow.fs.FileInfo]:
    """Return the parts of an experiment's log that are not done: of a driver that lives, or was killed.

    Raises:
        OSError: The storage does not answer.
    """
    return _parts_in(filesystem, posixpath.join(experiment, FOLDER))


def _parts_in(filesystem: pyarrow.fs.FileSystem, folder: str, *, done: bool = False) -> list[pyarrow.fs.FileInfo]:
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True))
    parts = [info for info in found if info.path.endswith(_PART) and (done or not info.path.endswith(_DONE))]
    return [info for info in parts if info.is_file or file_info(filesystem, info.path)]


def stamp_of(line: Mapping[str, Any]) -> tuple[int, int]:
    """Return the stamp of a line, by which lines and events are ordered; lines of older versions come first.

    >>> stamp_of({"at": [5, 7]}), stamp_of({"at": "odd"})
    ((5, 7), (0, 0))
    """
    at = line.get("at")
    if isinstance(at, list) and len(at) == 2 and all(type(number) is int for number in at):
        return at[0], at[1]
    return 0, 0


def row_of(line: Mapping[str, Any]) -> int:
    """Return the number of the row with which trackers got a medium, by its index line.

    >>> row_of({"at": [5, 7]}), row_of({"at": [5, 7], "row": 9})
    (7, 9)
    """
    row, at = line.get("row"), stamp_of(line)[1]
    return max(row, at) if type(row) is int else at


def _parsed(raw: bytes) -> Event | None:
    try:
        event = parse_json(raw) if raw else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("trial"), str):
        return None
    return event if is_line(event) or _is_event(event) else None


def _is_event(event: Event) -> bool:
    """Say whether it has a stamp and the field that ``Index.apply`` needs; unknown events, of a later version, have."""
    kind, at = event.get("event"), stamp_of(event) != (0, 0)
    if kind == "back":
        return at and type(event.get("training_iteration")) is int
    if kind in ("again", "deleted"):
        return at and isinstance(event.get("id" if kind == "again" else "path"), str)
    if kind in ("suspect", "settled"):
        ids, note = event.get("ids"), event.get("note")
        return isinstance(ids, list) and all(isinstance(id, str) for id in ids) and isinstance(note, (str, NoneType))
    return isinstance(kind, str)
