"""The files of one run of another tool, as its readers get them."""

from __future__ import annotations

import csv
import fnmatch
import io
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow.fs

from tune_media.storage.clip_names import is_clip_name
from tune_media.storage.filesystem import local_path, open_file
from tune_media.values.strict_json import parse_json

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
    own: str = ""
    """The path of the run's own folder in ``folder``, if its clips lie beside it; empty if both are one."""

    @property
    def run_folder(self) -> str:
        """The run's own folder."""
        return posixpath.join(self.folder, self.own) if self.own else self.folder

    def matching(self, *patterns: str) -> list[str]:
        """Return the paths, sorted, that match a pattern: of the file's name, or with a slash of the path's end."""
        found = set[str]()
        for pattern in patterns:
            if "/" in pattern:
                found.update(path[1:] for path in fnmatch.filter(self._paths, f"*/{pattern}"))
            else:
                found.update(*(self._named[name] for name in fnmatch.filter(self._named, pattern)))
        return sorted(found)

    @cached_property
    def _paths(self) -> list[str]:
        return [f"/{path}" for path in self.infos]

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        """The paths by the files' names."""
        named: dict[str, list[str]] = {}
        for path in self.infos:
            named.setdefault(posixpath.basename(path), []).append(path)
        return named

    @cached_property
    def clips(self) -> list[str]:
        """The paths of its clips, sorted."""
        return sorted(filter(is_clip_name, self.infos))

    @property
    def version(self) -> tuple[int, int]:
        """The size of all its files, and when the last was written, in ns."""
        infos = self.infos.values()
        return sum(info.size or 0 for info in infos), max((info.mtime_ns or 0 for info in infos), default=0)

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


def values_in(name: str, content: bytes) -> Iterator[Any]:
    """Yield the value of a JSON file, the value of each line of a JSONL file, or each row of a CSV file.

    A CSV file may have commas, semicolons or tabs. Raises ValueError.

    >>> list(values_in("a.csv", b"seed;return\\n1;2.5")), list(values_in("a.jsonl", b'{"seed": 1}\\n\\n[2]'))
    ([{'seed': '1', 'return': '2.5'}], [{'seed': 1}, [2]])
    """
    suffix = posixpath.splitext(name)[1].lower()
    if suffix == ".json":
        yield parse_json(content)
    elif suffix == ".jsonl":
        yield from map(parse_json, filter(bytes.strip, content.splitlines()))
    else:
        text = content.decode("utf-8-sig")
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
        try:
            yield from csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
        except csv.Error as error:
            raise ValueError(str(error)) from error


def whole_lines(content: bytes) -> str:
    """Return the lines of a file without the last one if its end is missing: half a number looks like another one.

    >>> whole_lines(b"1,0.25\\n2,0.2")
    '1,0.25\\n'
    """
    return content[: content.rfind(b"\n") + 1].decode("utf-8-sig")
