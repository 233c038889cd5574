"""Media as they come back from the storage: made of an index line, and of the file that it names."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from tune_media.storage.entry import MediaEntry
from tune_media.storage.episode_files import parquet_name, record_of, recorder_of, rows_of_parquet, values_of
from tune_media.storage.index_lines import Line
from tune_media.values.artifact import Artifact
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series
from tune_media.values.histogram import Histogram
from tune_media.values.image import Image
from tune_media.values.medium import Medium
from tune_media.values.number import whole_number
from tune_media.values.strict_json import parse_json

Read = Callable[[str], bytes]
"""Returns the content of a file, by its path relative to the folder of the media."""

_OF_THE_LINE = frozenset(
    (
        *("v", "id", "kind", "section", "key", "path", "status", "training_iteration", "step", "time", "trial_id"),
        *("lineage", "bytes", "sha256", "note", "rolled_back", "life", "row", "undone", "again", "try"),
    )
)


class StoredMedium(Medium):
    """A medium that is a file on the storage: its facts are those of its index line; ``read`` reads the file late.

    >>> line = {"id": "a1", "kind": "video", "path": "media/train/k/step_1-a1.mp4", "fps": 30.0, "bytes": 3}
    >>> clip = StoredMedium(line, lambda path: b"mp4")
    >>> clip.kind, clip.suffix, clip.facts(), clip.nbytes, clip.content()
    ('video', '.mp4', {'fps': 30.0}, 3, b'mp4')
    """

    def __init__(self, line: Line, read: Read) -> None:
        self._set(id=str(line["id"]), kind=str(line.get("kind", "")), note=line.get("note"), _line=line, _read=read)

    @property
    @override
    def suffix(self) -> str:
        return posixpath.splitext(str(self.__dict__["_line"]["path"]))[1]

    @property
    @override
    def nbytes(self) -> int:
        return whole_number(self.__dict__["_line"].get("bytes")) or 1000

    @override
    def content(self) -> bytes:
        read: Read = self.__dict__["_read"]
        return read(self.__dict__["_line"]["path"])

    @override
    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__["_line"].items() if name not in _OF_THE_LINE}


class StoredEpisodes(EpisodeBatch):
    """The episodes of one section and recorder, read back from the Parquet file of their report.

    Its content is the report's JSON file, which other recorders of the same result share.
    """

    @override
    def content(self) -> bytes:
        read: Read = self.__dict__["_read"]
        return read(self.__dict__["_path"])


def iteration_of(line: Line) -> int:
    """Return the training iteration of a medium; of a loop outside Tune, which counts none, its step."""
    return whole_number(line.get("training_iteration", line.get("step")))


def entry_of_line(line: Line, read: Read, time: float = 0.0, row: int = 0) -> MediaEntry:
    """Return the entry of a stored medium's line, as the backends got it when it was recorded.

    Pictures, histograms, artifacts and episodes are read now, clips when a backend asks for them.
    """
    return MediaEntry(
        _medium(line, read),
        str(line["section"]),
        str(line["key"]),
        str(line["path"]),
        whole_number(line.get("step")),
        iteration_of(line),
        lineage=tuple(map(str, line.get("lineage") or ())),
        time=time,
        row=row,
    )


def _medium(line: Line, read: Read) -> Medium:
    kind, path = line.get("kind"), str(line["path"])
    made: Medium
    if kind == EpisodeBatch.kind:
        return _episodes(line, read)
    if kind == Histogram.kind:
        made = _histogram(read(path))
    elif kind == Image.kind and path.endswith(".png"):
        caption = line.get("caption")
        made = Image.from_png(read(path), caption=caption if isinstance(caption, str) else None)
    elif kind == Artifact.kind:
        name = line.get("name")
        made = Artifact(read(path), name=name if isinstance(name, str) and name else posixpath.basename(path))
    else:
        return StoredMedium(line, read)
    made.reidentify(str(line["id"]), None)
    return made


def _histogram(content: bytes) -> Histogram:
    """Return a histogram as it was: with the smallest and largest value and the sums, which the bins do not tell."""
    stored = parse_json(content)
    made = Histogram.from_counts(stored["edges"], stored["counts"])
    names = {"count", "nonfinite", "minimum", "maximum", "total", "squares"} & stored.keys()
    for name in names:
        value = math.nan if stored[name] is None else stored[name]
        object.__setattr__(made, name, value)
    return made


def _episodes(line: Line, read: Read) -> StoredEpisodes:
    path, section, recorder = str(line["path"]), str(line["section"]), recorder_of(str(line["key"]))
    rows = [
        row
        for row in rows_of_parquet(read(parquet_name(path)))
        if row["section"] == section and row["recorder"] == recorder
    ]
    batch = StoredEpisodes(tuple(map(_episode, rows)), id=str(line["id"]), note=line.get("note"))
    object.__setattr__(batch, "_read", read)
    object.__setattr__(batch, "_path", path)
    return batch


def _episode(row: Mapping[str, Any]) -> EpisodeData:
    """Return an episode of a row of a report's Parquet file."""
    stored, lists = values_of(row), dict(row["lists"] or ())
    series: dict[str, Series] = {}
    for name, values in stored["series"].items():
        if name not in lists:
            values = np.array([math.nan if value is None else value for value in values], float)
        stride = stored["every"].get(name, 1)
        series[name] = Series(values, stride, stride * len(values))
    return EpisodeData(record_of(row), series, stored["values"], is_late=bool(row["late"]))
