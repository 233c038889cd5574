"""The places that a user names: an experiment, a part of it, a checkpoint, a file, or a pattern of files."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.experiment.places import Folder, find_folders, folder_at, kind_of

WANTED = "the folder of an experiment, which tuner.fit() prints, or a checkpoint"


@dataclass(frozen=True)
class Named:
    """The places that a text names, by paths that stay the same if code of the user's changes the current folder.

    >>> named("/tmp").places[0].path, named("/tmp:PPO_3").part, named("/tmp/*/model.zip").pattern
    ('/tmp', 'PPO_3', '*/model.zip')
    """

    text: str  # as it was given
    places: tuple[Folder, ...]  # folders, or one file
    part: str = ""  # behind the colon of EXPERIMENT:PART: a trial, or an episode
    pattern: str = ""  # of names inside the only place, with an asterisk in at least one part

    @property
    def place(self) -> Folder:
        """The only place, or the first one."""
        return self.places[0]

    @property
    def is_file(self) -> bool:
        """Whether it is a file; it asks the storage."""
        return len(self.places) == 1 and not self.part and not self.pattern and self.place.is_file

    def folders(self) -> Iterator[tuple[str, Folder]]:
        """Yield the folders whose files the pattern may match, each with its path inside the place."""
        folders = [("", self.place)]
        for part in self.pattern.split("/")[:-1]:
            inner = [(f"{path}/{sub.name}".lstrip("/"), sub) for path, folder in folders for sub in folder.subfolders()]
            folders = [(path, sub) for path, sub in inner if matches(sub.name, part)]
        yield from folders


def named(source: Any, filesystem: pyarrow.fs.FileSystem | None = None) -> Named:
    """Return the places that ``source`` names, without looking into them. Raises ValueError, TypeError, OSError.

    It is a path or URI of a folder, of a file, of files as a pattern such as ``runs/*/model.zip``, or
    ``EXPERIMENT:PART``; a ``ResultGrid``; or a list of folders.
    """
    if not isinstance(source, (str, Path)):
        places = tuple(find_folders(source, filesystem, wanted=WANTED))
        return Named(places[0].path, places)
    text, place = str(source), folder_at(source, filesystem)
    if kind_of(place, text) != pyarrow.fs.FileType.NotFound:
        return Named(text, (place,))
    parts, part = place.path.split("/"), ""
    first = next((number for number, name in enumerate(parts) if "*" in name), len(parts))
    if first == len(parts):
        before, colon, after = parts[-1].rpartition(":")
        parts[-1:], part = ([before], after) if colon else (parts[-1:], "")
    path = "/".join(parts[:first]) or place.path[:1]
    (place,) = find_folders(Folder(place.filesystem, path), wanted=WANTED)
    return Named(text, (place,), part, "/".join(parts[first:]))


def matches(name: str, pattern: str) -> bool:
    """Return whether a part of a path is meant by a part of a pattern, in which only an asterisk has a meaning.

    >>> matches("lr=[1]", "lr=[1]"), matches("rl_model_10.zip", "rl_model_*.zip")
    (True, True)
    """
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))
