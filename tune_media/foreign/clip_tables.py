"""Tables beside clips that no index lists: a JSON, JSONL or CSV file that names the clips gives more of their facts."""

from __future__ import annotations

import csv
import io
import math
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.told import Told
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.clip_columns import FACTS, FILE, Columns
from tune_media.values.secrets import error_text
from tune_media.values.strict_json import parse_json

_TOO_LARGE_TO_COUNT = 2**53  # for a float
_NAMES = {
    "return": ("episode_return", "return", "sum_reward", "episode_reward", "total_reward"),
    "seed": ("seed",),
    "success": ("success", "is_success"),
    "step": ("step", "global_step"),
}
_TRUTHS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


def read_tables(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the facts of clips in all tables of a run, if it has clips."""
    clips = files.clips
    tables = ClipTables(files.folder, clips, columns)
    for path in paths if clips else ():
        try:
            tables.add(path, files.read(path))
        except (OSError, ValueError, RecursionError) as error:
            warn_passed_over(files.full(path), error_text(error))
    told = {clip: tables.facts(clip) for clip in clips}
    facts = {clip: {**found, "columns": names} for clip, (found, names) in told.items() if names}
    return Told(clips=facts, columns=frozenset(tables.names))


class ClipTables:
    """The facts of clips in the tables of their folder, without those in which two tables differ.

    >>> tables = ClipTables("runs/task", ["a.mp4", "b.webm"])
    >>> tables.add("results.csv", b"video,return,seed\\nrecorded/on/x/task/a.mp4,1.5,7\\n../b.webm,3,1\\n")
    >>> tables.facts("a.mp4")
    ({'episode_return': 1.5, 'seed': 7}, 'return=return, seed=seed of results.csv')
    >>> tables.facts("b.webm")
    ({}, '')
    """

    def __init__(self, folder: str, clips: Collection[str], columns: Columns | None = None) -> None:
        self._folder, self._clips, self._columns = folder, frozenset(clips), columns or {}
        self.names = set[str]()  # of the columns of all rows that name a clip
        self._found: dict[tuple[str, str], set[tuple[Any, str, str]]] = {}  # value, column, table; by clip and fact

    def add(self, table: str, content: bytes) -> None:
        """Take in a table, by its path in the folder. Raises ValueError."""
        for clip, row in self._rows(table, content):
            for fact in FACTS:
                column = self._columns.get(fact) or next((name for name in _NAMES[fact] if name in row), None)
                value = None if column is None else _value(fact, row.get(column))
                if column is not None and value is not None:
                    self._found.setdefault((clip, fact), set()).add((value, column, table))

    def facts(self, clip: str) -> tuple[dict[str, Any], str]:
        """Return the facts of a clip, as an index line has them, and the columns that they come from."""
        facts, taken = {}, dict[str, list[str]]()
        for fact, name in FACTS.items():
            found = self._found.get((clip, fact), set())
            if len({value for value, _, _ in found}) == 1:
                value, column, table = min(found, key=lambda one: one[1:])
                facts[name] = value
                taken.setdefault(table, []).append(f"{fact}={column}")
        return facts, "; ".join(f"{', '.join(columns)} of {table}" for table, columns in taken.items())

    def _rows(self, table: str, content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the rows that name one clip of the folder. Raises ValueError."""
        suffix = posixpath.splitext(table)[1].lower()
        if suffix == ".json":
            yield from self._objects(posixpath.dirname(table), parse_json(content))
            return
        lines: Iterable[Any] = map(parse_json, filter(bytes.strip, content.splitlines()))
        if suffix == ".csv":
            lines = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        try:
            for row in lines:
                yield from self._objects(posixpath.dirname(table), row)
        except csv.Error as error:
            raise ValueError(str(error)) from error

    def _objects(self, place: str, value: Any, name: str = "") -> list[tuple[str, Mapping[str, Any]]]:
        """Return the innermost objects that name one clip, by a value or by their own name in the object around."""
        parts: Iterable[tuple[str, Any]] = ()
        if isinstance(value, (dict, list)):
            parts = value.items() if isinstance(value, dict) else (("", part) for part in value)
        inner = [found for own, part in parts for found in self._objects(place, part, own)]
        if inner or not isinstance(value, dict):
            return inner
        clips = any_clips = self._named(place, [name, *value.values()])
        if FILE in self._columns:
            clips = self._named(place, [value.get(self._columns[FILE])])
        if any_clips:
            self.names.update(filter(None, value))
        return [(clip, value) for clip in clips] if len(clips) == 1 else []

    def _named(self, place: str, values: Iterable[Any]) -> set[str]:
        return {clip for text in values if isinstance(text, str) and (clip := self._clip(place, text))}

    def _clip(self, place: str, text: str) -> str | None:
        """Return the clip that a text names: by its path from the table, or by one that ends like the clip's own."""
        path = posixpath.normpath(text.replace("\\", "/"))
        folder, file = posixpath.split(path)
        beside = posixpath.join(place, file)
        is_own = posixpath.basename(folder) == posixpath.basename(posixpath.join(self._folder, place).rstrip("/"))
        names = [posixpath.normpath(posixpath.join(place, path)), *([beside] if is_own else [])]
        return next((name for name in names if name in self._clips), None)


def _value(fact: str, value: Any) -> float | int | bool | None:
    """Return a fact of a table in its type, or None if the value cannot be one."""
    if fact == "success":
        return _TRUTHS.get(str(value).strip().lower())
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if fact == "return":
        return number if math.isfinite(number) else None
    is_exact = abs(number) < _TOO_LARGE_TO_COUNT and number.is_integer()
    return int(number) if is_exact and (number >= 0 or fact == "seed") else None
