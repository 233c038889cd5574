"""Finds out which folders are a trial's, by the files that only a trial has, with few requests."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

import pyarrow.fs

from tune_media.experiment.trial_files import TrialFiles, Version, version_of
from tune_media.storage.bare_clips import bare_version
from tune_media.storage.filesystem import is_local
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import LOCATION_FILE
from tune_media.storage.log import is_logged
from tune_media.storage.trial_folder import PARAMS

_Item = TypeVar("_Item")
_Info: TypeAlias = "pyarrow.fs.FileInfo | OSError"


class TrialFolders:
    """The folders of one filesystem, and the trials among them that are known.

    To ask a remote storage for a file that is not there takes a LIST. There, a folder with known trials inside is not
    asked for; nor is a known trial as long as the log has its lines: all that comes into its index is there before.
    """

    def __init__(self, filesystem: pyarrow.fs.FileSystem, trials: Iterable[TrialFiles]) -> None:
        self._filesystem = filesystem
        self._known = {trial.path: trial for trial in trials if trial.filesystem is filesystem}
        self._is_far = not is_local(filesystem)
        self.bare: set[str] = set()  # folders of clips that no index lists; these may hold trials, too
        self._parents = {posixpath.dirname(path) for path in self._known}

    def versions(self, folders: Sequence[str], pool: ThreadPoolExecutor) -> dict[str, Version | OSError]:
        """Return the folders that are a trial's, each with the version of its index, or why it cannot be had."""
        parts = pool.map(self._look, in_parts(folders, self._filesystem))
        return {folder: version for part in parts for folder, version in part.items() if version is not None}

    def _look(self, folders: Sequence[str]) -> dict[str, Version | OSError | None]:
        kept: dict[str, Version | OSError | None] = {}
        if self._is_far:
            folders = [folder for folder in folders if folder in self._known or folder not in self._parents]
            read = {folder: self._known[folder].version for folder in folders if folder in self._known}
            kept = {f: v for f, v in read.items() if v is not None and is_logged(self._filesystem, f)}
        marks = self._marks([folder for folder in folders if folder not in kept])
        others = self._without_files(marks)
        return kept | {folder: self._version(folder, mark, folder in others) for folder, mark in marks.items()}

    def _marks(self, folders: Sequence[str]) -> dict[str, _Info]:
        """Return the facts of the index of each folder, or of the file that says where that is."""
        marks = dict(zip(folders, self._infos(folders, INDEX_PATH), strict=True))
        without = [folder for folder, info in marks.items() if not isinstance(info, OSError) and not info.is_file]
        pointers = zip(without, self._infos(without, LOCATION_FILE), strict=True)
        return marks | {folder: info for folder, info in pointers if _is_there(info)}

    def _without_files(self, marks: Mapping[str, _Info]) -> set[str]:
        """Return the folders that have no file of a trial, nor lines in the log."""
        unsure = [folder for folder, info in marks.items() if folder not in self._known and not _is_there(info)]
        params = zip(unsure, self._infos(unsure, PARAMS), strict=True)
        return {f for f, info in params if not _is_there(info) and not is_logged(self._filesystem, f)}

    def _version(self, folder: str, mark: _Info, has_no_files: bool) -> Version | OSError | None:
        """Return the version of a folder's index, or of clips that no index lists, or None if it is no trial's."""
        known = self._known.get(folder)
        bare: Version | OSError | None = None
        if not _is_there(mark) and (has_no_files or (known is not None and known.contents.is_bare)):
            try:
                bare = bare_version(self._filesystem, folder)
            except OSError as error:
                bare = error
        if bare is not None:
            self.bare.add(folder)
            return bare
        if isinstance(mark, OSError):
            return mark
        return None if has_no_files else version_of(mark)

    def _infos(self, folders: Sequence[str], name: str) -> list[_Info]:
        return file_infos(self._filesystem, [posixpath.join(folder, name) for folder in folders])


def is_trial(filesystem: pyarrow.fs.FileSystem, folder: str) -> bool:
    """Return whether a folder is a trial's: it has a file of one, lines in the log, or bare clips. Raises OSError."""
    version = TrialFolders(filesystem, [])._look([folder])[folder]
    if isinstance(version, OSError):
        raise version
    return version is not None


def may_be_stray(found: TrialFiles | Exception) -> bool:
    """Return whether a folder has only clips that no recorder named: beside a sweep, these are figures and the like."""
    return isinstance(found, TrialFiles) and found.contents.is_unnamed


def file_infos(filesystem: pyarrow.fs.FileSystem, paths: Sequence[str]) -> list[_Info]:
    """Return the facts of each file, or the error if the filesystem refuses them."""
    try:
        return list(filesystem.get_file_info(paths)) if paths else []
    except OSError as error:
        return [error] if len(paths) == 1 else [info for path in paths for info in file_infos(filesystem, [path])]


def in_parts(items: Sequence[_Item], filesystem: pyarrow.fs.FileSystem) -> list[Sequence[_Item]]:
    """Return the items in parts that one request each asks about; on remote storage, requests run in parallel."""
    size = 1000 if is_local(filesystem) else 8
    return [items[start : start + size] for start in range(0, len(items), size)]


def _is_there(info: _Info) -> bool:
    return not isinstance(info, OSError) and bool(info.is_file)
