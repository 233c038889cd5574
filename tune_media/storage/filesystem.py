"""Reading and writing whole files on any pyarrow filesystem, so that no reader sees half of one."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
import shlex
import stat
import threading
import uuid
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.strict_json import parse_json

_PARTIAL = ".partial"
_HALF = re.compile(rf"\.[0-9a-f]{{8}}{re.escape(_PARTIAL)}\Z")  # the end of a name that ``_partial_name`` made
_OBJECT_STORES = ("s3", "gcs", "abfs")  # pyarrow's names, and parts of fsspec's
_SCHEMES = {"s3": "s3://", "gcs": "gs://", "abfs": "abfs://"}  # of pyarrow's filesystems
_GOOGLE_SECONDS = 30
_COPIES: deque[tuple[pyarrow.fs.FileSystem, pyarrow.fs.FileSystem]] = deque(maxlen=8)
_copying = threading.Lock()
_LOCAL = ("local", "py::fsspec+file", "py::fsspec+('file', 'local')")


def write_once(filesystem: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file whose name is its identity: if the whole file is there already, do nothing."""
    info = filesystem.get_file_info(path)
    if not info.is_file or info.size != len(content):
        write_atomically(filesystem, path, content)


def write_atomically(filesystem: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file so that no reader sees half of it: under a temporary name, then renamed.

    Object stores show an object when all of it is there, rename by copying and need no folders (six requests of S3).
    """
    base, below = _base_of(filesystem, path)
    if str(base.type_name) == "local":  # pyarrow's own: a user's may do more than write a file
        _write_here(below, content)
        return
    direct = _is_object_store(filesystem)
    if not direct:
        filesystem.create_dir(posixpath.dirname(path), recursive=True)
    target = path if direct else _partial_name(path)
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


def save_file(path: Path, content: bytes) -> Path:
    """Write the file that a user named, and its folder, as a whole: an older one stays until then. A link stays one."""
    if path.exists() and not path.is_file():  # /dev/stdout
        path.write_bytes(content)
    else:
        _write_here(os.path.realpath(path), content)
    return path


def _write_here(path: str, content: bytes) -> None:
    """Write a file on this machine: pyarrow takes four times as long for a small one."""
    target = _partial_name(path)
    try:
        write_new(target, content)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_new(target, content)
    try:
        os.replace(target, path)  # noqa: PTH105 - each of two paths takes pathlib as long as the call
    except OSError:
        with contextlib.suppress(OSError):
            Path(target).unlink()
        raise


def write_new(path: str, content: bytes) -> None:
    """Write a new file on this machine with as few system calls as possible; on a full disk no half of it stays."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BaseException:
        with contextlib.suppress(OSError):
            Path(path).unlink()
        raise
    finally:
        os.close(descriptor)


def _partial_name(path: str) -> str:
    """Return a unique name, since two processes may write one file; without "tfevents", which TensorBoard reads."""
    folder, name = posixpath.split(path)
    return posixpath.join(folder, f"{name.replace('tfevents', 'events')}.{uuid.uuid4().hex[:8]}{_PARTIAL}")


def delete_half_written(filesystem: pyarrow.fs.FileSystem, trial: str, folders: Iterable[str]) -> None:
    """Delete from folders of a trial the files that a killed ``write_atomically`` has not given their names.

    Files behind a link stay: they may be of a driver that runs. Raises OSError.
    """
    if _is_object_store(filesystem):
        return
    for folder in folders:
        selector = pyarrow.fs.FileSelector(posixpath.join(trial, folder), recursive=True, allow_not_found=True)
        for info in filesystem.get_file_info(selector):
            if info.is_file and _HALF.search(info.path) and not _is_behind_link(filesystem, trial, info.path):
                with contextlib.suppress(FileNotFoundError):
                    filesystem.delete_file(info.path)


def _is_behind_link(filesystem: pyarrow.fs.FileSystem, trial: str, path: str) -> bool:
    """Return whether the trial's folder, or something between it and a file, is a link; other machines have none."""
    here = local_path(filesystem, trial)
    if here is None:
        return False
    expected = Path(here).parent.resolve() / Path(here).name / posixpath.relpath(path, trial)
    return expected.resolve() != expected


def link_once(source: Path, target: Path) -> bool:
    """Give a finished file of this disk another name, unless one of its size has it; False: across disks, it cannot."""
    try:
        try:
            os.link(source, target)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(source, target)
    except FileExistsError:
        return target.stat().st_size == source.stat().st_size
    except OSError:
        return False
    return True


def append_whole(path: Path, content: bytes) -> None:
    """Append all of some content to a local file, or nothing, even if the disk fills up half-way."""
    with path.open("ab", buffering=0) as file:  # a buffer would be written again when the file is cut and closed
        before = file.tell()
        try:
            while content:
                content = content[file.write(content) :]
        except OSError:
            file.truncate(before)
            raise


def read_if_there(filesystem: pyarrow.fs.FileSystem, path: str) -> bytes | None:
    """Return the content of a file, or None if there is no such file; a folder or a pipe of this name is a warning.

    On other machines it is opened without asking first whether it is there: each request to an object store takes tens
    of milliseconds. Raises OSError.
    """
    try:
        check_is_file(filesystem, path)
        with filesystem.open_input_stream(path) as stream:
            return bytes(stream.read())
    except NotAFileError as error:
        warn_passed_over(path, str(error))
        return None
    except FileNotFoundError:
        return None
    except OSError:
        if filesystem.get_file_info(path).type == pyarrow.fs.FileType.File:
            raise
        return None  # a folder


def json_file(filesystem: pyarrow.fs.FileSystem, path: str, damaged: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON object in a file, an empty one if it is missing; with a warning ``damaged`` if it holds none."""
    content = read_if_there(filesystem, path)
    values = json_object(content)
    if values or (content is not None and content.strip() == b"{}"):
        return values
    here = local_path(filesystem, path)
    if content is not None:
        warn_passed_over(path, "it is no JSON object")
    elif here is None or not os.path.lexists(here) or (Path(here).is_file() and not Path(here).is_symlink()):
        return values
    return {} if damaged is None else damaged


def json_object(content: bytes | None) -> dict[str, Any]:
    """Return a JSON object; an empty one if the content is anything else.

    >>> json_object(b'{"a": NaN}'), json_object(b'[1'), json_object(None)
    ({'a': nan}, {}, {})
    """
    try:
        value = parse_json(content or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class NotAFileError(FileNotFoundError):
    """In the place of a file there is something else: a folder, a pipe, a device, or a link out of its folder."""


def check_is_file(filesystem: pyarrow.fs.FileSystem, path: str) -> None:
    """Raise FileNotFoundError or NotAFileError unless a path of this machine is a file: a pipe's reader would wait.

    Nor is a link to a file outside its folder one: what others wrote must not name what is read, and shown to others.
    """
    here = local_path(filesystem, path)
    if here is None:
        return
    try:
        mode = os.lstat(here).st_mode  # pathlib takes twice as long
        if stat.S_ISLNK(mode):
            mode = os.stat(here).st_mode  # noqa: PTH116
            if not is_inside(os.path.realpath(here), os.path.realpath(Path(here).parent)):
                raise NotAFileError("it is a link to a place outside its folder, not a file; copy the file there")
    except NotADirectoryError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such file", path) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotAFileError("it is a link to itself, not a file") from error
        raise
    if not stat.S_ISREG(mode):
        raise NotAFileError(f"it is a {'folder' if stat.S_ISDIR(mode) else 'pipe or a device'}, not a file")


def file_info(filesystem: pyarrow.fs.FileSystem, path: str) -> pyarrow.fs.FileInfo | None:
    """Return the facts of a file, or None if there is none; a folder or pipe of this name is a warning."""
    info = filesystem.get_file_info(path)
    return info if is_listed_file(filesystem, info) else None


def is_listed_file(filesystem: pyarrow.fs.FileSystem, info: pyarrow.fs.FileInfo) -> bool:
    """Return whether an entry of a folder is a file; a folder or pipe is a warning."""
    try:
        check_is_file(filesystem, info.path)
    except NotAFileError as error:
        warn_passed_over(info.path, str(error))
        return False
    except FileNotFoundError:
        return False
    return bool(info.is_file)


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder's, or below it; both have no links in them.

    >>> is_inside("/exp/trial/result.json", "/exp/trial"), is_inside("/exp/trial_2", "/exp/trial")
    (True, False)
    """
    return os.path.commonpath([folder, path]) == folder


def open_file(filesystem: pyarrow.fs.FileSystem, path: str) -> pyarrow.NativeFile:
    """Open a file, and nothing else, for reading at any position. Raises OSError."""
    check_is_file(filesystem, path)
    return filesystem.open_input_file(path)


def folders_in(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[str]:
    """Return the paths of the folders in a folder, without those whose names are no text. Raises OSError."""
    paths = []
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True)):
        with contextlib.suppress(UnicodeDecodeError):
            paths += [] if info.is_file else [info.path]
    return paths


def for_small_files(filesystem: pyarrow.fs.FileSystem) -> pyarrow.fs.FileSystem:
    """Return a copy of an S3 filesystem that sends a small file in one request, not in three; others as they are.

    It sends a file in the thread that writes it. Otherwise pyarrow sends eight at a time, whatever the threads.
    """
    if str(filesystem.type_name) != "s3":
        return filesystem
    with _copying:
        for original, copy in _COPIES:
            if original is filesystem or original.equals(filesystem):
                return copy
        copy = filesystem
        with contextlib.suppress(Exception):  # a release of pyarrow that pickles it in another way
            remake, (options,) = filesystem.__reduce__()
            copy = remake({**options, "allow_delayed_open": True, "background_writes": False})
        _COPIES.append((filesystem, copy))
        return copy


def is_local(filesystem: pyarrow.fs.FileSystem) -> bool:
    """Return whether a filesystem is this machine's own."""
    return _type_of(filesystem) in _LOCAL


def local_path(filesystem: pyarrow.fs.FileSystem, path: str) -> str | None:
    """Return the path on this machine of a path on a filesystem; None if the filesystem is not this machine's own.

    >>> import pyarrow.fs
    >>> local_path(pyarrow.fs.SubTreeFileSystem("/results", pyarrow.fs.LocalFileSystem()), "trial")
    '/results/trial'
    """
    filesystem, path = _base_of(filesystem, path)
    return path if is_local(filesystem) else None


def at_uri(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the filesystem of a URI, and the path on it. Raises pyarrow.ArrowException, OSError."""
    filesystem, path = pyarrow.fs.FileSystem.from_uri(_with_retry_limit(uri))
    return filesystem, path


def _with_retry_limit(uri: str) -> str:
    """Return a URI with a limit for Google's own retries, which last for 15 minutes if there is no access."""
    if not uri.startswith(("gs://", "gcs://")) or "retry_limit_seconds" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}retry_limit_seconds={_GOOGLE_SECONDS}"


def as_argument(filesystem: pyarrow.fs.FileSystem, path: str) -> str:
    """Return a place as the command line takes it: quoted, with the scheme of its storage.

    >>> as_argument(pyarrow.fs.LocalFileSystem(), "/results/my sweep")
    "'/results/my sweep'"
    """
    return shlex.quote(f"{_SCHEMES.get(_type_of(filesystem), '')}{path}")


def absolute(filesystem: pyarrow.fs.FileSystem, path: str) -> str:
    """Return an absolute path, or a URI on an object store.

    >>> absolute(pyarrow.fs.LocalFileSystem(), "/results/sweep")
    '/results/sweep'
    """
    here = local_path(filesystem, path)
    return f"{_SCHEMES.get(_type_of(filesystem), '')}{path}" if here is None else str(Path(here).absolute())


def place_name(filesystem: pyarrow.fs.FileSystem, path: str) -> str:
    """Return a text that names a folder, the same over all links to it.

    >>> place_name(pyarrow.fs.LocalFileSystem(), "/results/sweep/")
    '/results/sweep'
    """
    here = local_path(filesystem, path)
    return f"{_type_of(filesystem)}://{path.rstrip('/')}" if here is None else os.path.realpath(here)


def _base_of(filesystem: pyarrow.fs.FileSystem, path: str) -> tuple[pyarrow.fs.FileSystem, str]:
    while isinstance(filesystem, pyarrow.fs.SubTreeFileSystem):
        path = posixpath.join(filesystem.base_path, path.lstrip("/"))
        filesystem = filesystem.base_fs
    return filesystem, path


def _is_object_store(filesystem: pyarrow.fs.FileSystem) -> bool:
    return any(name in _type_of(filesystem) for name in _OBJECT_STORES)


def _type_of(filesystem: pyarrow.fs.FileSystem) -> str:
    return str(_base_of(filesystem, "")[0].type_name)
