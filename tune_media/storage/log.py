"""The log of an experiment on its storage: each line of each trial, written before the file that it names.

``<experiment>/.tune_media_log/<first row>-<last row>-<owner>-<writer>-<number>-<level>.jsonl`` holds lines and events
as ``index_lines`` has them, each with ``trial``, the name of the trial's folder. A part is never changed, and its name
is used once; what a killed process has half written stays under another name, which no reader takes.
``<writer>.done.json`` names parts whose lines are all in the trials' indexes: readers leave them out, unless a trial's
index is lost, empty or damaged. ``delivered.json`` is the number of a row up to which all readers had everything, if
one was behind when Tune took a snapshot.
"""

from __future__ import annotations

import contextlib
import functools
import json
import posixpath
import re
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow.fs

from tune_media.storage.filesystem import is_listed_file, is_local, read_if_there, write_atomically
from tune_media.storage.index_lines import LogLine, as_json, raw_lines
from tune_media.storage.passed_over import warn_of_broken_lines, warn_passed_over

FOLDER = ".tune_media_log"
_DONE = ".done.json"
_DELIVERED = "delivered.json"
_NAME = re.compile(r"(\d+)-(\d+)-([0-9a-z]+)-([0-9a-f]{8})-(\d+)-(\d)\.jsonl")
_MOST_PARTS = 16  # of a level; then they become one of the next
_LARGEST_PART = 8 * 2**20  # bytes: a larger one is not merged again
_MERGED_SECONDS = 60.0  # parts stay so long after they were merged: a reader may have listed them before
_MAX_CACHED = 64 * 2**20  # bytes of parts
_LIST_SECONDS = 2.0  # all trials that are read in so long share one LIST of a remote storage
_MAX_LOGS = 8
_MAX_NOTES = 1000
_TRIES = 5

Parsed = list[tuple[bytes, LogLine | None]]
_parts: dict[tuple[str, str], tuple[int, Parsed]] = {}  # size and lines, by storage and path: parts never change
_listed: dict[tuple[str, str], tuple[float, list[Part]]] = {}  # when, and what, by storage and experiment
_logs: dict[tuple[str, str, bool], Log] = {}  # by storage, experiment, and whether parts that are done are read
_notes: dict[tuple[str, str], list[str]] = {}  # the parts that are done, by storage and path of the note
_lock = threading.Lock()


@dataclass(frozen=True)
class Part:
    """A file of the log."""

    path: str
    last: int  # the last row that it is about
    owner: str  # the id of the outbox of the driver that wrote it
    writer: str  # the process that wrote it
    number: int  # among the parts of its process
    level: int  # how often its lines were merged
    written: float  # seconds since 1970, by the storage's clock
    is_done: bool  # its lines are all in the trials' indexes


@dataclass(frozen=True)
class Log:
    """The parts of a log that were read."""

    parts: Sequence[Part] = ()
    lines: dict[str, list[LogLine]] = field(default_factory=dict)  # by the name of the trial's folder
    newest: dict[str, list[LogLine]] = field(default_factory=dict)  # of each writer's newest part: files may be missing

    @property
    def last_row(self) -> int:
        """The highest row of all parts; 0 if there is none."""
        return max((part.last for part in self.parts), default=0)

    @property
    def written(self) -> float:
        """When the newest part was written, seconds since 1970; 0 if there is none."""
        return max((part.written for part in self.parts), default=0.0)


class PartWriter:
    """The parts of an experiment's log that one process writes. One thread calls all methods.

    >>> import tempfile
    >>> from tune_media.storage.index_lines import AgainEvent
    >>> folder, local = tempfile.mkdtemp(), pyarrow.fs.LocalFileSystem()
    >>> log = PartWriter(local, folder, "example")
    >>> _ = log.append(7, 7, [AgainEvent("train_0", "t1", 7, id="x")])
    >>> read_log(local, folder).lines["train_0"]
    [AgainEvent(trial='train_0', trial_id='t1', row=7, id='x')]
    >>> log.finish()
    >>> read_log(local, folder).lines, len(read_log(local, folder, done=True).lines["train_0"])
    ({}, 1)
    """

    def __init__(self, filesystem: pyarrow.fs.FileSystem, experiment: str, owner: str) -> None:
        self._filesystem, self._folder = filesystem, posixpath.join(experiment, FOLDER)
        self.owner, self.writer = owner, uuid.uuid4().hex[:8]
        self._count = 0
        self._levels: list[list[tuple[str, int, int, bytes]]] = [[]]  # name, rows and content of parts to be merged
        self._merged: list[tuple[float, str]] = []  # when, and the names of parts that were

    def append(self, first: int, last: int, lines: Iterable[LogLine]) -> list[bytes]:
        """Write lines of the rows ``first`` to ``last`` as a part, unless there are none; return them as JSON.

        After an OSError, try again with the same lines.
        """
        written = list(map(as_json, lines))
        if written:
            self._merge()
            self._write(first, last, b"\n".join([*written, b""]), 0)
        return written

    def finish(self, earlier: Iterable[Part] = ()) -> None:
        """Note that the indexes have all lines of this process's parts, and of ``earlier`` ones. Raises OSError."""
        written = [part for part in list_parts(self._filesystem, self._folder) if part.writer == self.writer]
        names = sorted({posixpath.basename(part.path) for part in (*written, *earlier)})
        if names:
            path = posixpath.join(self._folder, f"{self.writer}{_DONE}")
            write_atomically(self._filesystem, path, json.dumps(names).encode())
        _forget()

    def _merge(self) -> None:
        """Merge the parts of full levels, and delete those that were merged long enough ago."""
        for level, parts in enumerate(self._levels[:9]):
            if len(parts) < _MOST_PARTS:
                break
            content = b"".join(content for *_, content in parts)
            self._levels[level] = []
            try:
                self._write(parts[0][1], parts[-1][2], content, level + 1)
            except BaseException:
                self._levels[level] = parts
                raise
            self._merged += [(time.monotonic(), name) for name, *_ in parts]
        while self._merged and time.monotonic() - self._merged[0][0] > _MERGED_SECONDS:
            with contextlib.suppress(OSError):  # what stays is read twice, which changes nothing
                self._filesystem.delete_file(posixpath.join(self._folder, self._merged[0][1]))
            self._merged.pop(0)

    def _write(self, first: int, last: int, content: bytes, level: int) -> None:
        name = f"{first}-{last}-{self.owner}-{self.writer}-{self._count + 1}-{level}.jsonl"
        write_atomically(self._filesystem, posixpath.join(self._folder, name), content)
        self._count += 1
        if len(content) < _LARGEST_PART:
            self._levels += [[]] * (level + 1 - len(self._levels))
            self._levels[level] = [*self._levels[level], (name, first, last, content)]
        _forget()


def read_log(filesystem: pyarrow.fs.FileSystem, experiment: str, *, done: bool = False) -> Log:
    """Read an experiment's log, with one LIST; lines and events that are not whole are passed over, with a warning.

    ``done``: read also the parts whose lines are all in the trials' indexes. Several threads may call this.
    Raises OSError.
    """
    with _turn_of(str(filesystem.type_name), experiment):  # callers at the same time share the LIST and the parts
        for again in range(_TRIES):
            parts = _parts_of(filesystem, experiment, again=bool(again))
            wanted = [part for part in parts if done or not part.is_done]
            key = str(filesystem.type_name), experiment, len(wanted) == len(parts)  # if none is done, both logs are one
            log = _logs.get(key)
            if log is None or log.parts != wanted:
                contents = [_read_part(filesystem, part) for part in wanted]
                if None in contents:  # parts were merged since they were listed
                    continue
                log = _log_of(wanted, [content or [] for content in contents])
            with _lock:
                _logs.pop(key, None)
                _logs[key] = log
                while len(_logs) > _MAX_LOGS:
                    del _logs[next(iter(_logs))]
            return log
    raise OSError(f"the parts of the log of {experiment} vanish as they are read")


@functools.lru_cache(maxsize=1000)
def _turn_of(kind: str, experiment: str) -> threading.Lock:
    return threading.Lock()


def _parts_of(filesystem: pyarrow.fs.FileSystem, experiment: str, *, again: bool = False) -> list[Part]:
    """Return the parts of a log; on a remote storage they were listed at most two seconds ago, unless ``again``."""
    place = str(filesystem.type_name), experiment
    with _lock:
        listed, parts = _listed.get(place, (float("-inf"), []))
    if again or is_local(filesystem) or time.monotonic() - listed >= _LIST_SECONDS:
        listed, parts = time.monotonic(), list_parts(filesystem, posixpath.join(experiment, FOLDER))
        with _lock:
            _listed.pop(place, None)
            _listed[place] = listed, parts
            while len(_listed) > _MAX_LOGS:
                del _listed[next(iter(_listed))]
    return parts


def _forget() -> None:
    """List the log again: this process sees its own lines at once."""
    with _lock:
        _listed.clear()


def _log_of(parts: list[Part], contents: list[Parsed]) -> Log:
    lines: dict[str, dict[bytes, LogLine]] = {}
    newest: dict[str, list[LogLine]] = {}
    last = {part.writer: part.number for part in sorted(parts, key=lambda part: part.number) if not part.level}
    for part, content in zip(parts, contents, strict=True):
        broken = []
        for number, (raw, line) in enumerate(content, 1):
            if line is None or line.trial is None:
                broken.append(number)
                continue
            lines.setdefault(line.trial, {})[raw] = line
            if not part.level and part.number == last[part.writer]:
                newest.setdefault(line.trial, []).append(line)
        warn_of_broken_lines(part.path, broken, "a line of the log")
    return Log(parts, {trial: list(by_json.values()) for trial, by_json in lines.items()}, newest)


def list_parts(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[Part]:
    """Return the parts in the folder of a log. Raises OSError."""
    files = list(filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True)))
    notes = [info.path for info in files if info.path.endswith(_DONE)]
    are_done = {name for path in notes for name in _named(filesystem, path)}
    parts = []
    for info in files:
        name = posixpath.basename(info.path)
        match = _NAME.fullmatch(name)
        if match and is_listed_file(filesystem, info):
            _, last, owner, writer, number, level = match.groups()
            numbers, written = (int(number), int(level)), (info.mtime_ns or 0) / 1e9
            parts.append(Part(info.path, int(last), owner, writer, *numbers, written, name in are_done))
    return parts


def _named(filesystem: pyarrow.fs.FileSystem, path: str) -> list[str]:
    """Return the names of the parts that a note says are done; such a note is never changed."""
    key = str(filesystem.type_name), path
    with _lock:
        cached = _notes.get(key)
    if cached is not None:
        return cached
    content, note = read_if_there(filesystem, path), None
    with contextlib.suppress(ValueError, RecursionError):
        note = json.loads(content or b"[]")
    if not isinstance(note, list):
        warn_passed_over(path, "it does not name parts of the log")
        note = []
    names = [name for name in note if isinstance(name, str)]
    with _lock:
        while len(_notes) > _MAX_NOTES:
            del _notes[next(iter(_notes))]
        _notes[key] = names
    return names


def is_logged(filesystem: pyarrow.fs.FileSystem, folder: str) -> bool:
    """Return whether the log of a trial's experiment has lines of the trial. Raises OSError."""
    experiment, name = posixpath.split(folder.rstrip("/"))
    return name in read_log(filesystem, experiment).lines


def has_log(filesystem: pyarrow.fs.FileSystem, experiment: str) -> bool:
    """Return whether an experiment has a log: if so, its folder is the one on the storage. Raises OSError."""
    return bool(_parts_of(filesystem, experiment))


def _read_part(filesystem: pyarrow.fs.FileSystem, part: Part) -> Parsed | None:
    key = str(filesystem.type_name), part.path
    with _lock:
        cached = _parts.pop(key, None)
    if cached is None:
        content = read_if_there(filesystem, part.path)
        if content is None:
            return None
        cached = len(content), list(raw_lines(content))
    with _lock:
        _parts[key] = cached
        size = sum(nbytes for nbytes, _ in _parts.values())
        while size > _MAX_CACHED:
            size -= _parts.pop(next(iter(_parts)))[0]
    return cached[1]


def note_delivered(filesystem: pyarrow.fs.FileSystem, experiment: str, row: int) -> None:
    """Note that the storage and all trackers have everything up to a row. Raises OSError."""
    write_atomically(filesystem, posixpath.join(experiment, FOLDER, _DELIVERED), json.dumps(row).encode())


def delivered_to(filesystem: pyarrow.fs.FileSystem, experiment: str) -> int:
    """Return the row that was noted last; 0 if none was, or if that cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return int(json.loads(read_if_there(filesystem, posixpath.join(experiment, FOLDER, _DELIVERED)) or b"0"))
    return 0
