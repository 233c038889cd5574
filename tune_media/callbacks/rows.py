"""The rows of the outbox: one class for each kind of row, which is made where its bytes come in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from typing_extensions import override

from tune_media.storage.entry import MediaEntry
from tune_media.storage.episode_files import EpisodeReport, RecorderEpisodes, recorder_of
from tune_media.values.file_medium import FileMedium
from tune_media.values.medium import Medium
from tune_media.values.plain import pack, unpack


@dataclass(frozen=True)
class PlainRow:
    """A row whose fields are plain data."""

    def packed(self) -> bytes:
        """Return the data of the row in the outbox."""
        return pack(vars(self))


AnyRow = TypeVar("AnyRow", bound=PlainRow)


def read_row(kind: type[AnyRow], data: bytes) -> AnyRow:
    """Return a row of the outbox by its data."""
    return kind(**unpack(data))


@dataclass(frozen=True)
class StartRow(PlainRow):
    """``start``: Tune has started a trial. The outbox keeps the last one of each trial."""

    name: str  # Tune's
    folder: str  # its name alone
    config: Mapping[str, Any]
    searched: Mapping[str, Any]  # the hyperparameters that Tune chose, by their path
    time: float  # seconds since 1970
    restored: bool  # whether an earlier process began the trial
    process: int  # ``Outbox.began`` of the process that appended it


@dataclass(frozen=True)
class EndRow(PlainRow):
    """``end``: a trial has ended, and all its clips are before this row; ``status`` is a ``backend.Status``."""

    status: Any


@dataclass(frozen=True)
class CheckpointRow(PlainRow):
    """``checkpoint``: a folder on this machine."""

    path: str


@dataclass(frozen=True)
class BackRow(PlainRow):
    """``back``: the trial went back, and its next result has this iteration."""

    training_iteration: int


@dataclass(frozen=True)
class AgainRow(PlainRow):
    """``again``: a trial that went back recorded a known medium again; ``is_earlier``: an earlier process had it."""

    id: str
    is_earlier: bool


@dataclass(frozen=True)
class ResultRow(PlainRow):
    """``result``: the numbers of a result."""

    step: int
    training_iteration: int
    time: float
    live: Sequence[str]  # the names of the values that are no plain data, which ``Services.unpackable`` holds
    held_as: str  # the key under which it holds them; empty if there are none
    config: Mapping[str, Any] | None  # the hyperparameters if they have changed
    values: bytes  # the other values by their path, packed


@dataclass(frozen=True, eq=False, kw_only=True)
class MediaRow(PlainRow):
    """The common part of the rows of media: the place of the media, and why they have no file."""

    section: str
    key: str
    path: str
    step: int
    training_iteration: int | None
    time: float
    lineage: tuple[str, ...]
    lost: str | None = None  # the status of media that have no file; ``note`` says why
    note: str = ""
    tape: int | None = None  # the number of the ``tape`` row of which the clip was to be rendered

    def as_lost(self: AnyMediaRow, status: str, note: str) -> AnyMediaRow:
        """Return the row with the note that its media have no file, and why."""
        return replace(self, lost=status, note=note)

    def result_row(self, seq: int) -> int:
        """Return the number that orders the media: that of their tape, or of the row itself."""
        return seq if self.tape is None else self.tape

    def names(self, seq: int) -> list[MediaEntry]:
        """Return the media as far as their index lines need them, without any content."""
        raise NotImplementedError

    def entries(self, content: bytes | None, seq: int) -> list[MediaEntry]:
        """Return the media with the content of the row."""
        raise NotImplementedError

    def _entry(self, medium: Medium, seq: int, **others: Any) -> MediaEntry:
        return MediaEntry(medium, **{**{name: getattr(self, name) for name in _PLACE}, **others}, row=seq)


_PLACE = ("section", "key", "path", "step", "training_iteration", "time", "lineage")
AnyMediaRow = TypeVar("AnyMediaRow", bound=MediaRow)


@dataclass(frozen=True, eq=False, kw_only=True)
class MediumRow(MediaRow):
    """``media``: a medium without its content, as plain data. ``tape``: a clip that is to be rendered."""

    medium: Medium

    @override
    def names(self, seq: int) -> list[MediaEntry]:
        return [self._entry(self.medium, seq)]

    @override
    def entries(self, content: bytes | None, seq: int) -> list[MediaEntry]:
        if content is not None:
            self.medium.__dict__["data"] = content
        return self.names(seq)


@dataclass(frozen=True, eq=False, kw_only=True)
class EpisodesRow(MediaRow):
    """``episodes``: the batches of a result's episodes, which share a file."""

    trial_id: str
    clips: Mapping[str, Mapping[str, str]]  # for each episode id, the id of each clip by its path
    batches: Sequence[tuple[str, str, str]]  # the section, the key and the id of each

    @override
    def names(self, seq: int) -> list[MediaEntry]:
        return [
            self._entry(FileMedium("episodes", id, ".json", b"", {}), seq, section=section, key=key)
            for section, key, id in self.batches
        ]

    @override
    def entries(self, content: bytes | None, seq: int) -> list[MediaEntry]:
        parts = unpack(content or b"")
        recorders = [RecorderEpisodes(section, recorder_of(key), batch) for section, key, batch in parts]
        report = EpisodeReport(self.trial_id, self.training_iteration, self.step, recorders, self.clips)
        return [self._entry(batch, seq, section=section, key=key, report=report) for section, key, batch in parts]


def read_media_row(kind: str, data: bytes) -> MediumRow | EpisodesRow:
    """Return a row of one of the kinds ``media``, ``tape`` and ``episodes``."""
    return read_row(EpisodesRow, data) if kind == "episodes" else read_row(MediumRow, data)


def medium_row(entry: MediaEntry, tape: int | None = None) -> tuple[MediumRow, bytes | None]:
    """Return the row of a medium that is one of ``values.plain.MEDIA``, and no batch of episodes; and its content."""
    medium: Any = entry.medium
    content = medium.__dict__.get("data")
    if isinstance(content, bytes):
        medium = object.__new__(type(medium))
        medium.__dict__.update(entry.medium.__dict__, data=b"")
    return MediumRow(**_place(entry), medium=medium, tape=tape), content if isinstance(content, bytes) else None


def name_row(entry: MediaEntry, own_facts: Mapping[str, Any] | None = None, tape: int | None = None) -> MediumRow:
    """Return the row of a medium of any kind that has no content, or none yet; ``own_facts`` are those known of it."""
    medium = entry.medium
    named = FileMedium(medium.kind, medium.id, medium.suffix, b"", dict(own_facts or {}))
    return MediumRow(**_place(entry), medium=named, tape=tape)


def episodes_row(
    trial_id: str, entries: Sequence[MediaEntry], clips: Mapping[str, Mapping[str, str]]
) -> tuple[EpisodesRow, bytes]:
    """Return the row of all batches of a result, and its content; for ``clips`` see ``EpisodesRow``."""
    batches = [(entry.section, entry.key, entry.medium.id) for entry in entries]
    parts = [[entry.section, entry.key, entry.medium] for entry in entries]
    return EpisodesRow(**_place(entries[0]), trial_id=trial_id, clips=clips, batches=batches), pack(parts)


def clips_by_episode(entries: Iterable[MediaEntry]) -> dict[str, dict[str, str]]:
    """Return the id of each clip by its path, for each episode id."""
    clips: dict[str, dict[str, str]] = {}
    for entry in entries:
        record = getattr(entry.medium, "episode", None)
        if record is not None:
            clips.setdefault(record.episode_id, {})[entry.path] = entry.medium.id
    return clips


def _place(entry: MediaEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _PLACE}
