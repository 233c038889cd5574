"""Tables beside clips that no index lists: a JSON, JSONL or CSV file that names the clips gives more of their facts.

A JSON file with a clip's own name (``a.json``, or Gymnasium's ``a.meta.json``, beside ``a.mp4``) is of this clip, and a
``trajectory.json`` of the only clip in its folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tune_media.foreign.clip_facts import columns_text, facts_of, names_of
from tune_media.foreign.clip_paths import named_clip
from tune_media.foreign.run_files import RunFiles, values_in
from tune_media.foreign.told import Told, unnamed
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.checks import first_names
from tune_media.values.clip_columns import FACTS, FILE, Columns
from tune_media.values.number import number_in
from tune_media.values.problems import remedy
from tune_media.values.secrets import error_text
from tune_media.values.strict_json import parse_json

_NAMES_CLIPS = re.compile(rb"\.(?:mp4|webm|gif)\b", re.IGNORECASE)
_NO_TABLES = ("wandb-summary.json", "wandb-metadata.json")
_AROUND = ("episode", "info", "metrics", "result", "results", "stats")  # the objects of a row that are of the same clip
_OF_ONE = "trajectory.json"
_NO_RETURNS = frozenset(
    (
        *("bytes", "duration", "episode", "episode_id", "episode_index", "episode_ix", "fps", "frames", "height"),
        *("id", "index", "length", "num_frames", "num_steps", "size", "steps", "time", "timestamp", "width"),
    )
)
_MOST_REQUESTS = 100  # for JSON files of one clip each, where each is a request


def read_tables(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the facts of clips in all tables of a run, if it has clips."""
    clips = files.clips
    tables = ClipTables(files.folder, clips, columns)
    paths = [path for path in paths if not path.endswith(_NO_TABLES)]
    of_one = [path for path in paths if tables.clips_of(path)]
    if is_far := len(of_one) > _MOST_REQUESTS and files.local(of_one[0]) is None:
        paths = sorted(set(paths) - set(of_one))
    for path in paths if clips else ():
        try:
            tables.add(path, files.read(path))
        except (OSError, ValueError, RecursionError) as error:
            warn_passed_over(files.full(path), error_text(error))
    told = {clip: tables.facts(clip) for clip in clips}
    facts = {clip: {**found, "columns": names} for clip, (found, names) in told.items() if names}
    sentences = tables.not_understood()
    if is_far:
        sentences.append(
            f"{of_one[0]} and {len(of_one) - 1} more JSON files beside clips are not read, because each would take a "
            "request; " + remedy("copy the folder to this machine.")
        )
    return Told(clips=facts, columns=frozenset(tables.names), not_understood=sentences)


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
        self._stems, self._beside = dict[str, list[str]](), dict[str, list[str]]()
        for clip in sorted(clips):
            self._stems.setdefault(posixpath.splitext(clip)[0], []).append(clip)
            self._beside.setdefault(posixpath.dirname(clip), []).append(clip)
        self.names = set[str]()  # of the columns of all rows that name a clip
        self._found: dict[tuple[str, str], set[tuple[Any, str, str]]] = {}  # value, column, table; by clip and fact
        self._without_return: dict[tuple[str, ...], list[str]] = {}  # tables, by their columns

    def clips_of(self, table: str) -> list[str]:
        """Return the clips that a JSON file is of by its own name."""
        folder, name = posixpath.split(table)
        if name == _OF_ONE and len(only := self._beside.get(folder, [])) == 1:
            return only
        stem, suffix = posixpath.splitext(table)
        return self._stems.get(stem.removesuffix(".meta"), []) if suffix.lower() == ".json" else []

    def add(self, table: str, content: bytes) -> None:
        """Take in a table, by its path in the folder. Raises ValueError."""
        own = self.clips_of(table)
        if not own and not _NAMES_CLIPS.search(content):
            return
        rows = list(self._rows(table, content))
        if not rows and own and isinstance(value := parse_json(content), dict):
            rows = [(clip, self._whole(value)) for clip in own]
        has_return = not rows
        for clip, row in rows:
            found = facts_of(row, self._columns)
            has_return = has_return or "return" in found
            for fact, (value, column) in found.items():
                source = "its JSON file" if clip in own else table
                self._found.setdefault((clip, fact), set()).add((value, column, source))
        if not has_return:
            numbers = tuple(
                sorted({name for _, row in rows for name, value in row.items() if number_in(value) is not None})
            )
            self._without_return.setdefault(numbers, []).append(table)

    def facts(self, clip: str) -> tuple[dict[str, Any], str]:
        """Return the facts of a clip, as an index line has them, and the columns that they come from."""
        facts, taken = {}, dict[str, list[tuple[str, str]]]()
        for fact, name in FACTS.items():
            found = self._found.get((clip, fact), set())
            if len({value for value, _, _ in found}) == 1:
                value, column, table = min(found, key=lambda one: one[1:])
                facts[name] = value
                taken.setdefault(table, []).append((fact, column))
        return facts, "; ".join(columns_text(columns, table) for table, columns in taken.items())

    def not_understood(self) -> list[str]:
        """Return a sentence on the tables that name clips, and have numbers of which none is known as a return."""
        sentences: list[str] = []
        known = {name for fact in FACTS if fact != "return" for name in names_of(fact, self._columns)}
        for columns, tables in self._without_return.items():
            names = [name for name in columns if name not in known | _NO_RETURNS]
            if names and not any(fact == "return" for _, fact in self._found):
                more = f" and {len(tables) - 1} more files" if len(tables) > 1 else ""
                sentences.append(unnamed(f"{min(tables)}{more}", "return", first_names(names)))
        return sentences

    def _rows(self, table: str, content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the rows that name one clip of the folder. Raises ValueError."""
        for value in values_in(table, content):
            yield from self._objects(posixpath.dirname(table), value)

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
        row = self._whole(value) if any_clips else {}
        return [(clip, row) for clip in clips] if len(clips) == 1 else []

    def _whole(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        """Return a row of a clip with the numbers of the objects in it that are of the clip, and note its names."""
        inner = [(name, row[name].items()) for name in _AROUND if isinstance(row.get(name), dict)]
        whole = {f"{around}/{name}" if name == "r" else name: value for around, items in inner for name, value in items}
        whole |= {name: value for name, value in row.items() if name}
        self.names.update(whole)
        return whole

    def _named(self, place: str, values: Iterable[Any]) -> set[str]:
        """Return the clips that texts name; a path of elsewhere must be in a folder with the name of the place."""
        own = posixpath.basename(posixpath.join(self._folder, place).rstrip("/"))
        texts = (text for text in values if isinstance(text, str))
        return {clip for text in texts if (clip := named_clip(self._clips, text, place, own))}
