"""A medium of a result, and the files and index lines that it becomes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tune_media.storage import episode_files
from tune_media.storage.episode_files import EpisodeReport, recorder_of
from tune_media.storage.index_lines import INDEX_VERSION, TYPED, MediumLine
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.histogram import Histogram
from tune_media.values.medium import Medium, joined
from tune_media.values.secrets import error_text

STORED, FAILED, DROPPED = "stored", "failed", "dropped"
LOST = (FAILED, DROPPED)
WAITING, ONLY_TAPE = "waiting", "tape"
UNRENDERED = (WAITING, ONLY_TAPE)
"""A clip that the driver is still to render, and one that is only a tape in ``episode_data/``."""


def may_be_rendered(line: Mapping[str, Any]) -> bool:
    """Return whether an index line is of an episode's clip that is not rendered, and that its trial has not left.

    >>> may_be_rendered({"status": ONLY_TAPE}), may_be_rendered({"status": ONLY_TAPE, "rolled_back": True})
    (True, False)
    """
    return line.get("status") in UNRENDERED and not line.get("rolled_back") and line.get("kind") != "tiled"


def why_missing(line: Mapping[str, Any]) -> str:
    """Return why a medium has no file: the note of its index line, or else its status."""
    return str(line.get("note") or line["status"])


@dataclass(frozen=True, eq=False)
class MediaEntry:
    """A medium of a result, as the loggers get it.

    Attributes:
        medium: The medium.
        section: ``train`` or ``evaluation``.
        key: Its place inside its section.
        path: Its file, relative to the trial folder.
        step: The step that TensorBoard shows for the result.
        training_iteration: That of the result; None if it belongs to none.
        time: When the driver got the result, seconds since 1970.
        lineage: The trials that the trial is a clone of, ``<trial id>@<training iteration>``, the nearest first.
        report: The episodes of all recorders of the result, which share a file; None for other media.
        row: The number of its row in the outbox: it only grows, also over restores. Episodes of several recorders of a
            result share it. After a kill, a row may be delivered again. 0 outside of an experiment.
    """

    medium: Medium
    section: str
    key: str
    path: str
    step: int
    training_iteration: int | None
    time: float = 0.0
    lineage: tuple[str, ...] = ()
    report: EpisodeReport | None = None
    row: int = 0

    @property
    def is_episodes(self) -> bool:
        """Whether it holds the episodes of a round, which are written together with others of the same result."""
        return isinstance(self.medium, EpisodeBatch)

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
        return episode_files.report_json(self.report, self.path) if self.report is not None else self.medium.content()


@dataclass
class FileSet:
    """The files that the media of one row become, and their index lines."""

    lines: list[MediumLine]
    # by their paths relative to the trial's folder, in the order of writing; recipes, which trials share, are outside
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    problems: str | None = None  # the values of which no file could be made, and why
    episodes: int = 0  # the number of episodes in the files

    @property
    def path(self) -> str:
        """The file that its lines name."""
        return self.lines[0].path

    @property
    def nbytes(self) -> int:
        """The size of its files."""
        return sum(map(len, self.files.values()))


def file_set(entries: Sequence[MediaEntry], trial_id: str, row: int) -> FileSet:
    """Make the files and index lines of the media of one row; raise if the file that the lines name cannot be made."""
    first = entries[0]
    makers: dict[str, Callable[[], bytes]] = {first.path: first.content}
    report = first.report
    if report is not None:
        recipes = {hash: recipe for part in report.parts for hash, recipe in part.batch.recipes.items()}
        makers = {episode_files.recipe_name(hash): functools.partial(bytes, recipe) for hash, recipe in recipes.items()}
        makers[episode_files.parquet_name(first.path)] = lambda: episode_files.report_parquet(report)
        if report.has_steps:
            makers[episode_files.steps_name(first.path)] = lambda: episode_files.steps_parquet(report)
        makers[first.path] = first.content  # the last: its index line says that all are there
    files: dict[str, bytes] = {}
    errors: list[Exception] = []
    for name, make in makers.items():  # each on its own: one format may hold values that another cannot
        try:
            files[name] = make()
        except Exception as error:
            errors.append(error)
    if first.path not in files:
        raise errors[-1]
    problems = "; ".join(map(error_text, errors)) or None
    content = files[first.path]
    sizes = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    lines = []
    for entry in entries:
        note = (joined(entry.medium.note, problems) or "")[:500] or None
        lines.append(line_of(entry, trial_id, row, STORED, {**entry.medium.facts(), **sizes, "note": note}))
    episodes = sum(len(entry.medium.episodes) for entry in entries if isinstance(entry.medium, EpisodeBatch))
    return FileSet(lines, files, problems, episodes)


def line_of(entry: MediaEntry, trial_id: str, row: int, status: str, facts: Mapping[str, Any]) -> MediumLine:
    """Return the index line of an entry, with more facts of the medium; those that are None are left out."""
    own = {"v": INDEX_VERSION, "kind": entry.medium.kind, "step": entry.step, "time": round(entry.time, 3)}
    return MediumLine(
        id=entry.medium.id,
        section=entry.section,
        key=entry.key,
        path=entry.path,
        row=row,
        status=status,
        trial_id=trial_id,
        training_iteration=entry.training_iteration,
        lineage=entry.lineage,
        facts={name: value for name, value in {**facts, **own}.items() if value is not None and name not in TYPED},
    )
