"""The media of one trial on its storage: what they are called, written once, and the index that lists them.

Media are written straight to the trial's place on its storage (any pyarrow filesystem), not into the folder that Tune
uploads again at every sync: each byte travels once. The index is text and small. Its lines are appended in that folder,
where Tune's sync and whoever looks there find them, and the whole of it is copied to the storage every few seconds and
at the end.
"""

from __future__ import annotations

import hashlib
import json
import logging
import posixpath
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.episode_files import (
    FOLDER,
    Part,
    Report,
    file_names,
    parquet_name,
    recorder_of,
    report_json,
    report_parquet,
    steps_name,
    steps_parquet,
)
from tune_media.episodes import EpisodeBatch
from tune_media.values import CONTENT_DIGITS, Medium, json_bytes, new_id

logger = logging.getLogger(__name__)

INDEX_VERSION = 1
INDEX_PATH = "media/index.jsonl"
STORED, FAILED, DROPPED = "stored", "failed", "dropped"

_MAX_PART = 60
_MAX_KEY = 500  # characters; a trial folder's own path takes more, and object stores have 1,024 for both
_ID_DIGITS = 12
_INDEX_UPLOAD_SECONDS = 5.0
_OBJECT_STORES = ("s3", "gcs", "abfs")  # pyarrow's names


@dataclass(frozen=True)
class Place:
    """Where a trial's files are.

    Attributes:
        filesystem: Where results end up.
        path: The trial's folder on it.
        local_path: The folder of the trial that Tune syncs to there.
        trial_id: The trial.
    """

    filesystem: pyarrow.fs.FileSystem
    path: str
    local_path: Path
    trial_id: str


@dataclass
class Entry:
    """A medium of a result, as the loggers get it.

    Attributes:
        medium: The medium.
        section: ``train`` or ``evaluation``.
        key: Its place inside its section.
        path: Its file, relative to the trial folder.
        step: The step that TensorBoard shows for the result.
        training_iteration: That of the result.
        status: ``stored``, ``failed`` or ``dropped``; None while it waits to be written.
    """

    medium: Medium
    section: str
    key: str
    path: str
    step: int
    training_iteration: int
    status: str | None = None

    @property
    def is_episodes(self) -> bool:
        """Whether it holds the episodes of a round, which are written together with others of the same result."""
        return isinstance(self.medium, EpisodeBatch)


class TrialStore:
    """Files and index of one trial.

    ``register`` is quick and called by whoever reads results; ``write``, ``give_up`` and ``finish`` do the work and are
    called by one background thread.

    Args:
        place: Where.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._paths: dict[str, str] = {}  # id of a medium -> its file
        self._by_content: dict[str | None, str] = {}  # what a repetition would say -> the file of what it repeats
        self._reports: set[str] = set()  # files of episodes that are taken
        self._listed: set[tuple[str, str, str]] = set()  # (id, section, key)
        self._lock = threading.Lock()
        self._index = _Index(place)
        for line in self._index.lines():
            if line.get("status") == STORED:
                self._remember(line["id"], line["section"], line["key"], line["path"])

    def knows(self, medium: Medium) -> bool:
        """Say whether a medium has been registered before, under any key."""
        with self._lock:
            return medium.id in self._paths or medium.may_repeat in self._by_content

    def report_path(self, step: int) -> str:
        """Return a file for the episodes of a result; another than that of any other result at the same step."""
        with self._lock:
            path = file_names(step)
            if path in self._reports:
                path = file_names(step, new_id()[:_ID_DIGITS])
            self._reports.add(path)
        return path

    def register(
        self,
        medium: Medium,
        section: str,
        key: str,
        step: int,
        training_iteration: int,
        own_path: Callable[[], str] | None = None,
    ) -> tuple[str, Entry | None]:
        """Say where a medium is or will be.

        Args:
            medium: The medium.
            section: ``train`` or ``evaluation``.
            key: Its place inside its section.
            step: The step that TensorBoard shows for the result.
            training_iteration: That of the result.
            own_path: Returns the path of a medium that is not called as others are; asked where it is new.

        Returns:
            Its path relative to the trial folder, and the entry to ``write``, which is None where this medium has been
            registered under this key before.
        """
        with self._lock:
            if medium.may_repeat in self._by_content:
                return self._by_content[medium.may_repeat], None
            path = self._paths.get(medium.id)
        if path is None and own_path is not None:
            path = own_path()
        with self._lock:
            if path is None:
                name = f"step_{step:09d}-{safe_id(medium.id)}{safe_suffix(medium.suffix)}"
                path = posixpath.join("media", section, safe_key(key), name)
            known = (medium.id, section, key) in self._listed
            self._remember(medium.id, section, key, path)
        return path, None if known else Entry(medium, section, key, path, step, training_iteration)

    def write(self, entry: Entry) -> int:
        """Write the file of an entry, unless another entry has, and list it in the index.

        Returns:
            The size of the file.

        Raises:
            Exception: Whatever encoding or writing raised; the index has it too.
        """
        try:
            content = entry.medium.content()
            facts = entry.medium.facts()
            write_once(self.place.filesystem, posixpath.join(self.place.path, entry.path), content)
        except Exception as error:
            self.give_up(entry, FAILED, f"{type(error).__name__}: {error}")
            raise
        entry.status = STORED
        with self._lock:
            self._remember(entry.medium.id, entry.section, entry.key, entry.path)
        digest = hashlib.sha256(content).hexdigest()
        self._index.append(self._line(entry, bytes=len(content), sha256=digest, **facts, note=entry.medium.note))
        return len(content)

    def write_episodes(self, entries: Sequence[Entry]) -> int:
        """Write the files of the episodes of one result, JSON and Parquet, and list them in the index.

        Returns:
            Their size.

        Raises:
            Exception: Whatever writing raised; the index has it too.
        """
        path = entries[0].path
        batches = [(entry, entry.medium) for entry in entries if isinstance(entry.medium, EpisodeBatch)]
        parts = [Part(entry.section, recorder_of(entry.key), batch) for entry, batch in batches]
        report = Report(self.place.trial_id, entries[0].training_iteration, entries[0].step, parts)
        makers: dict[str, Callable[[], bytes]] = {
            path: lambda: report_json(report, path),
            parquet_name(path): lambda: report_parquet(report),
        }
        if report.has_steps:
            makers[steps_name(path)] = lambda: steps_parquet(report)
        sizes: dict[str, int] = {}
        errors: list[Exception] = []
        digest = ""
        for name, make in makers.items():  # each for itself: what one cannot hold, another may
            try:
                content = make()
                write_once(self.place.filesystem, posixpath.join(self.place.path, name), content)
            except Exception as error:
                errors.append(error)
                continue
            sizes[name] = len(content)
            digest = digest or hashlib.sha256(content).hexdigest()
        problems = "; ".join(f"{type(error).__name__}: {error}" for error in errors) or None
        for entry, batch in batches:
            if path not in sizes:
                self.give_up(entry, FAILED, problems or "")
                continue
            entry.status = STORED
            with self._lock:
                self._remember(batch.id, entry.section, entry.key, path)
            note = "; ".join(text for text in (batch.note, problems) if text) or None
            self._index.append(self._line(entry, bytes=sizes[path], sha256=digest, **batch.facts(), note=note))
        if errors:
            raise errors[0]
        return sum(sizes.values())

    def give_up(self, entry: Entry, status: str, reason: str) -> None:
        """List an entry that has no file, and why; should it come again, it is tried again."""
        entry.status = status
        with self._lock:
            self._paths.pop(entry.medium.id, None)
            self._by_content.pop(entry.medium.id[:CONTENT_DIGITS], None)
            self._listed.discard((entry.medium.id, entry.section, entry.key))
        self._index.append(self._line(entry, note=reason[:500]))

    @property
    def index_is_late(self) -> bool:
        """Whether the storage's copy of the index has been out of date for some seconds."""
        return self._index.is_late

    def _remember(self, id: str, section: str, key: str, path: str) -> None:
        self._paths[id] = self._by_content[id[:CONTENT_DIGITS]] = path
        if path.startswith(f"{FOLDER}/"):
            self._reports.add(path)
        self._listed.add((id, section, key))

    def finish(self) -> None:
        """Bring the storage's copy of the index up to date."""
        self._index.upload()

    def _line(self, entry: Entry, **facts: Any) -> dict[str, Any]:
        line = {
            "v": INDEX_VERSION,
            "id": entry.medium.id,
            "kind": entry.medium.kind,
            "section": entry.section,
            "key": entry.key,
            "path": entry.path,
            **facts,
            "training_iteration": entry.training_iteration,
            "step": entry.step,
            "time": round(time.time(), 3),
            "trial_id": self.place.trial_id,
            "status": entry.status,
        }
        return {name: value for name, value in line.items() if value is not None}


class _Index:
    """The index file: appended locally, copied to the storage."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._local = place.local_path / INDEX_PATH
        self._remote = posixpath.join(place.path, INDEX_PATH)
        self._uploaded_at = 0.0
        self._stale = False
        self._lock = threading.Lock()

    def lines(self) -> list[dict[str, Any]]:
        """Read what an earlier run of this trial listed; a local file that is gone is brought back first."""
        if not self._local.exists():
            content = read_if_there(self._place.filesystem, self._remote)
            if content:
                self._local.parent.mkdir(parents=True, exist_ok=True)
                self._local.write_bytes(content)
        if not self._local.exists():
            return []
        content = self._local.read_bytes()
        if content and not content.endswith(b"\n"):  # what wrote it was killed in mid-line
            with self._local.open("ab") as file:
                file.write(b"\n")
        return list(parse_index(content))

    @property
    def is_late(self) -> bool:
        return self._stale and time.monotonic() - self._uploaded_at > _INDEX_UPLOAD_SECONDS

    def append(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._local.parent.mkdir(parents=True, exist_ok=True)
            with self._local.open("ab") as file:
                file.write(json_bytes(line) + b"\n")
            self._stale = True
        if self.is_late:
            self.upload()

    def upload(self) -> None:
        with self._lock:
            if not self._stale:
                return
            write_atomically(self._place.filesystem, self._remote, self._local.read_bytes())
            self._stale = False
            self._uploaded_at = time.monotonic()


def parse_index(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the lines of an index; what is half-written or no index line is passed over."""
    for raw in content.split(b"\n"):
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        if _is_line(line):
            yield line


def _is_line(line: Any) -> bool:
    """Say whether a value is an index line, of a file that is inside its trial's folder."""
    names = ("id", "section", "key", "path")
    if not isinstance(line, dict) or not all(isinstance(line.get(name), str) for name in names):
        return False
    path = line["path"]
    return path.isprintable() and "\\" not in path and not {"", ".", ".."} & set(path.split("/"))


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
    direct = filesystem.type_name in _OBJECT_STORES
    filesystem.create_dir(posixpath.dirname(path), recursive=True)
    target = path if direct else f"{path}.partial"
    with filesystem.open_output_stream(target) as stream:
        stream.write(content)
    if not direct:
        filesystem.move(target, path)


def read_if_there(filesystem: pyarrow.fs.FileSystem, path: str) -> bytes | None:
    """Return the content of a file, or None where there is none."""
    if filesystem.get_file_info(path).type != pyarrow.fs.FileType.File:
        return None
    with filesystem.open_input_stream(path) as stream:
        return bytes(stream.read())


def safe_key(key: str) -> str:
    """Turn a key into path parts that every filesystem takes; the index keeps the key itself."""
    path = "/".join(_safe_part(part) for part in key.split("/") if part) or "_"
    if len(path) <= _MAX_KEY:
        return path
    return f"{path[: _MAX_KEY - _MAX_PART].rpartition('/')[0]}/{_digest(key)}"


def safe_id(id: str) -> str:
    """Return the digits of an id that go into a file name: its first ones, or a hash where it is none of ours."""
    return id[:_ID_DIGITS] if re.fullmatch(r"[0-9a-f]{32}", id) else _digest(id)


def safe_suffix(suffix: str) -> str:
    """Return a file name ending of letters and digits."""
    clean = re.sub(r"[^0-9A-Za-z]", "", suffix)[:12]
    return f".{clean}" if clean else ".bin"


def _safe_part(part: str) -> str:
    clean = re.sub(r"[^0-9A-Za-z_.=-]", "_", part).lstrip(".") or "_"
    if len(clean) <= _MAX_PART:
        return clean
    digest = _digest(part)[:8]
    return f"{clean[: _MAX_PART - len(digest) - 1]}-{digest}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_DIGITS]
