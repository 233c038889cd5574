"""Reading and writing whole files on any pyarrow filesystem, so that nobody ever sees half of one."""

from __future__ import annotations

import contextlib
import posixpath
import time
from pathlib import Path

import pyarrow.fs

PARTIAL = ".partial"

_OBJECT_STORES = ("s3", "gcs", "abfs")  # pyarrow's names, and parts of fsspec's
_LOCAL = ("local", "py::fsspec+file", "py::fsspec+('file', 'local')")


class Pause:
    """How long something that is copied as a whole is not copied again: longer the longer it has been going on.

    Args:
        soonest: The shortest pause, seconds.
    """

    _LATEST, _SHARE_OF_AGE = 60.0, 0.1

    def __init__(self, soonest: float) -> None:
        self._soonest = soonest
        self._opened_at = time.monotonic()
        self._began_at = float("-inf")

    def begin(self) -> None:
        """It has been copied just now."""
        self._began_at = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether it may be copied again."""
        now = time.monotonic()
        pause = max(self._soonest, self._SHARE_OF_AGE * (now - self._opened_at))
        return now - self._began_at > min(pause, self._LATEST)


def write_once(filesystem: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file whose name is its identity: where it is already, whole, nothing is done."""
    info = filesystem.get_file_info(path)
    if info.type == pyarrow.fs.FileType.File and info.size == len(content):
        return
    write_atomically(filesystem, path, content)


def write_atomically(filesystem: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file so that nobody ever sees half of it: under a temporary name, then renamed.

    Object stores show an object when all of it has arrived, and rename by copying: there it is written directly.
    """
    direct = any(name in _type_of(filesystem) for name in _OBJECT_STORES)
    filesystem.create_dir(posixpath.dirname(path), recursive=True)
    target = path if direct else f"{path}{PARTIAL}"
    try:
        with filesystem.open_output_stream(target) as stream:
            stream.write(content)
        if not direct:
            filesystem.move(target, path)
    except OSError:
        if not direct:  # on a full disk half a file is in the way
            with contextlib.suppress(OSError):
                filesystem.delete_file(target)
        raise


def write_in_place(filesystem: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file that only grows, so that who has it open sees what is new."""
    filesystem.create_dir(posixpath.dirname(path), recursive=True)
    with filesystem.open_output_stream(path) as stream:
        stream.write(content)


def append_whole(path: Path, content: bytes) -> None:
    """Append to a local file all of something or nothing: a disk that fills up would take a part of it."""
    with path.open("ab", buffering=0) as file:  # a buffer would be written again when the file is cut and closed
        before = file.tell()
        try:
            while content:
                content = content[file.write(content) :]
        except OSError:
            file.truncate(before)
            raise


def read_if_there(filesystem: pyarrow.fs.FileSystem, path: str) -> bytes | None:
    """Return the content of a file, or None where there is none."""
    if filesystem.get_file_info(path).type != pyarrow.fs.FileType.File:
        return None
    with filesystem.open_input_stream(path) as stream:
        return bytes(stream.read())


def is_local(filesystem: pyarrow.fs.FileSystem) -> bool:
    """Say whether a filesystem is this machine's own."""
    return _type_of(filesystem) in _LOCAL


def _type_of(filesystem: pyarrow.fs.FileSystem) -> str:
    if isinstance(filesystem, pyarrow.fs.SubTreeFileSystem):
        return _type_of(filesystem.base_fs)
    return str(filesystem.type_name)
