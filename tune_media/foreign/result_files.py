"""Files of results: the episodes of policies that somebody has evaluated, a row each.

They are CSV, JSON lines, LeRobot's ``eval_info.json``, or JSON with lists of objects, of which each has the values of
those around it, too. A row has a return or a success, and, if they are there, a policy, a seed or a start, a clip, and
settings such as the env. Rows without a policy are of one that is called like the file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2s
from typing import Any, NamedTuple

import pyarrow.fs

from tune_media.foreign.clip_facts import as_facts, fact_value, facts_of
from tune_media.foreign.clip_paths import named_clip, paths_meant
from tune_media.foreign.clips import clip_lines
from tune_media.foreign.lerobot import INFO, rows_of_info
from tune_media.foreign.run import ForeignRun
from tune_media.foreign.run_files import RunFiles, values_in
from tune_media.foreign.told import Episode, Told, name_it
from tune_media.storage.index_lines import MediumLine
from tune_media.values.checks import first_names
from tune_media.values.clip_columns import Columns
from tune_media.values.number import counted
from tune_media.values.problems import remedy
from tune_media.values.sections import EVALUATION

SUFFIXES = (".csv", ".json", ".jsonl")
_CLIP_SUFFIXES = (".mp4", ".webm", ".gif")
_POLICIES = ("policy", "policy_name", "model", "checkpoint", "method", "agent")
_STARTS = ("start", "start_id", "initial_state", "init_state_id")
_ENVS = ("env_id", "env", "env_name", "environment")
_SETTINGS = (*_ENVS, "suite", "task_group", "task", "task_id", "max_steps", "max_episode_steps", "horizon")
_LENGTHS = ("episode_length", "length", "num_steps")
_NUMBERS = ("episode_ix", "episode", "episode_id", "index", "")  # of rows, which measure nothing
_UNNAMED = (INFO, "results", "eval_results", "episodes", "metrics")  # names of files that name no policy
_Row = Mapping[str, Any]


class NoEpisodesError(ValueError):
    """A file has no row with a return or a success."""


class _Play(NamedTuple):
    """A row that is an episode, and the facts in it, see ``facts_of``."""

    row: _Row
    facts: Mapping[str, tuple[Any, str]]

    def value(self, names: Iterable[str]) -> Any:
        """Return the first value of some names that says something, or None."""
        return next((value for name in names if (value := self.row.get(name)) not in (None, "")), None)


def read_results(filesystem: pyarrow.fs.FileSystem, path: str, columns: Columns | None = None) -> dict[str, ForeignRun]:
    """Return the policies of a file, each with its episodes as a run. Raises OSError, or ValueError if it has none.

    The ``settings`` of a run are those that all of its episodes share. The seed of an episode whose start is a
    text, or which is of one of several tasks, is a hash of both. If no row names a seed or a start, it is its place in
    the file, and its ``note`` says so.
    """
    folder, name = posixpath.split(path)
    columns = columns or {}
    try:
        rows = list(_rows(name, RunFiles(filesystem, folder, {name: filesystem.get_file_info(path)}).read(name)))
    except ValueError as error:
        raise ValueError(f"{path!r} cannot be read: {error}") from error
    plays = [_Play(row, found) for row in rows if (found := facts_of(row, columns)).keys() & {"return", "success"}]
    if not plays:
        raise NoEpisodesError(_without_values(path, rows))
    policies: dict[str, list[_Play]] = {}
    for play in plays:
        policies.setdefault(str(play.value(_named("policy", columns)) or _name_of(path)), []).append(play)
    varying = [name for name in _SETTINGS if any(_differs(name, own) for own in policies.values())]
    has_starts = any(_start(play, (), columns) is not None for play in plays)
    lacking = len(rows) - len(plays)
    notes = [] if has_starts else [f"{name} names no seeds and no starts: its episodes are compared in their order."]
    notes += [f"{counted(lacking, 'row')} of {name} without a finite return or a success: left out."] if lacking else []
    file = _File(filesystem, folder, name, columns, varying, has_starts, " ".join(notes))
    return {policy: file.run(own) for policy, own in policies.items()}


def _differs(name: str, plays: Sequence[_Play]) -> bool:
    return len({str(play.row.get(name)) for play in plays}) > 1


@dataclass(frozen=True)
class _File:
    """What all policies of a file have in common: the settings that vary within one, and whether it names starts."""

    filesystem: pyarrow.fs.FileSystem
    folder: str
    name: str
    columns: Columns
    varying: Sequence[str]
    has_starts: bool
    note: str

    def run(self, plays: Sequence[_Play]) -> ForeignRun:
        """Return the episodes of a policy."""
        episodes = [
            _episode(play, _start(play, self.varying, self.columns) if self.has_starts else place, self.columns)
            for place, play in enumerate(plays)
        ]
        told = Told(episodes=episodes, tag="rows of a file", unit="")
        values = {name: plays[0].value([name]) for name in _SETTINGS if name not in self.varying}
        settings = {name: value for name, value in values.items() if value is not None}
        env_id = next((str(settings[name]) for name in _ENVS if name in settings), None)
        names = frozenset().union(*(play.row for play in plays))
        return ForeignRun(
            self._lines(plays),
            names,
            {},
            env_id,
            [told],
            settings=settings,
            note=self.note,
            has_starts=self.has_starts,
        )

    def _lines(self, plays: Sequence[_Play]) -> list[MediumLine]:
        """Return an index line for each clip that a row names, with the facts of the row."""
        named = [(text, play) for play in plays for text in _clips_of(play)]
        clips = _there(self.filesystem, self.folder, [text for text, _ in named])
        facts = {clips[text]: as_facts(play.facts, self.name) for text, play in named if text in clips}
        infos = {clip: self.filesystem.get_file_info(posixpath.join(self.folder, clip)) for clip in facts}
        lines = clip_lines(RunFiles(self.filesystem, self.folder, infos), infos, facts)
        return [replace(line, section=EVALUATION) for line in lines]


def _without_values(path: str, rows: Sequence[_Row]) -> str:
    """Return why a file has no episodes, with what to do."""
    if not rows:
        return f"{path!r} has no rows; " + remedy("pass a file with a row for each episode.")
    there = first_names(list(dict.fromkeys(name for row in rows for name in row if name)))
    what_to_do = remedy(name_it("return=NAME") + ".")
    return f"{path!r}: no column for a return or a success; there are {there}; " + what_to_do


def _named(fact: str, columns: Columns) -> tuple[str, ...]:
    """Return the names that the column of a policy or of a start may have."""
    return (columns[fact],) if fact in columns else {"policy": _POLICIES, "start": _STARTS}[fact]


def _name_of(path: str) -> str:
    """Return the name of a policy that no row names.

    >>> _name_of("eval/act.csv"), _name_of("eval/act/eval_info.json"), _name_of("results.csv")
    ('act', 'act', 'results')
    """
    folder, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    return (posixpath.basename(folder) if name in _UNNAMED or stem in _UNNAMED else "") or stem


def _rows(name: str, content: bytes) -> Iterator[_Row]:
    """Yield the rows of a file. Raises ValueError."""
    for value in values_in(name, content):
        if name == INFO and isinstance(value, dict):
            yield from ({**row, "video": video} for row, video in rows_of_info(value))
        else:
            yield from _innermost(value, {})


def _innermost(value: Any, around: _Row) -> Iterator[_Row]:
    """Yield the objects that have no list of objects inside, each with the values of those around it.

    >>> list(_innermost({"policy": "a", "episodes": [{"return": 1}, {"return": 2}]}, {}))
    [{'policy': 'a', 'return': 1}, {'policy': 'a', 'return': 2}]
    """
    if isinstance(value, list):
        for part in value:
            yield from _innermost(part, around)
    elif isinstance(value, dict):
        inner = [
            part for part in value.values() if isinstance(part, list) and any(isinstance(one, dict) for one in part)
        ]
        own = {**around, **{str(name): part for name, part in value.items() if not isinstance(part, (list, dict))}}
        for part in inner:
            yield from _innermost(part, own)
        if not inner:
            yield own


def _start(play: _Play, varying: Collection[str], columns: Columns) -> int | None:
    """Return the seed of an episode, or a hash of its start or of its task and seed; None if the row names none."""
    value = play.facts["seed"][0] if "seed" in play.facts else play.value(_named("start", columns))
    number = None if value is None else fact_value("seed", value)
    if value is None or (number is not None and not varying):
        return None if value is None else int(number or 0)
    told = [*(f"{name}={play.row.get(name)}" for name in varying), str(value if number is None else number)]
    return int.from_bytes(blake2s("\n".join(told).encode(), digest_size=6).digest(), "big")


def _episode(play: _Play, seed: int | None, columns: Columns) -> Episode:
    facts = {fact: value for fact, (value, _) in play.facts.items()}
    taken = {*(column for _, column in play.facts.values()), *_SETTINGS, *_LENGTHS, *_NUMBERS}
    taken |= {*_named("policy", columns), *_named("start", columns)}
    numbers = {name: fact_value("return", value) for name, value in play.row.items() if name not in taken}
    length = fact_value("step", play.value(_LENGTHS))
    return Episode(
        episode_return=facts.get("return"),
        length=None if length is None else int(length),
        seed=seed,
        success=facts.get("success"),
        step=facts.get("step"),
        metrics={name: float(number) for name, number in numbers.items() if number is not None},
    )


def _clips_of(play: _Play) -> list[str]:
    texts = (value for value in play.row.values() if isinstance(value, str))
    return [text for text in texts if text.lower().endswith(_CLIP_SUFFIXES)]


def _there(filesystem: pyarrow.fs.FileSystem, folder: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the path in a folder of each clip that a text names: by its path from there, or by the end of it."""
    paths = list(dict.fromkeys(path for text in texts for path in paths_meant(text)))
    infos = filesystem.get_file_info([posixpath.join(folder, path) for path in paths]) if paths else []
    there = {path for path, info in zip(paths, infos, strict=True) if info.is_file}
    found = {text: named_clip(there, text) for text in texts}
    return {text: clip for text, clip in found.items() if clip is not None}
