"""Where a trial's files are: on the storage, and in the folder on the driver that Tune syncs to it."""

from __future__ import annotations

import functools
import json
import os
import posixpath
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs

from tune_media.storage.filesystem import at_uri, is_local, read_if_there
from tune_media.storage.index_lines import read_index
from tune_media.storage.log import read_log
from tune_media.storage.passed_over import warn_passed_over

LOCATION_FILE = ".tune_media.json"
"""A file in the trial's folder on the driver that says where the trial's media are."""
_SCHEMES = {"s3": "s3", "gcs": "gs"}  # of pyarrow's filesystems whose URIs are made of a path alone
_URIS = tuple(f"{scheme}://" for scheme in _SCHEMES.values())
_SETTINGS = ("AWS_", "GOOGLE_")  # of environment variables that say how an object store is reached


@dataclass(frozen=True)
class TrialLocation:
    """Where a trial's files are."""

    filesystem: pyarrow.fs.FileSystem
    path: str
    local_path: Path
    trial_id: str

    def on_storage(self, name: str) -> str:
        """Return the path on the filesystem of a file of the trial.

        >>> TrialLocation(pyarrow.fs.LocalFileSystem(), "/results/trial", Path("/tmp/trial"), "1").on_storage("a")
        '/results/trial/a'
        """
        return posixpath.normpath(posixpath.join(self.path, name))  # object stores know no ".."

    def write_pointer(self) -> None:
        """Tell readers of the driver's folder where the media are: a path here, or a URI. Raises OSError."""
        scheme = _SCHEMES.get(str(self.filesystem.type_name))
        if scheme or is_local(self.filesystem):
            file = self.local_path / LOCATION_FILE
            file.parent.mkdir(parents=True, exist_ok=True)
            place = f"{scheme}://{self.path}" if scheme else self.path
            file.write_text(json.dumps({"media_of": place, "trial_id": self.trial_id}))


def media_folder(filesystem: pyarrow.fs.FileSystem, folder: str) -> tuple[str, str]:
    """Return the folder that holds a trial's media: ``folder``, unless that is the trial's folder on the driver.

    It is a path on ``filesystem``, or the URI of a folder on an object store, which is not asked: call
    ``filesystem_of_trial`` before its files are shown. With it comes the trial id that the pointer names, or "" without
    one; a pointer to a folder of another trial, or of none, is not followed. Raises OSError.
    """
    try:
        pointer = json.loads(read_if_there(filesystem, posixpath.join(folder, LOCATION_FILE)) or b"{}")
        path, trial_id = pointer.get("media_of"), pointer.get("trial_id")
        is_ours = isinstance(path, str) and (path.startswith(_URIS) or is_of_trial(filesystem, path, [trial_id]))
    except (ValueError, AttributeError, RecursionError):
        warn_passed_over(posixpath.join(folder, LOCATION_FILE), "it does not say where the trial's media are")
        return folder, ""
    is_here = is_ours and not is_local(filesystem) and path_of(path).rstrip("/") == folder.strip("/")
    return (path, str(trial_id)) if is_ours and not is_here else (folder, "")  # Tune copies the pointer to the storage


def is_of_trial(filesystem: pyarrow.fs.FileSystem, folder: str, trial_ids: Collection[object]) -> bool:
    """Return whether a folder has lines of one of these trials: anybody can write a pointer to any folder."""
    experiment, name = posixpath.split(folder.rstrip("/"))
    index, _ = read_index(filesystem, folder)
    lines = index or read_log(filesystem, experiment).lines.get(name, [])  # the index comes at the trial's end
    return bool(lines) and lines[0].trial_id is not None and lines[0].trial_id in list(trial_ids)


def path_of(place: str) -> str:
    """Return the path of a place from ``media_folder`` on its filesystem.

    >>> path_of("s3://bucket/sweep/trial"), path_of("/results/trial")
    ('bucket/sweep/trial', '/results/trial')
    """
    return place.partition("://")[2] if place.startswith(_URIS) else place


def filesystem_of_trial(place: str, here: pyarrow.fs.FileSystem, trial_ids: frozenset[str]) -> pyarrow.fs.FileSystem:
    """Return the filesystem of the place from ``media_folder``. Raises FileNotFoundError if it is of other trials."""
    return _store_of_trial(place, trial_ids, _settings()) if place.startswith(_URIS) else here


@functools.lru_cache(maxsize=1024)
def _store_of_trial(
    place: str, trial_ids: frozenset[str], settings: tuple[tuple[str, str], ...]
) -> pyarrow.fs.FileSystem:
    filesystem = _object_store("/".join(place.split("/")[:3]), settings)
    if not is_of_trial(filesystem, path_of(place), trial_ids):
        raise FileNotFoundError(
            f"{place} has no index of trial {', '.join(sorted(trial_ids)) or '?'}, so no file is read from there. The "
            f"file {LOCATION_FILE} in the trial's folder names that place: it is of another trial, or was changed."
        )
    return filesystem


def _settings() -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS)))


@functools.lru_cache(maxsize=8)
def _object_store(bucket: str, settings: tuple[tuple[str, str], ...]) -> pyarrow.fs.FileSystem:
    """Return the filesystem of a bucket; making one asks for the bucket's region and for credentials."""
    return at_uri(bucket)[0]
