"""One trial's folder, as the viewer reads it: index lines, hyperparameters, metrics, and the place of its media."""

from __future__ import annotations

import hashlib
import json
import math
import os
import posixpath
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.fs

from tune_media.storage.entry import STORED
from tune_media.storage.filesystem import is_local, read_if_there
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import filesystem_of, is_of_trial, path_of
from tune_media.storage.recovery import read_trial
from tune_media.values.episodes import EpisodeBatch
from tune_media.viewing.media_columns import as_number
from tune_media.viewing.metrics import RESULTS, finite_metrics, json_object, last_metrics

PARAMS = "params.json"
_MAX_PARSED = 64 * 1024 * 1024  # bytes of results that are parsed for one chart
_MAX_LIST = 8  # longer lists are no hyperparameter that anyone reads in a table
_MEDIA_FOLDERS = ("media/",)
_LISTING_PAUSE = 30.0  # seconds until a trial on remote storage is listed again though its index is the same
_SHARE_OF_AGE = 0.1  # of the time since its last result: the same for a trial that has ended

Line = dict[str, Any]
Version = tuple[int, int]
NO_FILE: Version = (0, 0)


class TrialFolder:
    """The files of one trial. ``refresh`` reads the index again if it has changed; everything else is read on demand.

    Attributes:
        name: The folder relative to the log directory, which is what TensorBoard calls the run.
        id: A short name for URLs, made from ``name``.
        lines: The index lines of stored media, without those of episode reports.
        reports: The index lines of episode reports.
        metrics: The trial's last metrics, see ``tune_media.viewing.metrics.last_metrics``.
        version: Size and modification time of the index that was read.
        results_version: The same of the results.
        state: Another value whenever the index has other lines or there are other files that it does not name.
        read_at: When the index was read and the files were listed, by the monotonic clock.

    Example:
        >>> trial = TrialFolder("PPO_1", pyarrow.fs.LocalFileSystem(), "/tmp/no/such/experiment/PPO_1")
        >>> trial.refresh((0, 0)), trial.lines, trial.params
        (True, [], {})
    """

    def __init__(self, name: str, filesystem: pyarrow.fs.FileSystem, path: str) -> None:
        self.name = name
        self.id = hashlib.blake2s(name.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        self.filesystem = filesystem
        self.path = path
        self.version: Version | None = None
        self.results_version: Version | None = None
        self.state: tuple[Version | None, int] = (None, 0)
        self.read_at = float("-inf")
        self.lines: list[Line] = []
        self.reports: list[Line] = []
        self.params: dict[str, Any] = {}
        self.metrics: dict[str, float] = {}
        self._by_path: dict[str, Line] = {}
        self._media_folder = path
        self._checked_folder = path  # the one on an object store that is known to be of this trial

    @property
    def may_have_unlisted(self) -> bool:
        """Whether it is time to look for files that the index does not name yet.

        On remote storage the index may lag behind by a quarter of the trial's age. Other trials are not listed again.
        """
        changed_at = max((self.version or NO_FILE)[1], (self.results_version or NO_FILE)[1]) / 1e9
        quiet = time.time() - changed_at if changed_at else 0.0
        pause = max(_LISTING_PAUSE, _SHARE_OF_AGE * quiet)
        return not is_local(self.filesystem) and time.monotonic() - self.read_at > pause

    def refresh(self, version: Version, *, again: bool = False) -> bool:
        """Read the index and the hyperparameters if the index is not the one that was read last.

        Args:
            version: Size and modification time of the index file; zeros if there is none.
            again: Read it anyway, and look for files that it does not name.

        Returns:
            Whether they were read.
        """
        if version == self.version and not again:
            return False
        self.read_at = time.monotonic()
        contents = read_trial(self.filesystem, self.path)  # of files that are not listed yet, too
        stored = [line for _, line in contents.lines if line.get("status") == STORED]
        self.lines = [line for line in stored if line.get("kind") != EpisodeBatch.kind]
        self.reports = [line for line in stored if line.get("kind") == EpisodeBatch.kind]
        self._by_path = {line["path"]: line for line in self.lines}
        self._media_folder = contents.media_folder
        self.params = self._read_params()
        unlisted = contents.lines[len(contents.lines) - contents.unlisted :]
        self.version, self.state = version, (version, hash(tuple(raw for raw, _ in unlisted)))
        return True

    def line(self, path: str) -> Line | None:
        """Return the index line of a media file, or None if the index names no such file."""
        return self._by_path.get(path)

    def media_file(self, path: str) -> tuple[pyarrow.fs.FileSystem, str] | None:
        """Return the filesystem and the full path of a media file.

        Returns:
            None if the index does not name the file, or if it lies outside the trial's media folder.
        """
        if self.line(path) is None or not path.startswith(_MEDIA_FOLDERS):
            return None
        filesystem, folder = self.place
        full = posixpath.join(folder, path)
        return (filesystem, full) if not is_local(filesystem) or _is_inside(full, folder) else None

    @property
    def place(self) -> tuple[pyarrow.fs.FileSystem, str]:
        """The filesystem and the folder of the media: those of the trial, unless this is its folder on the driver.

        Raises:
            OSError: The object store that holds the media does not answer.
        """
        place = filesystem_of(self._media_folder, self.filesystem), path_of(self._media_folder)
        if self._media_folder == place[1] or self._media_folder == self._checked_folder:
            return place
        if not is_of_trial(*place, [line.get("trial_id") for line in (*self.lines, *self.reports)]):
            return self.filesystem, self.path
        self._checked_folder = self._media_folder
        return place

    def _read_params(self) -> dict[str, Any]:
        return dict(flat_values(json_object(read_if_there(self.filesystem, posixpath.join(self.path, PARAMS)))))

    def refresh_metrics(self, version: Version) -> bool:
        """Read the last metrics if the results are not those that were read last.

        Args:
            version: Size and modification time of the results; zeros if there are none.

        Returns:
            Whether they were read.
        """
        if version == self.results_version:
            return False
        try:
            self.metrics = last_metrics(self.filesystem, self.path)
        except OSError:  # the file is being replaced: the next look reads it
            self.results_version = self.results_version or NO_FILE
            return False
        self.results_version = version
        return True

    def curves(self) -> dict[str, Any]:
        """Return each metric over training: ``{"step": [...], "metrics": {name: [...]}}``, null if it is missing.

        Of results beyond 64 MB, every second line is read, or every third, and so on.
        """
        path = posixpath.join(self.path, RESULTS)
        info = self.filesystem.get_file_info(path)
        if not info.is_file:
            return {"step": [], "metrics": {}}
        stride = math.ceil((info.size or 1) / _MAX_PARSED)
        steps: list[int] = []
        rows: list[dict[str, float]] = []
        with self.filesystem.open_input_stream(path) as stream:
            for number, raw in enumerate(_lines_of(stream)):
                result = json_object(raw) if number % stride == 0 else {}
                step = result.get("timesteps_total") or result.get("training_iteration")
                if isinstance(step, (int, float)) and math.isfinite(as_number(step)):
                    steps.append(int(step))
                    rows.append(finite_metrics(result))
        names = dict.fromkeys(name for row in rows for name in row)
        return {"step": steps, "metrics": {name: [row.get(name) for row in rows] for name in names}}


def results_path(folder: str) -> str:
    """Return the path of the results in a trial's folder.

    Example:
        >>> results_path("exp/PPO_1")
        'exp/PPO_1/result.json'
    """
    return posixpath.join(folder, RESULTS)


def version_of(info: pyarrow.fs.FileInfo) -> Version:
    """Return size and modification time of a file, or zeros if there is none."""
    return (info.size or 0, info.mtime_ns or 0) if info.is_file else NO_FILE


def index_path(folder: str) -> str:
    """Return where the index of a trial's folder lies.

    Example:
        >>> index_path("exp/PPO_1")
        'exp/PPO_1/media/index.jsonl'
    """
    return posixpath.join(folder, INDEX_PATH)


def flat_values(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield scalars and short lists of scalars by name, nested ones as ``outer/inner``.

    Example:
        >>> dict(flat_values({"lr": 0.1, "model": {"hiddens": [64, 64], "module": object()}}))
        {'lr': 0.1, 'model/hiddens': '[64, 64]'}
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_values(value, f"{prefix}{name}/")
        elif _is_scalar(value):
            yield f"{prefix}{name}", value
        elif isinstance(value, list) and len(value) <= _MAX_LIST and all(map(_is_scalar, value)):
            yield f"{prefix}{name}", json.dumps(value)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _lines_of(stream: Any) -> Iterator[bytes]:
    rest = b""
    while chunk := bytes(stream.read(1 << 20)):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    yield rest


def _is_inside(path: str, folder: str) -> bool:
    """Say whether a local file, with symbolic links followed, is inside a trial's media folder, which is not one."""
    root = posixpath.join(os.path.realpath(folder), "media")
    return os.path.commonpath([root, os.path.realpath(path)]) == root
