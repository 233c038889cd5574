"""A medium of a result on its way to the storage, and the files that are made of it."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tune_media.storage.episode_files import (
    EpisodeReport,
    RecorderEpisodes,
    parquet_name,
    recipe_name,
    recorder_of,
    report_json,
    report_parquet,
    steps_name,
    steps_parquet,
)
from tune_media.storage.index_lines import INDEX_VERSION, Line
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.foreign import shown
from tune_media.values.histogram import Histogram
from tune_media.values.medium import Medium

STORED, FAILED, DROPPED, DELETED = "stored", "failed", "dropped", "deleted"
LOST = (FAILED, DROPPED)
KEPT_ON_DRIVER = "kept in the driver's folder, not on the storage"


@dataclass(eq=False)
class MediaEntry:
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
        package: Its files, if they are made together with those of other entries.
        is_sure: Whether the lines of earlier runs were known when it was found to be new.
        shares_file: Whether the medium has this file under another key already.
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
    package: PendingWrite | None = None
    is_sure: bool = True
    shares_file: bool = False

    @property
    def is_episodes(self) -> bool:
        """Whether it holds the episodes of a round, which are written together with others of the same result."""
        return isinstance(self.medium, EpisodeBatch)

    @property
    def is_lost(self) -> bool:
        """Whether there is nothing to show."""
        return self.status in LOST

    @property
    def show_bytes(self) -> int:
        """How much memory it holds; 0 for episodes, which are shown even if too much waits to be shown."""
        return 0 if self.is_episodes else self.medium.nbytes

    @property
    def tag(self) -> str:
        """The name under which backends show it: ``<section>/<key>``, for episodes ``<section>/<recorder>``."""
        return f"{self.section}/{recorder_of(self.key) if self.is_episodes else self.key}"

    def histograms(self) -> dict[str, Histogram]:
        """Return by tag the histogram that the medium is, or those of the values of its episodes; none of a clip."""
        if isinstance(self.medium, EpisodeBatch):
            return {f"{self.tag}/{name}": histogram for name, histogram in self.medium.histograms().items()}
        return {self.tag: self.medium} if isinstance(self.medium, Histogram) else {}

    def content(self) -> bytes:
        """Return its file."""
        return self.package.files()[self.path] if self.package else self.medium.content()


class LostMedium(Medium):
    """A medium without its content: it remains to be listed, if the file is lost in which the medium waited.

    Args:
        medium: The medium.
    """

    def __init__(self, medium: Medium) -> None:
        self.id, self.kind = medium.id, medium.kind  # type: ignore[misc]


def _clips_by_episode(entries: Iterable[MediaEntry]) -> dict[str, dict[str, str]]:
    """Return the id of each clip by its path, for each episode id."""
    clips: dict[str, dict[str, str]] = {}
    for entry in entries:
        record = getattr(entry.medium, "episode", None)
        if record is not None:
            clips.setdefault(record.episode_id, {})[entry.path] = entry.medium.id
    return clips


def line_of(entry: MediaEntry, trial_id: str, facts: Line) -> Line:
    """Return the index line of an entry; facts that are None are left out.

    Args:
        entry: The entry.
        trial_id: Its trial.
        facts: More fields; ``status`` replaces the entry's.
    """
    line = {
        **facts,
        "v": INDEX_VERSION,
        "id": entry.medium.id,
        "kind": entry.medium.kind,
        "section": entry.section,
        "key": entry.key,
        "path": entry.path,
        "status": facts.get("status", entry.status),
        "training_iteration": entry.training_iteration,
        "step": entry.step,
        "time": round(time.time(), 3),
        "trial_id": trial_id,
        "lineage": list(entry.lineage) or None,
    }
    return {name: value for name, value in line.items() if value is not None}


class NotMadeError(Exception):
    """A file could not be made of a value, and trying again would not help."""


class PendingWrite:
    """The file of a medium, or the files of all episodes of a result, made when they are first needed.

    The storage's thread calls all methods; its helpers and the threads of backends may call ``files``.

    Attributes:
        problems: What could not be made of the values, and why.
        is_on_storage: Whether the files are on the storage already.

    Args:
        trial_id: The trial.
        entries: The content of the files: one medium, or several batches of episodes of one result.
        others: The other entries of the same result; the rows of episodes name their clips.
    """

    def __init__(self, trial_id: str, entries: Sequence[MediaEntry], others: Iterable[MediaEntry] = ()) -> None:
        self.entries = entries
        self._clips = _clips_by_episode(others)
        self.problems: str | None = None
        self.is_on_storage = False
        self._trial_id = trial_id
        self._files: dict[str, bytes] | None = None
        self._lock = threading.Lock()
        for entry in entries:
            entry.package = self

    @property
    def path(self) -> str:
        """The file that its index lines name."""
        return self.entries[0].path

    def files(self) -> dict[str, bytes]:
        """Return the content of each file by its path relative to the trial's folder.

        Raises:
            NotMadeError: The file that the index lines name cannot be made.
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
            parts = [RecorderEpisodes(entry.section, recorder_of(entry.key), batch) for entry, batch in batches]
            report = EpisodeReport(self._trial_id, first.training_iteration, first.step, parts, self._clips)
            makers = {
                first.path: lambda: report_json(report, first.path),
                parquet_name(first.path): lambda: report_parquet(report),
            }
            recipes = {hash: recipe for _, batch in batches for hash, recipe in batch.recipes.items()}
            makers |= {recipe_name(hash): functools.partial(bytes, recipe) for hash, recipe in recipes.items()}
            if report.has_steps:
                makers[steps_name(first.path)] = lambda: steps_parquet(report)
        files: dict[str, bytes] = {}
        errors: list[Exception] = []
        for name, make in makers.items():  # each on its own: one format may hold values that another cannot
            try:
                files[name] = make()
            except Exception as error:
                errors.append(error)
        self.problems = "; ".join(f"{type(error).__name__}: {shown(error, str)}" for error in errors) or None
        if first.path not in files:
            raise NotMadeError(self.problems) from errors[0]
        return files
