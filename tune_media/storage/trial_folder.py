"""The folder of a trial: the names of its files, how hyperparameters are written, and its writer outside Tune."""

from __future__ import annotations

import json
import os
import posixpath
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs

from tune_media.storage.entry import FileSet, MediaEntry, file_set
from tune_media.storage.episode_files import DATA_KEY, EpisodeReport, RecorderEpisodes, file_names
from tune_media.storage.file_names import media_path
from tune_media.storage.filesystem import (
    append_whole,
    json_object,
    local_path,
    read_if_there,
    write_atomically,
    write_once,
)
from tune_media.storage.index_lines import INDEX_PATH, MediumLine, content_of
from tune_media.values.foreign import as_builtin, is_a, shown, walked, whole_characters, without_address
from tune_media.values.plain import pack
from tune_media.values.strict_json import json_bytes
from tune_media.values.video import Video

PARAMS, RESULTS = "params.json", "result.json"
ERRORS = "error.txt"  # Tune's, if the trial failed: the traceback of each failure
SAMPLED = "__fn_ph"  # Tune's mark of a value that a function makes
_OBJECT = "__ref_ph"  # and of an object, before its id
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class TrialFolder:
    """Writes the files of a trial outside Tune, so that readers take the folder for one of Tune's.

    A file is there before the line that lists it. On this machine's disk lines are appended, and several processes may
    write; on an object storage one process may, since it writes all lines anew.
    """

    def __init__(self, filesystem: pyarrow.fs.FileSystem, folder: str, trial_id: str = "") -> None:
        self.filesystem, self.folder = filesystem, folder
        self.trial_id = trial_id or posixpath.basename(folder)
        self._here = local_path(filesystem, folder)
        self._row = 0
        self._contents: dict[str, bytes] = {}  # of the files of lines on an object storage
        for name in (RESULTS, INDEX_PATH) if self._here is not None else ():
            path = Path(self._here or "", name)
            if path.is_file() and not _ends_whole(path):  # a process was killed while it wrote a line
                append_whole(path, b"\n")

    def place(self, name: str) -> str:
        """Return the path of a file on the filesystem."""
        return posixpath.normpath(posixpath.join(self.folder, name))  # object stores know no ".."

    def write_params(self, config: Mapping[str, Any]) -> None:
        """Write the hyperparameters, by which readers know the folder for a trial's, unless they are there."""
        content = _as_tune(config)
        if read_if_there(self.filesystem, self.place(PARAMS)) != content:
            write_atomically(self.filesystem, self.place(PARAMS), content)

    def params(self) -> dict[str, Any] | None:
        """Return the hyperparameters that are stored; None if there are none."""
        content = read_if_there(self.filesystem, self.place(PARAMS))
        return None if content is None else json_object(content)

    def has_other_params(self, config: Mapping[str, Any]) -> bool:
        """Return whether the hyperparameters that are stored are others; the order of names does not count."""
        stored = self.params()
        return stored is not None and _ordered(stored) != _ordered(json_object(_as_tune(config)))

    def add_result(self, result: Mapping[str, Any]) -> None:
        """Add a result to those that are stored."""
        self._add(RESULTS, _as_tune(result) + b"\n")

    def replace_results(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Write all results anew."""
        self._contents.pop(RESULTS, None)
        write_atomically(self.filesystem, self.place(RESULTS), b"".join(_as_tune(one) + b"\n" for one in results))

    def results(self) -> list[dict[str, Any]]:
        """Return the results that are stored, as they are in the file; half a line is none."""
        content = read_if_there(self.filesystem, self.place(RESULTS)) or b""
        return [result for result in map(json_object, content.splitlines()) if result]

    def add_episodes(
        self,
        part: RecorderEpisodes,
        step: int,
        training_iteration: int | None,
        id: str,
        clips: Mapping[str, Mapping[str, str]] | None = None,
    ) -> FileSet:
        """Store episodes, under a name with an ``id`` that no others at this step have; ``clips``: as of the report."""
        report = EpisodeReport(self.trial_id, training_iteration, step, [part], clips or {})
        where = (part.section, f"{part.recorder}{DATA_KEY}", file_names(step, id), step, training_iteration)
        return self.store(MediaEntry(part.batch, *where, time.time(), report=report))

    def add_clip(
        self, video: Video, section: str, key: str, step: int, training_iteration: int, recorded: float = 0.0
    ) -> FileSet:
        """Store a clip in ``media``; ``recorded`` is the time of the recording if that is not now."""
        path = media_path(section, key, step, video)
        return self.store(MediaEntry(video, section, key, path, step, training_iteration, recorded or time.time()))

    def store(self, entry: MediaEntry, **facts: Any) -> FileSet:
        """Write the files of a medium, and list it with more facts; those that are None are left out."""
        made = file_set([entry], self.trial_id, self.next_row())
        for name, content in made.files.items():
            write_once(self.filesystem, self.place(name), content)
        self.add_lines([replace(line, facts=_given({**line.facts, **facts})) for line in made.lines])
        return made

    def add_lines(self, lines: Sequence[MediumLine]) -> None:
        """List media, or write that listed ones were rolled back (``undone``)."""
        self._add(INDEX_PATH, content_of(lines))

    def replace_lines(self, lines: Iterable[MediumLine]) -> None:
        """Write the whole index anew."""
        self._contents.pop(INDEX_PATH, None)
        write_atomically(self.filesystem, self.place(INDEX_PATH), content_of(lines))

    def next_row(self) -> int:
        """Return a number that orders the lines of all processes."""
        self._row = max(self._row + 1, int(time.time() * 1e6))
        return self._row

    @property
    def status_file(self) -> Path:
        """A snapshot as Tune writes it of an experiment, of this trial alone; on this machine only."""
        folder = Path(self._here or self.folder)
        return folder.with_name(f"experiment_state-{folder.name}.json")

    def status_text(self, word: str) -> str:
        """Return the snapshot that has the trial's status, in Tune's word."""
        name = posixpath.basename(self.folder)
        trial = json_bytes({"trial_id": self.trial_id, "relative_logdir": name, "status": word}).decode()
        return json_bytes({"trial_data": [[trial, "{}"]]}).decode()

    def write_status(self, word: str) -> None:
        """Write the snapshot; its time is 1970: a newer one would say that runs beside it were abandoned."""
        new = Path(f"{self.status_file}.new")
        new.write_text(self.status_text(word))
        os.utime(new, (1, 1))
        new.replace(self.status_file)

    def _add(self, name: str, lines: bytes) -> None:
        if self._here is not None:
            path = Path(self._here, name)
            if name == INDEX_PATH:  # a trial's folder that is gone is not made again
                path.parent.mkdir(exist_ok=True)
            append_whole(path, lines)
            return
        before = self._contents.get(name)
        whole = (read_if_there(self.filesystem, self.place(name)) or b"" if before is None else before) + lines
        write_atomically(self.filesystem, self.place(name), whole)
        self._contents[name] = whole


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        return file.read() in (b"", b"\n")


def _given(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _as_tune(values: Mapping[str, Any]) -> bytes:
    """Return JSON as Tune writes it: numbers that are not finite stay apart from each other and from None."""
    return json.dumps(plain_config(values), default=_as_json).encode()


def _as_json(value: Any) -> Any:
    own = value.tolist() if is_a(value, np.ndarray) else as_builtin(value)
    return shown(value, str) if type(own) is type(value) else own


def _ordered(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def plain_config(config: Any, chosen: Any = None) -> Any:
    """Return hyperparameters as plain data: functions, classes and other objects become their text.

    A text that does not tell an object from others, since it has an address or names a local class, gets Tune's id of
    the object (``nested_choice``): it is the same in all trials, trackers and readers, also after a restore.
    """
    return walked(config, _plain, chosen, value_at, lambda key: whole_characters(shown(key, str)))


def _plain(value: Any, chosen: Any) -> Any:
    if is_a(value, str):
        text = whole_characters(as_builtin(value))
        return _object_text(text, chosen) if is_object(chosen) else text
    try:
        pack(value)
    except Exception:
        return _object_text(whole_characters(shown(value, str)), chosen)
    return value


def value_at(tree: Any, key: Any) -> Any:
    """Return the value at a path of keys and of places in lists, or None; a key may hold a ``/``."""
    if is_a(tree, Mapping) and key in tree:
        return tree[key]
    for part in shown(key, str).split("/"):
        if is_a(tree, Mapping):
            tree = tree.get(part)
        elif is_a(tree, (list, tuple)) and part.isdecimal() and int(part) < len(tree) and not is_stand_in(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def is_stand_in(chosen: Any) -> bool:
    """Return whether Tune put this into a config in place of an object or of a sampled value."""
    return is_a(chosen, (list, tuple)) and len(chosen) == 2 and chosen[0] in (_OBJECT, SAMPLED)


def is_object(chosen: Any) -> bool:
    """Return whether it stands for an object, whose id is the second of it."""
    return is_stand_in(chosen) and chosen[0] == _OBJECT


def _object_text(text: str, chosen: Any) -> str:
    if is_object(chosen):
        text, count = _ADDRESS.subn(f" {chosen[1]}", text, count=1)
        if not count and "<locals>" in text:
            text = f"{text[:-1]} {chosen[1]}>" if text.endswith(">") else f"{text} {chosen[1]}"
    return without_address(text)
