"""Ray's TensorBoard logger with media: clips that move in the Images tab, pictures, histograms."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from ray.tune.logger import TBXLoggerCallback
from typing_extensions import override

from tune_media.callbacks.backend import Backend, Report, Status, StorageAwayError, TrialInfo
from tune_media.callbacks.callback import MediaLoggerCallback
from tune_media.callbacks.tensorboard.event_file import EventWriter, MediaFile
from tune_media.callbacks.tensorboard.hparams import HparamsTable
from tune_media.callbacks.tensorboard.summaries import add_gif, add_histogram, add_image, add_texts
from tune_media.experiment.stored_media import entry_of_line
from tune_media.experiment.trial_files import TrialFiles
from tune_media.ray_compat import event_writers, forget_last_result, set_event_writer_class
from tune_media.results.old_api_stack import RECORDER
from tune_media.storage.entry import MediaEntry
from tune_media.storage.filesystem import as_argument, is_local
from tune_media.values.checks import suggests_names
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.image import Image
from tune_media.values.number import as_number
from tune_media.values.options import MediaOptions

_MOST_WAITING = 64 * 2**20  # bytes of media that wait in memory for the storage


@suggests_names
class TBXMediaLoggerCallback(MediaLoggerCallback, TBXLoggerCallback):
    """Everything ``ray.tune.logger.TBXLoggerCallback`` does, and media, in event files of their own.

    Clips are animated GIFs in the Images tab, at the clip's own speed and at most ``gif_width`` pixels wide, made in
    the background. ``Histogram`` values and lists of numbers are histograms. A medium's tag is ``<section>/<key>``, for
    example ``evaluation/episodes/best``; its step is that of the result's scalars.

    TensorBoard keeps ten random images a tag unless it is started with ``--samples_per_plugin images=1000``.

    Args:
        media: Options, shared by all callbacks of the family in one experiment.

    Example:
        >>> import tune_media as tm
        >>> callback = tm.TBXMediaLoggerCallback(media=tm.MediaOptions(gif_width=200))
    """

    def __init__(self, media: MediaOptions | None = None) -> None:
        TBXLoggerCallback.__init__(self)
        set_event_writer_class(self, EventWriter)
        MediaLoggerCallback.__init__(self, TensorBoardBackend(self), media)


class TensorBoardBackend(Backend):
    """Writes event files: scalars with Ray's own code, in Tune's loop; media in files of their own."""

    name = "TensorBoard"
    in_loop = frozenset({"start", "metrics", "end"})
    same_files_as = TBXLoggerCallback
    files = "TensorBoard scalars"
    niceness = 5  # GIFs take much time; with 15, a machine full of other work left them none, not even at the end

    def __init__(self, rays: TBXLoggerCallback) -> None:
        self._rays = rays
        self._media: dict[str, MediaFile] = {}
        self._tables: dict[str, HparamsTable] = {}
        self._best: dict[str, dict[str, float]] = {}  # the largest returns of trials that are restored
        self._announced = ""  # the experiment whose command for TensorBoard was printed

    @override
    def prepare_export(self) -> None:
        raise TypeError(
            "TBXMediaLoggerCallback writes into a running experiment; use tune_media.export.to_tensorboard."
        )

    @override
    def start(self, trial: TrialInfo) -> None:
        if trial.ray in event_writers(self._rays) or self._is_second:
            return  # paused, cloned or retried: its file is open already
        self._announce(trial)
        TBXLoggerCallback.log_trial_start(self._rays, trial.ray)

    def _announce(self, trial: TrialInfo) -> None:
        """Print the command that shows all clips, once an experiment; Tune's own line before it shows none."""
        filesystem, path = trial.location.filesystem, posixpath.dirname(trial.location.path.rstrip("/"))
        if self._announced != path:
            self._announced = path
            with self.context.guard("printing TensorBoard's command"):
                options = "--samples_per_plugin images=1000"
                options += "" if is_local(filesystem) else " --reload_multifile=true"
                command = f"tensorboard --logdir {as_argument(filesystem, path)} {options}"
                print(f"To see all clips in TensorBoard, run: `{command}`", flush=True)

    @override
    def metrics(self, trial: TrialInfo, report: Report) -> None:
        if self.yields_to is not None:
            return
        writer = event_writers(self._rays)[trial.ray]
        writer.file_writer.wall_time = report.time
        try:
            shown = self._showable(report.result, report.new_in_lists)
            TBXLoggerCallback.log_trial_result(self._rays, report.training_iteration, trial.ray, shown)
            with self.context.guard("writing hyperparameters"):
                evaluates = bool(trial.config.get("evaluation_interval"))
                self._table(trial).add(writer, report.flat, report.step, evaluates=evaluates)
        finally:
            writer.file_writer.flush()

    @override
    def media(self, trial: TrialInfo, entry: MediaEntry) -> None:
        if self._is_second:
            return
        if sum(file.waiting for file in self._media.values()) > _MOST_WAITING:
            raise StorageAwayError("the storage has taken no clip for TensorBoard for some time")
        file = self._media.setdefault(trial.trial_id, MediaFile(trial.location))
        file.add(entry.row, self._events_of_medium(trial, entry))
        self.context.on_storage("writing clips for TensorBoard", file.write, key=file)

    def _events_of_medium(self, trial: TrialInfo, entry: MediaEntry) -> list[Any]:
        medium, step = entry.medium, entry.step
        writer = EventWriter(str(trial.location.local_path))  # holds the events, and writes nothing
        writer.file_writer.wall_time = entry.time
        if isinstance(medium, EpisodeBatch) and entry.tag == f"{entry.section}/{RECORDER}":
            return []  # Ray's code shows that
        for tag, histogram in entry.histograms().items():
            add_histogram(writer, tag, histogram, step)
        if isinstance(medium, EpisodeBatch):
            add_texts(writer, entry.tag, medium, step)
        elif isinstance(medium, Image):
            add_image(writer, entry.tag, medium.data, medium.width, medium.height, step)
        elif medium.kind in ("video", "tiled"):
            add_gif(writer, entry.tag, medium.content(), medium.facts(), step, self.context.options)
        return writer.file_writer.take()

    @override
    def media_again(self, trial: TrialInfo, id: str, row: int) -> None:
        if self._is_second:
            return
        self.context.wait_for_storage()
        files = TrialFiles(trial.name, trial.location.filesystem, trial.location.path).read()
        for line in files.lines:  # under each of its keys
            if line["id"] == id and line.get("trial_id") == trial.trial_id:
                self.media(trial, entry_of_line(line, files.read_media, as_number(line.get("time")), row))

    @override
    def end(self, trial: TrialInfo, status: Status) -> None:
        writer, table = event_writers(self._rays).pop(trial.ray, None), self._tables.pop(trial.trial_id, None)
        forget_last_result(self._rays, trial.ray)
        self.context.later("ending a trial", functools.partial(self._forget, trial.trial_id))
        if table is not None and writer is not None and status != "interrupted":
            table.end(writer, failed=status == "failed")
            writer.file_writer.flush()

    def _forget(self, trial_id: str) -> None:
        self._media.pop(trial_id, None)

    @override
    def finish(self) -> None:
        self._media.clear()

    @override
    def get_state(self) -> dict[str, Any]:
        return {"best": {**self._best, **{trial_id: table.best for trial_id, table in self._tables.items()}}}

    @override
    def set_state(self, state: dict[str, Any]) -> None:
        self._best = dict(state.get("best", {}))

    def _table(self, trial: TrialInfo) -> HparamsTable:
        """Return the trial's line in the HParams tab; a trial for which Tune chose no hyperparameters writes none."""
        if trial.trial_id not in self._tables:
            self._tables[trial.trial_id] = HparamsTable(trial.searched, self._best.pop(trial.trial_id, {}))
        return self._tables[trial.trial_id]

    @override
    def is_away(self, error: Exception) -> bool:
        return isinstance(error, StorageAwayError)

    @property
    def _is_second(self) -> bool:
        """Whether another callback of this class writes everything."""
        return isinstance(self.yields_to, TBXMediaLoggerCallback)

    def _showable(
        self, result: dict[str, Any], new: Mapping[tuple[str, ...], list[Any]], path: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Return a result without the arrays that would make tensorboardX raise, and lose all that comes after.

        Of lists that repeat a window of episodes, only the new values are kept.
        """
        kept = {}
        for key, value in result.items():
            if isinstance(value, dict) and key != "config":
                value = self._showable(value, new, (*path, str(key)))
            elif (*path, key) in new:
                value = new[(*path, key)]
            elif isinstance(value, list) and any(isinstance(item, (dict, str)) for item in value):
                continue  # no numbers: tensorboardX would warn of each
            elif isinstance(value, np.ndarray) and not _is_showable(value):
                with self.context.guard(f"showing {key!r}"):
                    raise ValueError(
                        f"an array of shape {value.shape} is no picture with its channels first (CHW), no batch of "
                        "these and no list of numbers; report a tune_media.Image, Video or Histogram instead"
                    )
                continue
            kept[key] = value
        return kept


def _is_showable(array: npt.NDArray[Any]) -> bool:
    """Return whether tensorboardX takes an array: numbers as a histogram, CHW as a picture, NCHW as several."""
    if array.ndim == 4:
        return array.shape[1] in (3, 4)
    return array.ndim < 3 or (array.ndim == 3 and array.shape[0] in (1, 3, 4))
