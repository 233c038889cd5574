"""The files of one run of another tool, as its readers get them."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.fs

from tune_media.storage.filesystem import local_path, open_file

MOST_BYTES = 64 * 1024 * 1024
"""Of a file that is read as a whole."""


@dataclass(frozen=True)
class RunFiles:
    """The files of a run's folder and of its parts, by their paths in it, which have slashes.

    >>> from pyarrow.fs import FileInfo, FileType, LocalFileSystem
    >>> infos = {path: FileInfo(path, FileType.File) for path in ("eval/monitor.csv", "config.yaml")}
    >>> RunFiles(LocalFileSystem(), "logs/PPO_1", infos).matching("monitor.csv")
    ['eval/monitor.csv']
    """

    filesystem: pyarrow.fs.FileSystem
    folder: str
    infos: Mapping[str, pyarrow.fs.FileInfo]

    def matching(self, *patterns: str) -> list[str]:
        """Return the paths, sorted, that match a pattern; one without a slash is of the file's name."""
        return sorted(
            path
            for path in self.infos
            if any(
                fnmatch.fnmatchcase(path if "/" in pattern else posixpath.basename(path), pattern)
                for pattern in patterns
            )
        )

    def full(self, path: str) -> str:
        """Return a path on the filesystem."""
        return posixpath.join(self.folder, path)

    def local(self, path: str) -> str | None:
        """Return the path on this machine's disk, or None if the filesystem is another one."""
        return local_path(self.filesystem, self.full(path))

    def read(self, path: str) -> bytes:
        """Return a file's content. Raises OSError, or ValueError if it is larger than ``MOST_BYTES``."""
        size = self.infos[path].size or 0
        if size > MOST_BYTES:
            raise ValueError(f"{path} has {size / 1e6:.0f} MB, which is too much to be read")
        with open_file(self.filesystem, self.full(path)) as file:
            return bytes(file.read())
