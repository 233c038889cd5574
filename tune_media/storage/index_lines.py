"""The format of the index and of the log: JSON lines, each of a medium or of an event; one class for each kind."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow.fs

from tune_media.storage.filesystem import read_if_there
from tune_media.storage.passed_over import warn_of_broken_lines
from tune_media.values.strict_json import json_bytes, parse_json

INDEX_VERSION = 4
_OLDER = re.compile(rb'"v": ?[1-3],')
_OF_OLDER = "an index line of this format, but of an older one, which only tune_media of before 26 November 2026 reads"
INDEX_PATH = "media/index.jsonl"

Line = dict[str, Any]
"""A line as a JSON object, for readers of a trial's media."""
Key = tuple[str, str, str]
_STORED, _DELETED = "stored", "deleted"  # as in ``storage.entry``, which needs this module


@dataclass(slots=True, kw_only=True)
class MediumLine:
    """A line of a medium. It is never changed, and not frozen: a frozen one takes twice as long to make."""

    id: str
    section: str
    key: str
    path: str  # relative to the trial's folder
    row: int  # the number that orders it
    status: str | None = None  # one of those in ``storage.entry``, or None if another program wrote the line
    trial_id: str | None = None
    training_iteration: int | None = None
    lineage: tuple[str, ...] = ()  # the checkpoints that the trial descends from
    tries: int = 0  # how often the medium was found without its file, or stored again after that
    undone: int = 0  # the row at which the trial went back behind it, or 0
    again: int = 0  # the row at which it was recorded again, or 0
    rolled_back: bool = False
    trial: str | None = None  # the name of the trial's folder, in the log
    facts: Mapping[str, Any] = field(default_factory=dict)  # the other fields

    @property
    def place(self) -> Key:
        """Its unique key within its trial: id, section, key."""
        return self.id, self.section, self.key

    @property
    def is_stored(self) -> bool:
        """Whether it has its file."""
        return self.status == _STORED

    def deleted(self) -> MediumLine:
        """Return the line when another medium has taken its place, and its file is gone."""
        return replace(self, status=_DELETED)

    def fields(self) -> Line:
        """Return it as JSON; fields that say nothing are left out."""
        named = {"id": self.id, "section": self.section, "key": self.key, "path": self.path, "row": self.row}
        optional = {
            "status": self.status,
            "trial_id": self.trial_id,
            "training_iteration": self.training_iteration,
            "lineage": list(self.lineage) or None,
            "try": self.tries or None,
            "undone": self.undone or None,
            "again": self.again or None,
            "rolled_back": self.rolled_back or None,
            "trial": self.trial,
        }
        return {**self.facts, **named, **{name: value for name, value in optional.items() if value is not None}}


@dataclass(frozen=True)
class Event:
    """A line that is about a trial."""

    trial: str | None  # the name of its folder
    trial_id: str | None
    row: int  # the number that orders it

    def fields(self) -> Line:
        """Return it as JSON."""
        return {"v": INDEX_VERSION, "event": _NAMES[type(self)], **vars(self)}


@dataclass(frozen=True)
class BackEvent(Event):
    """``back``: the trial went back, and its next result has this iteration."""

    training_iteration: int


@dataclass(frozen=True)
class AgainEvent(Event):
    """``again``: a medium that is listed was recorded again."""

    id: str


LogLine = MediumLine | Event
_NAMES: dict[type[Event], str] = {BackEvent: "back", AgainEvent: "again"}
TYPED = frozenset(MediumLine.__dataclass_fields__) - {"tries", "facts"} | {"try"}
"""The fields of a line that are no facts."""


def read_index(filesystem: pyarrow.fs.FileSystem, folder: str) -> tuple[list[MediumLine], bool]:
    """Return the lines of a trial's index, and whether it is there, not empty and without broken lines."""
    path = posixpath.join(folder, INDEX_PATH)
    read = list(raw_lines(read_if_there(filesystem, path) or b""))
    lines = [line for _, line in read if isinstance(line, MediumLine)]
    broken = [number for number, (_, line) in enumerate(read, 1) if not isinstance(line, MediumLine)]
    is_older = broken and _OLDER.search(read[broken[0] - 1][0])
    warn_of_broken_lines(path, broken, _OF_OLDER if is_older else "an index line")
    return lines, bool(lines) and not broken


def raw_lines(content: bytes) -> Iterator[tuple[bytes, LogLine | None]]:
    """Yield the lines of a file that are not empty, each with what ``parsed`` returns of it."""
    for ended in io.BytesIO(content):  # one line at a time: a list of all of them takes as much memory as the file
        if raw := ended.rstrip(b"\n"):
            yield raw, parsed(raw)


def parsed(raw: bytes) -> LogLine | None:
    """Return a line of an index or of the log, or None if it is broken or of an older version than this one."""
    try:
        line = parse_json(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    numbers = line.get("v"), line.get("row"), line.get("undone", 0)
    if any(type(number) is not int for number in numbers) or line["v"] < INDEX_VERSION:
        return None
    return _event(line) if "event" in line else _medium_line(line)


Plain = TypeVar("Plain")


def _typed(value: object, kind: type[Plain]) -> Plain | None:
    return value if type(value) is kind else None


def _medium_line(line: Line) -> MediumLine | None:
    """Return a line of a medium, without values of a wrong type, or None if its path is not inside its trial's folder.

    The line keeps the object as its facts.
    """
    take = line.pop
    id, section, key, path = take("id", None), take("section", None), take("key", None), take("path", None)
    if not (isinstance(id, str) and isinstance(section, str) and isinstance(key, str) and isinstance(path, str)):
        return None
    may_leave = "/." in path or "//" in path or path.startswith(("/", ".")) or path.endswith("/") or not path
    if not path.isprintable() or "\\" in path or (may_leave and {"", ".", ".."} & set(path.split("/"))):
        return None
    return MediumLine(
        id=id,
        section=section,
        key=key,
        path=path,
        row=take("row"),
        status=_typed(take("status", None), str),
        trial_id=_typed(take("trial_id", None), str),
        training_iteration=_typed(take("training_iteration", None), int),
        lineage=tuple(map(str, _typed(take("lineage", None), list) or ())),
        tries=_typed(take("try", 0), int) or 0,
        undone=take("undone", 0),
        again=_typed(take("again", 0), int) or 0,
        rolled_back=take("rolled_back", False) is True,
        trial=_typed(take("trial", None), str),
        facts=line,
    )


def _event(line: Line) -> Event | None:
    """Return an event, or None if it lacks a field that the fold needs, or is of a later version of this package."""
    about = _typed(line.get("trial"), str), _typed(line.get("trial_id"), str), int(line["row"])
    kind, id, iteration = line["event"], line.get("id"), line.get("training_iteration")
    if not isinstance(kind, str) or line["row"] <= 0:
        return None
    if kind == "back":
        return BackEvent(*about, iteration) if type(iteration) is int else None
    if kind == "again":
        return AgainEvent(*about, id) if isinstance(id, str) else None
    return None


def content_of(lines: Iterable[LogLine]) -> bytes:
    """Return lines as the content of a file."""
    return b"".join(as_json(line) + b"\n" for line in lines)


def as_json(line: LogLine) -> bytes:
    """Return a line as JSON."""
    return json_bytes(line.fields())
