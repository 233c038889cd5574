"""What a trial's results hand to its storage: entries, the files made of them, and what these are called."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs

from tune_media.episode_files import (
    Part,
    Report,
    parquet_name,
    recorder_of,
    report_json,
    report_parquet,
    steps_name,
    steps_parquet,
)
from tune_media.episodes import EpisodeBatch
from tune_media.values import Medium, shown

STORED, FAILED, DROPPED, DELETED = "stored", "failed", "dropped", "deleted"

FILE_NAME = re.compile(r"step_(\d{9,})-([0-9A-Za-z]{12})\.(\w+)$")
"""Of a medium: its step, the digits of its id, its format."""

_MAX_PART = 60
_MAX_KEY = 500  # characters; a trial folder's own path takes more, and object stores have 1,024 for both
ID_DIGITS = 12


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


@dataclass(eq=False)
class Entry:
    """A medium of a result, as the loggers get it.

    Attributes:
        medium: The medium.
        section: ``train`` or ``evaluation``.
        key: Its place inside its section.
        path: Its file, relative to the trial folder.
        step: The step that TensorBoard shows for the result.
        training_iteration: That of the result.
        life: How often the trial had gone back to an earlier iteration.
        lineage: The trials that the trial is a clone of, ``<trial id>@<training iteration>``, the nearest first.
        status: ``stored``, ``failed`` or ``dropped``; None while it waits to be written.
        package: Its files, where they are made together with those of other entries.
        is_sure: Whether what earlier runs listed was known when it was found to be new.
    """

    medium: Medium
    section: str
    key: str
    path: str
    step: int
    training_iteration: int
    life: int = 0
    lineage: tuple[str, ...] = ()
    status: str | None = None
    package: Package | None = None
    is_sure: bool = True

    @property
    def is_episodes(self) -> bool:
        """Whether it holds the episodes of a round, which are written together with others of the same result."""
        return isinstance(self.medium, EpisodeBatch)

    @property
    def is_lost(self) -> bool:
        """Whether there is nothing to show."""
        return self.status in (FAILED, DROPPED)

    @property
    def show_bytes(self) -> int:
        """How much memory it holds; 0 for episodes, which are never left out where too much waits to be shown."""
        return 0 if self.is_episodes else self.medium.nbytes

    def content(self) -> bytes:
        """Return its file."""
        return self.package.files()[self.path] if self.package else self.medium.content()


class NotMadeError(Exception):
    """A file could not be made of a value; trying again is of no use."""


class Package:
    """The file of a medium, or the files of all episodes of a result, made when they are first asked for.

    Args:
        trial_id: The trial.
        entries: What the files hold: one medium, or several batches of episodes of one result.
    """

    def __init__(self, trial_id: str, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.problems: str | None = None
        self._trial_id = trial_id
        self._files: dict[str, bytes] | None = None
        self._lock = threading.Lock()
        for entry in entries:
            entry.package = self

    @property
    def path(self) -> str:
        """The file that its lines name."""
        return self.entries[0].path

    def files(self) -> dict[str, bytes]:
        """Return the files by their path relative to the trial's folder.

        Raises:
            NotMadeError: The file that the lines name cannot be made.
        """
        with self._lock:
            if self._files is None:
                self._files = self._make()
            return self._files

    def _make(self) -> dict[str, bytes]:
        first = self.entries[0]
        makers: dict[str, Callable[[], bytes]] = {first.path: first.medium.content}
        if first.is_episodes:
            batches = [(entry, entry.medium) for entry in self.entries if isinstance(entry.medium, EpisodeBatch)]
            parts = [Part(entry.section, recorder_of(entry.key), batch) for entry, batch in batches]
            report = Report(self._trial_id, first.training_iteration, first.step, parts)
            makers = {
                first.path: lambda: report_json(report, first.path),
                parquet_name(first.path): lambda: report_parquet(report),
            }
            if report.has_steps:
                makers[steps_name(first.path)] = lambda: steps_parquet(report)
        files: dict[str, bytes] = {}
        errors: list[Exception] = []
        for name, make in makers.items():  # each for itself: what one cannot hold, another may
            try:
                files[name] = make()
            except Exception as error:
                errors.append(error)
        self.problems = "; ".join(f"{type(error).__name__}: {shown(error, str)}" for error in errors) or None
        if first.path not in files:
            raise NotMadeError(self.problems) from errors[0]
        return files


def file_name(step: int, medium: Medium) -> str:
    """Return what the file of a medium is called."""
    return f"step_{step:09d}-{safe_id(medium.id)}{safe_suffix(medium.suffix)}"


def safe_key(key: str) -> str:
    """Turn a key into path parts that every filesystem takes; the index keeps the key itself."""
    path = "/".join(_safe_part(part) for part in key.split("/") if part) or "_"
    if len(path) <= _MAX_KEY:
        return path
    return f"{path[: _MAX_KEY - _MAX_PART].rpartition('/')[0]}/{_digest(key)}"


def safe_id(id: str) -> str:
    """Return the digits of an id that go into a file name: its first ones, or a hash where it is none of ours."""
    return id[:ID_DIGITS] if re.fullmatch(r"[0-9a-f]{32}", id) else _digest(id)


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
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:ID_DIGITS]
