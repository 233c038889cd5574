"""The folder of a gate, and ``gate.json`` in it: what was asked for, and the verdict."""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.experiment.places import Folder, folder_at
from tune_media.storage import episode_files
from tune_media.storage.filesystem import write_atomically
from tune_media.values import checks, strict_json
from tune_media.values.problems import argument, remedy
from tune_media.values.safe_names import safe_name
from tune_media.values.secrets import redacted_values

try:
    import fcntl
except ImportError as error:
    raise ImportError("Gates need Linux or macOS: " + remedy("on Windows, use WSL")) from error

VERSION = 2
PAGE = "index.html"
FACTS_FILE = "gate.json"
_EPISODES = re.compile(rf"(base|candidate)(_.*)?|{episode_files.RECIPE_FOLDER}")


class GateFolder:
    """Where the episodes, the page and ``gate.json`` of a gate go: a new folder, or an empty one.

    Without ``output`` it is ``gates/<candidate>-<date>_<time>`` in the current folder. ``anew``: it may have a gate,
    which ``begin`` deletes. Raises ValueError if there is a gate otherwise, also one that was killed, or other files.
    """

    def __init__(self, output: str | None, candidate: Any, *, anew: bool) -> None:
        self._is_named = output is not None
        name = safe_name(posixpath.basename(str(candidate).rstrip("/")), max_length=40)
        self.place = folder_at(output or f"gates/{name}-{time.strftime('%Y-%m-%d_%H-%M-%S')}")
        self._anew = anew
        self._check()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other gates out of a local folder in a ``with`` block; the system does so until this process ends.

        Raises ValueError if another gate plays there, or has played since.
        """
        if not (self._is_named and isinstance(self.place.filesystem, pyarrow.fs.LocalFileSystem)):
            yield
            return
        Path(self.place.path).mkdir(parents=True, exist_ok=True)
        folder = os.open(self.place.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                what_to_do = remedy("wait for it, or pass another folder: " + argument("output=, or -o") + ".")
                raise ValueError(f"another gate plays in {self.place.path!r}; " + what_to_do) from None
            except OSError:  # a network's file system that has no locks
                pass
            self._check()
            yield
        finally:
            os.close(folder)

    def empty(self) -> None:
        """Delete the gate that is there; a kill in between leaves a folder that still holds one."""
        if not (self._is_named and self.place.has_file(FACTS_FILE)):
            return
        for info in self.place.filesystem.get_file_info(pyarrow.fs.FileSelector(self.place.path)):
            if info.type == pyarrow.fs.FileType.Directory and _EPISODES.fullmatch(info.base_name):
                self.place.filesystem.delete_dir(info.path)
            elif info.base_name == PAGE:
                self.place.filesystem.delete_file(info.path)
        self.place.filesystem.delete_file(self._path(FACTS_FILE))

    def begin(self, request: Mapping[str, Any]) -> None:
        """Write what is asked for. A folder without a name is made, even if two gates begin in one second."""
        if not self._is_named:
            self.place = Folder(self.place.filesystem, _made(self.place.path))
        self._request = request
        self.write({})

    def write(self, verdict: Mapping[str, Any]) -> None:
        """Write the verdict beside what was asked for, without keys and passwords: the page shows it."""
        content = redacted_values({"v": VERSION, "request": self._request, **verdict})
        write_atomically(self.place.filesystem, self._path(FACTS_FILE), strict_json.json_bytes(content) + b"\n")

    def _check(self) -> None:
        """Raise ValueError if the folder has files, unless they are those of a gate that is deleted."""
        if not self._is_named or (self._anew and self.place.has_file(FACTS_FILE)):
            return
        there = self.place.filesystem.get_file_info(pyarrow.fs.FileSelector(self.place.path, allow_not_found=True))
        of_killed = f"{FACTS_FILE}."
        others = [info.base_name for info in there if not info.base_name.startswith(of_killed)]
        another = "pass another folder: " + argument("output=, or -o")
        if FACTS_FILE in others:
            what_to_do = remedy(another + "; or empty it first: " + argument("anew=, or --anew") + ".")
            raise ValueError(f"{self.place.path!r} holds a gate; " + what_to_do)
        if others:  # an experiment's trials, or episodes of unknown policies
            names = checks.name_some(sorted(others))
            raise ValueError(f"{self.place.path!r} has files of no gate ({names}); " + remedy(another + "."))

    def _path(self, name: str) -> str:
        return posixpath.join(self.place.path, name)


def _made(path: str) -> str:
    """Make a new folder at a local path, or, if there is one, at the path with a number; return where."""
    for number in itertools.count(2):
        try:
            Path(path).mkdir(parents=True)
            break
        except FileExistsError:
            path = f"{path.removesuffix(f'_{number - 1}')}_{number}"
    return path
