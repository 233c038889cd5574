"""``gate.json`` in the folder of a gate: what was asked for, the source that was played, and the verdict."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow.fs

from tune_media.evaluation.jobs import Played
from tune_media.evaluation.sources import sources_of
from tune_media.experiment.results import json_file, json_object
from tune_media.replay.recipe import modules_of_recipe
from tune_media.storage.episode_files import RECIPE_FOLDER
from tune_media.storage.filesystem import write_atomically
from tune_media.values.checks import name_some
from tune_media.values.strict_json import json_bytes
from tune_media.viewing.places import Folder

VERSION = 1
_FILE = "gate.json"
_EPISODES = re.compile(rf"(base|candidate)(_.*)?|{RECIPE_FOLDER}")
_IN_WORDS = {"base": "the base", "candidate": "the candidate", "code": "a function"}


class GateFile:
    """``gate.json`` of a gate that is asked for. Raises ValueError if the folder has another one, or other files.

    The same gate may have more seeds than the one before. ``anew``: the episodes of an earlier gate are deleted.
    ``modules`` are those of the user's functions, ``loaded`` are all that were imported before the gate.
    """

    def __init__(
        self,
        place: Folder,
        facts: Mapping[str, Any],
        modules: Iterable[str],
        loaded: frozenset[str],
        *,
        anew: bool,
    ) -> None:
        self._place = place
        self._facts = json_object(json_bytes(facts))  # as it is read: a tuple is a list
        before = json_file(place.filesystem, self._path(_FILE))
        if not isinstance(before.get("request"), dict):
            self._check_is_empty()
        elif anew:
            self._delete()
            before = {}
        else:
            self._check_is_same(before)
        same_seeds = before.get("request", {}).get("seeds") == self._facts["seeds"]
        self.is_answered = same_seeds and before.get("verdict") not in (None, "error")
        """Whether nothing has been played for the verdict: the folder had it."""
        self._sources: dict[str, str] = before.get("sources", {})
        self._loaded, self._known = loaded, set[str]()  # names of modules; known: noted if they are the user's
        self._note(modules)
        self.write()

    def write(self, verdict: Mapping[str, Any] | None = None) -> None:
        """Write what was asked for, and the verdict if there is one."""
        sources = dict(sorted(self._sources.items()))
        written = {"v": VERSION, "request": self._facts, "sources": sources, **(verdict or {})}
        write_atomically(self._place.filesystem, self._path(_FILE), json_bytes(written) + b"\n")

    def noting(self, played: Iterable[Played]) -> Iterator[Played]:
        """Yield episodes, each when the file has the source of the modules that have played it."""
        for batch in played:
            self.is_answered = False
            of_envs = (module for recipe in batch.recipes.values() for module in modules_of_recipe(recipe))
            if self._note({*batch.modules, *of_envs}):
                self.write()
            yield batch

    def _note(self, modules: Iterable[str]) -> bool:
        """Note the source of modules, and of those that were imported since; return whether any is new."""
        modules = {*modules, *(sys.modules.keys() - self._loaded)} - self._known
        self._known |= modules
        count = len(self._sources)
        self._sources = {**sources_of(modules), **self._sources}  # one that was edited since is not what was played
        return len(self._sources) > count

    def _check_is_empty(self) -> None:
        there = self._place.filesystem.get_file_info(pyarrow.fs.FileSelector(self._place.path, allow_not_found=True))
        others = [info.base_name for info in there if not info.base_name.startswith(f"{_FILE}.")]  # of a killed process
        if others:  # an experiment's trials, or episodes of unknown policies
            raise ValueError(
                f"{self._place.path!r} has files of no gate ({name_some(sorted(others))}); "
                "pass another folder: output=, or -o."
            )

    def _check_is_same(self, before: Mapping[str, Any]) -> None:
        then, now = before["request"], self._facts
        changed = [_IN_WORDS.get(key, key) for key in {**then, **now} if then.get(key) != now.get(key)]
        seeds = list(then.get("seeds") or [])
        if seeds == now["seeds"][: len(seeds)] and "seeds" in changed:
            changed.remove("seeds")
        if "versions" in changed:
            changed.remove("versions")
            old, new = then.get("versions") or {}, now["versions"]
            names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
            changed += [f"{name} {old.get(name, 'missing')}, now {new.get(name, 'missing')}" for name in names]
        sources = before.get("sources") or {}
        read = sources_of(sources)
        changed += [f"the source of {name!r}" for name in sources if sources[name] != read.get(name)]
        if changed:
            raise ValueError(
                f"{self._place.path!r} has a gate that was asked for something else ({', '.join(changed)}); pass "
                "another folder: output=, or -o; or play all again: anew=, or --anew."
            )

    def _delete(self) -> None:
        """Delete the episodes of a gate, and then its file: a kill in between leaves a gate that is still another."""
        for info in self._place.filesystem.get_file_info(pyarrow.fs.FileSelector(self._place.path)):
            if info.type == pyarrow.fs.FileType.Directory and _EPISODES.fullmatch(info.base_name):
                self._place.filesystem.delete_dir(info.path)
        self._place.filesystem.delete_file(self._path(_FILE))

    def _path(self, name: str) -> str:
        return posixpath.join(self._place.path, name)
