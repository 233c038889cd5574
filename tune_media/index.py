"""The index of a trial's media: a file of JSON lines, appended on the driver and copied to the trial's storage.

The driver's copy lies in the folder that Tune syncs (and tells people to point TensorBoard at); it is appended at once.
The storage's copy is replaced as a whole, so that nobody sees half of it, at most every few seconds.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow.fs

from tune_media.files import Pause, append_whole, is_local, read_if_there, write_atomically
from tune_media.values import json_bytes

if TYPE_CHECKING:
    from tune_media.entries import Place

INDEX_VERSION = 1
INDEX_PATH = "media/index.jsonl"

_SOONEST_LOCAL, _SOONEST = 0.5, 5.0  # seconds between copies to the storage

Key = tuple[str, str, str]


class Index:
    """The index of one trial.

    Until ``load`` has read what earlier runs of the trial listed, new lines are held in memory, so that no sync puts
    a short index in the place of a long one.

    Args:
        place: Where the trial's files are.
        report: Told what the driver's copy did not take; the line is held, and written with the next.
    """

    def __init__(self, place: Place, report: Callable[[Exception], None] = lambda error: None) -> None:
        self._report = report
        self._filesystem = place.filesystem
        self._local = place.local_path / INDEX_PATH
        self._remote = posixpath.join(place.path, INDEX_PATH)
        self._pause = Pause(_SOONEST_LOCAL if is_local(place.filesystem) else _SOONEST)
        self._unwritten = b""
        self._held: bytes | None = None  # all of the driver's copy, where it could not be replaced
        self._is_stale = self._is_loaded = False
        self._lock = threading.Lock()

    def load(self) -> list[dict[str, Any]]:
        """Read what earlier runs listed, on the storage and on the driver, and go on from there.

        Raises:
            OSError: The storage does not answer.
        """
        remote = read_if_there(self._filesystem, self._remote) or b""
        with self._lock:
            local = self._content()
            here = {key_of(line) for line in parse_index(local)}
            missing = [raw for raw, line in _raw_lines(remote) if line is None or key_of(line) not in here]
            if missing or not local:  # what only the storage has; lines that are none are kept as they are
                known = {raw for raw, _ in _raw_lines(local)}
                local = b"".join(raw + b"\n" for raw in missing if raw not in known) + local
            if local and not local.endswith(b"\n"):  # what wrote it was killed in mid-line
                local += b"\n"
            if local:
                self._replace(local)
            self._is_loaded = True
        return list(parse_index(local))

    def go_on_without(self) -> None:
        """Write the driver's copy though ``load`` has not succeeded, when no sync comes any more."""
        with self._lock, contextlib.suppress(OSError):
            if not self._is_loaded:
                self._write()

    @property
    def is_late(self) -> bool:
        """Whether the storage's copy ought to be brought up to date."""
        return self._is_stale and self._pause.is_over

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines."""
        with self._lock:
            return list(parse_index(self._content() + self._unwritten))

    def append(self, line: dict[str, Any]) -> None:
        """Add a line; it never raises."""
        with self._lock:
            self._unwritten += json_bytes(line) + b"\n"
            self._is_stale = True
            if self._is_loaded:
                try:
                    self._write()
                except OSError as error:
                    self._report(error)

    def amend(self, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> int:
        """Change lines in place.

        Args:
            change: Returns what a line is to say besides or instead (None as a value: no more); None: it stays.

        Returns:
            How many lines were changed.

        Raises:
            OSError: What earlier runs listed has not been read.
        """
        changed = 0
        with self._lock:
            if not self._is_loaded:
                raise OSError("the index that the storage has is not read yet")
            content = []
            for raw, line in _raw_lines(self._content() + self._unwritten):
                more = change(line) if line is not None else None
                changed += more is not None
                content.append(raw if line is None or more is None else _changed(line, more))
            if changed:
                self._unwritten = b""
                self._replace(b"".join(raw + b"\n" for raw in content))
                self._is_stale = True
        return changed

    @property
    def is_held(self) -> bool:
        """Whether the driver's copy lacks what the storage's has: a sync would put the former in the latter's place."""
        return bool(self._unwritten) or self._held is not None

    def copy(self) -> None:
        """Bring the storage's copy up to date.

        Raises:
            OSError: The storage does not answer.
        """
        with self._lock:
            if not self._is_loaded or not (self._is_stale or self.is_held):
                return
            with contextlib.suppress(OSError):  # it has been told, and the storage gets the lines all the same
                self._write()
            content = self._content() + self._unwritten
            self._is_stale = False
        try:
            write_atomically(self._filesystem, self._remote, content)
        except BaseException:
            self._is_stale = True
            raise
        self._pause.begin()

    def _content(self) -> bytes:
        if self._held is not None:
            return self._held
        return self._local.read_bytes() if self._local.exists() else b""

    def _write(self) -> None:
        """Write what the driver's copy lacks.

        Raises:
            OSError: It cannot be written; it is kept.
        """
        if not self.is_held:
            return
        self._local.parent.mkdir(parents=True, exist_ok=True)
        if self._held is not None:
            write_atomically(pyarrow.fs.LocalFileSystem(), str(self._local), self._held)
            self._held = None
        if self._unwritten:
            append_whole(self._local, self._unwritten)
            self._unwritten = b""

    def _replace(self, content: bytes) -> None:
        self._held = content
        try:
            self._write()
        except OSError as error:
            self._report(error)


def _changed(line: dict[str, Any], more: dict[str, Any]) -> bytes:
    return json_bytes({name: value for name, value in {**line, **more}.items() if value is not None})


def key_of(line: dict[str, Any]) -> Key:
    """Return what tells a line from all others."""
    return str(line["id"]), str(line["section"]), str(line["key"])


def parse_index(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the lines of an index; what is half-written or no index line is passed over."""
    for _, line in _raw_lines(content):
        if line is not None:
            yield line


def read_index(filesystem: pyarrow.fs.FileSystem, folder: str) -> Iterable[dict[str, Any]]:
    """Read the index of a trial, or nothing where it has none."""
    return parse_index(read_if_there(filesystem, posixpath.join(folder, INDEX_PATH)) or b"")


def _raw_lines(content: bytes) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yield the lines of a file, each with what it says where it is an index line."""
    for raw in content.split(b"\n"):
        if not raw:
            continue
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            line = None
        yield raw, line if _is_line(line) else None


def _is_line(line: Any) -> bool:
    """Say whether a value is an index line, of a file that is inside its trial's folder."""
    names = ("id", "section", "key", "path")
    if not isinstance(line, dict) or not all(isinstance(line.get(name), str) for name in names):
        return False
    path = line["path"]
    return path.isprintable() and "\\" not in path and not {"", ".", ".."} & set(path.split("/"))
