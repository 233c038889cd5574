"""Folders on a filesystem, from a path, a URI, several of them, or a ``ResultGrid``; and which are a trial's of ours.

That is known by the files that only a trial has, with few requests.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow
import pyarrow.fs

from tune_media.experiment.state import Listings
from tune_media.experiment.trial_files import TrialFiles, Version, version_of
from tune_media.storage.filesystem import absolute, at_uri, is_inside, is_local
from tune_media.storage.filesystem import local_path as path_here
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import LOCATION_FILE
from tune_media.storage.log import is_logged
from tune_media.storage.trial_folder import PARAMS, RESULTS
from tune_media.values.checks import an_instance, local_path
from tune_media.values.problems import argument, remedy
from tune_media.values.secrets import redacted

_FILESYSTEM = an_instance(
    "a filesystem of pyarrow's, for one of fsspec's pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(it))",
    pyarrow.fs.FileSystem,
)
_Item = TypeVar("_Item")
_Info: TypeAlias = "pyarrow.fs.FileInfo | OSError"

_REQUESTS = 64  # at a time: nearly all of a request to an object store is waiting


@dataclass(frozen=True)
class Folder:
    """A folder on a filesystem.

    >>> Folder(pyarrow.fs.LocalFileSystem(), "results/experiment/trial_1").name
    'trial_1'
    """

    filesystem: pyarrow.fs.FileSystem
    path: str
    experiment: str = ""  # one of several in the folder; empty: all that it has

    @property
    def name(self) -> str:
        """The last part of its path."""
        return posixpath.basename(self.path.rstrip("/"))

    @property
    def absolute(self) -> str:
        """Its absolute path, or its URI on an object store."""
        return absolute(self.filesystem, self.path)

    @property
    def is_there(self) -> bool:
        """Whether the folder exists."""
        return bool(self.filesystem.get_file_info(self.path).type == pyarrow.fs.FileType.Directory)

    @property
    def is_file(self) -> bool:
        """Whether it is a file, and no folder."""
        return bool(self.filesystem.get_file_info(self.path).is_file)

    def subfolders(self) -> list[Folder]:
        """Return the folders directly inside this one, sorted by name; one request on an object store.

        Links to folders that this one is in are left out: they would be read again.
        """
        found = []
        for info in Listings().of(self.filesystem, self.path):
            with contextlib.suppress(UnicodeDecodeError):  # such a name is not a trial's
                here = Path(path_here(self.filesystem, info.path) or "")
                leads_up = here.is_symlink() and is_inside(os.path.realpath(here.parent), os.path.realpath(here))
                # a socket is neither a folder nor a file
                if info.type == pyarrow.fs.FileType.Directory and not leads_up:
                    found.append(Folder(self.filesystem, info.path))
        return sorted(found, key=lambda folder: folder.path)

    def has_file(self, name: str) -> bool:
        """Whether the folder has a file of this name, which may contain slashes."""
        return bool(self.filesystem.get_file_info(posixpath.join(self.path, name)).is_file)


def find_folders(
    source: Any,
    filesystem: pyarrow.fs.FileSystem | None = None,
    *,
    wanted: str = "the experiment's folder, which tuner.fit() prints",
) -> list[Folder]:
    """Return the folders of a path, a URI, a ``Folder``, a ``ResultGrid``, or a sequence of these.

    A path may end in a colon and the name of one of several experiments in the folder, as ``runs:CartPole-v1``.
    ``wanted`` says what to pass instead. Raises FileNotFoundError without such a folder, TypeError for anything else.
    """
    if isinstance(source, (str, Path, Folder)):
        folder = source if isinstance(source, Folder) else folder_at(source, filesystem)
        kind = kind_of(folder, folder.path if isinstance(source, Folder) else source)
        before, _, experiment = folder.path.rpartition(":")
        if kind == pyarrow.fs.FileType.NotFound and before and Folder(folder.filesystem, before).is_there:
            return [Folder(folder.filesystem, before, experiment)]
        if kind != pyarrow.fs.FileType.Directory:
            is_file = kind == pyarrow.fs.FileType.File
            wrong = f"{folder.path!r} is a file" if is_file else f"There is no folder {folder.path!r}"
            raise FileNotFoundError(f"{wrong}; " + remedy(f"pass {wanted}."))
        return [folder]
    path = getattr(source, "experiment_path", None)
    if isinstance(path, str):  # a ResultGrid
        return find_folders(path, filesystem or source.filesystem, wanted=wanted)
    if isinstance(source, Sequence) and source and not isinstance(source, (bytes, bytearray)):
        folders = [folder for part in source for folder in find_folders(part, filesystem, wanted=wanted)]
        return [folder for number, folder in enumerate(folders) if folder not in folders[:number]]
    raise TypeError(f"load() takes a folder, a URI, a ResultGrid, or a list of these; got {source!r}.")


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return for each path its last part, or, if two have the same, as many last parts as tell all apart.

    >>> short_names(["/a/sweep", "/b/sweep"])
    {'/a/sweep': 'a/sweep', '/b/sweep': 'b/sweep'}
    """
    names = {path: posixpath.basename(path) for path in paths}
    count = 1
    while len(set(names.values())) < len(names):
        count += 1
        names = {path: "/".join(path.split("/")[-count:]) for path in names}
    return names


def is_rsl_rls(trial: TrialFiles) -> bool:
    """Whether rsl_rl's log writer has made a trial's folder: a snapshot of it alone is beside it."""
    name = posixpath.basename(trial.path.rstrip("/"))
    return Folder(trial.filesystem, trial.experiment).has_file(f"experiment_state-{name}.json")


def allow_many_requests() -> int:
    """Let pyarrow send more requests at a time than its default of 8, and return how many.

    It lists folders in so many threads, and an S3 filesystem that is made afterwards opens so many connections. A
    number that the user has set (``pyarrow.set_io_thread_count``, ``ARROW_IO_THREADS``) stays if it is larger.
    """
    if pyarrow.io_thread_count() < _REQUESTS:
        pyarrow.set_io_thread_count(_REQUESTS)
    return int(pyarrow.io_thread_count())


def folder_at(path: str | Path, filesystem: pyarrow.fs.FileSystem | None = None) -> Folder:
    """Return the folder at a local path, a URI, or a path on ``filesystem``, whether it exists or not.

    Raises ValueError if no filesystem is known for the URI or no path can be this text, FileNotFoundError if it is
    empty.
    """
    text = str(path)
    if not text.strip():
        raise FileNotFoundError(
            "There is no folder ''; " + remedy("pass the experiment's folder, which tuner.fit() prints.")
        )
    if filesystem is not None:
        _FILESYSTEM.check("filesystem=", filesystem)
        is_here = isinstance(filesystem, pyarrow.fs.LocalFileSystem)  # others know no current folder
        return Folder(filesystem, str(Path(text).absolute()) if is_here else text)
    if "://" in text:
        allow_many_requests()
        try:
            return Folder(*at_uri(text))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            raise ValueError(
                f"load() cannot open {redacted(text)!r} ({redacted(str(error))}): "
                + remedy(
                    "pass a local path, a URI such as 's3://bucket/experiment' or 'gs://bucket/experiment', or a "
                    "path and " + argument("filesystem=") + ", a pyarrow filesystem."
                )
            ) from error
        except OSError as error:  # S3 is asked for the bucket's region
            raise _unreadable(text, error) from error
    return Folder(pyarrow.fs.LocalFileSystem(), str(local_path("load()", path).resolve()))


def kind_of(folder: Folder, path: str | Path) -> pyarrow.fs.FileType:
    """Return whether there is a folder, a file or nothing. Raises OSError with the text that was given."""
    try:
        return folder.filesystem.get_file_info(folder.path).type
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str | Path, error: OSError) -> OSError:
    return OSError(
        f"load() cannot read {redacted(str(path))!r}: is it spelled right, and has this machine access to it? "
        f"{redacted(str(error))}"
    )


class TrialFolders:
    """The folders of one filesystem that Tune or a recorder of ours may have written a trial to, and the known ones.

    To ask a remote storage for a file that is not there takes a LIST. A known trial there is not asked for as long as
    the log has its lines: all that comes into its index is there before.
    """

    def __init__(self, filesystem: pyarrow.fs.FileSystem, trials: Iterable[TrialFiles]) -> None:
        self._filesystem = filesystem
        self.known = {trial.path: trial for trial in trials if trial.filesystem is filesystem}
        self._is_far = not is_local(filesystem)

    def versions(
        self, folders: Sequence[str], sure: Collection[str], pool: ThreadPoolExecutor
    ) -> dict[str, Version | OSError]:
        """Return the folders that are a trial's, each with the version of its index, or why it cannot be had.

        Those that are ``sure`` are a trial's in any case.
        """
        sure = {*sure, *self.known}
        parts = pool.map(lambda part: self._look(part, sure), in_parts(folders, self._filesystem))
        return {folder: version for part in parts for folder, version in part.items()}

    def _look(self, folders: Sequence[str], sure: Collection[str]) -> dict[str, Version | OSError]:
        versions: dict[str, Version | OSError] = dict(self._logged(folders) if self._is_far else {})
        marks = self._marks([folder for folder in folders if folder not in versions])
        others = self._without_files([f for f, info in marks.items() if f not in sure and not _is_there(info)])
        for folder, info in marks.items():
            if isinstance(info, OSError):
                versions[folder] = info
            elif folder not in others:
                versions[folder] = version_of(info)
        return versions

    def _logged(self, folders: Sequence[str]) -> dict[str, Version]:
        """Return the versions that were read of the known trials that have lines in the log."""
        read = {folder: self.known[folder].version for folder in folders if folder in self.known}
        return {f: version for f, version in read.items() if version is not None and is_logged(self._filesystem, f)}

    def _marks(self, folders: Sequence[str]) -> dict[str, _Info]:
        """Return the facts of the index of each folder, or of the file that says where that is."""
        marks = dict(zip(folders, self._infos(folders, INDEX_PATH), strict=True))
        without = [folder for folder, info in marks.items() if not isinstance(info, OSError) and not info.is_file]
        pointers = zip(without, self._infos(without, LOCATION_FILE), strict=True)
        return marks | {folder: info for folder, info in pointers if _is_there(info)}

    def _without_files(self, folders: Sequence[str]) -> set[str]:
        """Return the folders that have neither hyperparameters nor results, nor lines in the log."""
        for name in (PARAMS, RESULTS):
            folders = [f for f, info in zip(folders, self._infos(folders, name), strict=True) if not _is_there(info)]
        return {folder for folder in folders if not is_logged(self._filesystem, folder)}

    def _infos(self, folders: Sequence[str], name: str) -> list[_Info]:
        return file_infos(self._filesystem, [posixpath.join(folder, name) for folder in folders])


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
