"""A TensorBoard log directory of a finished experiment, outside of its folder."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.fs
from ray.tune.logger import TBXLoggerCallback
from typing_extensions import override

from tune_media.callbacks.backend import Report, Status, TrialInfo
from tune_media.callbacks.tensorboard.callback import TensorBoardBackend
from tune_media.callbacks.tensorboard.event_file import EventWriter
from tune_media.ray_compat import set_event_writer_class
from tune_media.storage.entry import MediaEntry
from tune_media.storage.filesystem import write_atomically
from tune_media.storage.location import TrialLocation
from tune_media.values.safe_names import name_digest, safe_name

_NAME = "events.out.tfevents.0000000000.tune_media.export"


class TensorBoardFolder(TensorBoardBackend):
    """Writes the event file of each trial to a folder of its name, with the times of the results.

    The file is replaced as a whole when the trial ends, so that an export that is made again doubles nothing. ``names``
    are those of all trials by their paths; they begin with the experiment's if there are several.
    """

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        rays = TBXLoggerCallback()
        set_event_writer_class(rays, EventWriter)
        super().__init__(rays)
        self._folder, self._names = folder, names
        self._written: dict[str, TrialInfo] = {}  # the trials that have begun, with the folders that are written to

    @override
    def prepare_export(self) -> None:
        """Do nothing: there is no tracker to ask."""

    @override
    def start(self, trial: TrialInfo) -> None:
        target = self.target(trial)
        others = [file.name for file in target.glob("*tfevents*") if file.name != _NAME]
        if others:
            raise FileExistsError(
                f"{target} has event files of another writer ({others[0]}), and TensorBoard would show each point "
                "twice. Export to another folder."
            )
        temporary = Path(tempfile.mkdtemp(prefix="tune_media-events-"))
        place = TrialLocation(pyarrow.fs.LocalFileSystem(), str(temporary), temporary, trial.trial_id)
        rays: Any = _RayTrial(trial.trial_id, dict(trial.config), dict(trial.searched), str(temporary))
        self._written[trial.trial_id] = dataclasses.replace(trial, location=place, ray=rays)
        super().start(self._written[trial.trial_id])

    @override
    def metrics(self, trial: TrialInfo, report: Report) -> None:
        super().metrics(self._written[trial.trial_id], report)

    @override
    def media(self, trial: TrialInfo, entry: MediaEntry) -> None:
        super().media(self._written[trial.trial_id], entry)

    @override
    def end(self, trial: TrialInfo, status: Status) -> None:
        written = self._written.pop(trial.trial_id)
        place, temporary = written.location, written.location.local_path
        try:
            super().end(written, status)
            content = b"".join(file.read_bytes() for file in sorted(temporary.glob("*tfevents*")))
            write_atomically(place.filesystem, str(self.target(trial) / _NAME), content)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    @override
    def finish(self) -> None:
        for written in self._written.values():
            shutil.rmtree(written.location.local_path, ignore_errors=True)
        self._written.clear()

    def target(self, trial: TrialInfo) -> Path:
        """Return the folder of a trial's event file."""
        return self._folder.joinpath(*map(_folder_name, self._names[trial.location.path].split("/")))

    @override
    def _announce(self, trial: TrialInfo) -> None:
        """Print nothing: the trials' folders are temporary."""


def _folder_name(name: str) -> str:
    """Return a part of a name as that of a folder; different names stay different.

    >>> _folder_name("lr=0.1"), _folder_name("lr 0.1"), _folder_name("..")
    ('lr=0.1', 'lr_0.1-0b7699781f37', '__-5ec1f7e700f3')
    """
    safe = safe_name(name, "_.=-,", max_length=200) if name.strip(".") else "_" * len(name) or "_"
    return safe if safe == name else f"{safe}-{name_digest(name)}"


@dataclasses.dataclass(eq=False)
class _RayTrial:
    """As much of Ray's trial as its TensorBoard callback asks for."""

    trial_id: str
    config: dict[str, Any]
    evaluated_params: dict[str, Any]
    local_path: str
    last_result: None = None

    def init_local_path(self) -> None:
        """Do nothing: the folder is there."""
