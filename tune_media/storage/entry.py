"""A medium of a result on its way: what its row in the outbox holds, and the files and index lines that it becomes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
from tune_media.values.file_medium import FileMedium
from tune_media.values.histogram import Histogram
from tune_media.values.medium import Medium, joined
from tune_media.values.plain import pack, unpack
from tune_media.values.secrets import error_text

STORED, FAILED, DROPPED, DELETED = "stored", "failed", "dropped", "deleted"
LOST = (FAILED, DROPPED)
WAITING, ONLY_TAPE = "waiting", "tape"
UNRENDERED = (WAITING, ONLY_TAPE)
"""A clip that the driver is still to render, and one of which there is only the tape in ``episode_data/``."""


def may_be_rendered(line: Mapping[str, Any]) -> bool:
    """Return whether an index line is of a clip that is still wanted and not rendered.

    It is not wanted if its trial left it behind.

    >>> may_be_rendered({"status": ONLY_TAPE}), may_be_rendered({"status": ONLY_TAPE, "rolled_back": True})
    (True, False)
    """
    return line.get("status") in UNRENDERED and not line.get("rolled_back")


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
        return report_json(self.report, self.path) if self.report is not None else self.medium.content()


_PLACE = ("section", "key", "path", "step", "training_iteration", "time", "lineage")


def packed_medium(entry: MediaEntry, **facts: Any) -> tuple[bytes, bytes | None]:
    """Return a medium of a plain kind as the data and the content of a row of the outbox.

    Args:
        entry: Its medium is one of ``values.plain.MEDIA``, and no batch of episodes.
        **facts: More plain data.
    """
    medium: Any = entry.medium
    content = medium.__dict__.get("data")
    if isinstance(content, bytes):
        stripped: Any = object.__new__(type(medium))
        stripped.__dict__.update(medium.__dict__, data=b"")
        return pack({**_place(entry), "medium": stripped, **facts}), content
    return pack({**_place(entry), "medium": medium, **facts}), None


def packed_name(entry: MediaEntry, own_facts: Mapping[str, Any] | None = None, **facts: Any) -> bytes:
    """Return the data of a row whose medium has no content, or none yet.

    Args:
        entry: Its medium may be of any kind.
        own_facts: The facts of the medium that are known.
        **facts: More plain data.
    """
    medium = entry.medium
    named = FileMedium(medium.kind, medium.id, medium.suffix, b"", dict(own_facts or {}))
    data, _ = packed_medium(replace(entry, medium=named), **facts)
    return data


def as_lost(data: bytes, status: str, reason: str) -> bytes:
    """Return the data of a row with the note that its media have no file, and why."""
    return pack({**unpack(data), "lost": status, "note": reason})


def packed_episodes(trial_id: str, entries: Sequence[MediaEntry], clips: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the episodes of a result as the data and the content of a row.

    Args:
        trial_id: The trial.
        entries: The batches of each section and recorder.
        clips: The id of each clip by its path, for each episode id.
    """
    parts = [[entry.section, entry.key, entry.medium] for entry in entries]
    names = [[entry.section, entry.key, entry.medium.id] for entry in entries]
    return pack({**_place(entries[0]), "trial_id": trial_id, "clips": clips, "batches": names}), pack(parts)


def _place(entry: MediaEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _PLACE}


def entries_of(facts: dict[str, Any], content: bytes | None, row: int) -> list[MediaEntry]:
    """Return the media of a row of the outbox.

    Args:
        facts: The row's data.
        content: The row's content.
        row: The row's number.
    """
    place = {name: facts[name] for name in _PLACE}
    if "clips" not in facts:
        medium = facts["medium"]
        if content is not None:
            medium.__dict__["data"] = content
        return [MediaEntry(medium, **place, row=row)]
    parts = unpack(content or b"")
    recorders = [RecorderEpisodes(section, recorder_of(key), batch) for section, key, batch in parts]
    report = EpisodeReport(facts["trial_id"], facts["training_iteration"], facts["step"], recorders, facts["clips"])
    return [
        MediaEntry(batch, **{**place, "section": section, "key": key}, report=report, row=row)
        for section, key, batch in parts
    ]


def named_entries(facts: dict[str, Any], row: int) -> list[MediaEntry]:
    """Return the media of a row of the outbox as far as their index lines need them, without any content.

    Args:
        facts: The row's data.
        row: The row's number.
    """
    if "clips" not in facts:
        return entries_of(facts, None, row)
    place = {name: facts[name] for name in _PLACE}
    return [
        MediaEntry(FileMedium("episodes", id, ".json", b"", {}), **{**place, "section": section, "key": key}, row=row)
        for section, key, id in facts["batches"]
    ]


def clips_by_episode(entries: Iterable[MediaEntry]) -> dict[str, dict[str, str]]:
    """Return the id of each clip by its path, for each episode id."""
    clips: dict[str, dict[str, str]] = {}
    for entry in entries:
        record = getattr(entry.medium, "episode", None)
        if record is not None:
            clips.setdefault(record.episode_id, {})[entry.path] = entry.medium.id
    return clips


@dataclass
class FileSet:
    """The files that the media of one row become, and their index lines.

    Attributes:
        lines: The index lines.
        files: The content of each file by its path relative to the trial's folder, in the order of writing. A recipe,
            which other trials may have, too, is beside that folder.
        problems: What could not be made of the values, and why; or None.
        episodes: How many episodes they hold.
    """

    lines: list[Line]
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    problems: str | None = None
    episodes: int = 0

    @property
    def path(self) -> str:
        """The file that its lines name."""
        return str(self.lines[0]["path"])

    @property
    def nbytes(self) -> int:
        """The size of its files."""
        return sum(map(len, self.files.values()))


def file_set(entries: Sequence[MediaEntry], trial_id: str, row: int) -> FileSet:
    """Make the files and the index lines of the media of one row.

    Raises:
        Exception: The file that the lines name cannot be made.
    """
    first = entries[0]
    makers: dict[str, Callable[[], bytes]] = {first.path: first.content}
    report = first.report
    if report is not None:
        recipes = {hash: recipe for part in report.parts for hash, recipe in part.batch.recipes.items()}
        makers = {recipe_name(hash): functools.partial(bytes, recipe) for hash, recipe in recipes.items()}
        makers[parquet_name(first.path)] = lambda: report_parquet(report)
        if report.has_steps:
            makers[steps_name(first.path)] = lambda: steps_parquet(report)
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
    facts = {"status": STORED, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    lines = []
    for entry in entries:
        note = (joined(entry.medium.note, problems) or "")[:500] or None
        lines.append(line_of(entry, trial_id, row, {**entry.medium.facts(), **facts, "note": note}))
    episodes = sum(len(entry.medium.episodes) for entry in entries if isinstance(entry.medium, EpisodeBatch))
    return FileSet(lines, files, problems, episodes)


def line_of(entry: MediaEntry, trial_id: str, row: int, facts: Line) -> Line:
    """Return the index line of an entry; facts that are None are left out.

    Args:
        entry: The entry.
        trial_id: Its trial.
        row: The row of the result that it belongs to.
        facts: More fields.
    """
    line = {
        **facts,
        "v": INDEX_VERSION,
        "id": entry.medium.id,
        "kind": entry.medium.kind,
        "section": entry.section,
        "key": entry.key,
        "path": entry.path,
        "training_iteration": entry.training_iteration,
        "step": entry.step,
        "time": round(entry.time, 3),
        "trial_id": trial_id,
        "lineage": list(entry.lineage) or None,
        "row": row,
    }
    return {name: value for name, value in line.items() if value is not None}
