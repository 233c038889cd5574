"""One trial as a reader sees it: the lines of its index in columns, its hyperparameters, its metrics."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow.fs

from tune_media.storage.entry import STORED
from tune_media.storage.filesystem import read_if_there
from tune_media.storage.location import filesystem_of_trial, path_of
from tune_media.storage.recovery import TrialContents, read_trial
from tune_media.viewing.media_columns import MediaColumns
from tune_media.viewing.metrics import Metric, json_object, last_metrics, read_metrics
from tune_media.viewing.places import Folder


@dataclass
class TrialMedia:
    """One trial of an experiment.

    Attributes:
        folder: The trial's folder, in which its index is.
        media_path: The folder that the paths of the index are relative to, on ``media_filesystem``.
        media: Its stored media, without the files of episode data.
        reports: The files of its episode data: paths of ``episode_data/data-<step>.json``.
        contents: How many files its index does not list; without the lines.
        trial_ids: The trial ids in its index.
    """

    folder: Folder
    media_path: str
    media: MediaColumns
    reports: list[str] = field(default_factory=list)
    contents: TrialContents = field(default_factory=lambda: TrialContents(""))
    trial_ids: frozenset[str] = frozenset()
    _params: dict[str, Any] | None = field(default=None, init=False, repr=False)
    _metrics: dict[str, Metric] | None = field(default=None, init=False, repr=False)
    _last_metrics: dict[str, float] | None = field(default=None, init=False, repr=False)

    @classmethod
    def read(cls, folder: Folder, episodes_kind: str) -> TrialMedia:
        """Read a trial's index, and find the files that it does not list.

        Args:
            folder: The trial's folder.
            episodes_kind: The kind of the index lines that name files of episode data.
        """
        contents = read_trial(folder.filesystem, folder.path)
        stored = [(raw, line) for raw, line in contents.lines if line.get("status") == STORED]
        media = MediaColumns.of_lines([(raw, line) for raw, line in stored if line.get("kind") != episodes_kind])
        reports = [line["path"] for _, line in stored if line.get("kind") == episodes_kind]
        place = path_of(contents.media_folder)
        paths = [posixpath.join(place, path) for path in dict.fromkeys(reports)]
        ids = frozenset(id for _, line in stored if isinstance(id := line.get("trial_id"), str))
        return cls(folder, place, media, paths, dataclasses.replace(contents, lines=()), ids)

    @property
    def filesystem(self) -> pyarrow.fs.FileSystem:
        """The filesystem of its folder."""
        return self.folder.filesystem

    @property
    def media_filesystem(self) -> pyarrow.fs.FileSystem:
        """The filesystem of its media: another one if the folder is Tune's on the driver, and the storage is far away.

        Raises:
            OSError: The storage does not answer, or has no index of this trial there.
        """
        return filesystem_of_trial(self.contents.media_folder, self.folder.filesystem, self.trial_ids)

    @property
    def name(self) -> str:
        """The name of the trial's folder."""
        return self.folder.name

    @property
    def params(self) -> dict[str, Any]:
        """Its scalar hyperparameters, nested ones as ``outer/inner``; read from ``params.json`` when first asked."""
        if self._params is None:  # functools.cached_property holds one lock for all trials before Python 3.12
            self._params = self._read_params()
        return self._params

    @property
    def metrics(self) -> dict[str, Metric]:
        """The last, largest and smallest value of each metric of its results; read when first asked."""
        if self._metrics is None:
            self._metrics = read_metrics(self.folder)
        return self._metrics

    @property
    def last_metrics(self) -> dict[str, float]:
        """The numbers of its last result and of its last evaluation; read when first asked."""
        if self._last_metrics is None:
            self._last_metrics = last_metrics(self.folder.filesystem, self.folder.path)
        return self._last_metrics

    def _read_params(self) -> dict[str, Any]:
        content = read_if_there(self.folder.filesystem, posixpath.join(self.folder.path, "params.json"))
        return dict(_scalars(json_object(content), ""))


def _scalars(params: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        if isinstance(value, dict):
            yield from _scalars(value, f"{prefix}{name}/")
        elif value is None or isinstance(value, (bool, int, float, str)):
            yield f"{prefix}{name}", value
