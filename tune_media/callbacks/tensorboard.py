"""Ray's TensorBoard logger with media: clips that move in the Images tab, pictures, histograms."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from ray.tune.logger import TBXLoggerCallback
from ray.tune.logger.tensorboardx import VALID_SUMMARY_TYPES

from tune_media.callbacks.base import FamilyMember, MediaLogging, result_step, trial_place
from tune_media.callbacks.event_file import EventFile, EventWriter
from tune_media.compat import leave_out_of_syncs
from tune_media.entries import Entry
from tune_media.episode_files import recorder_of
from tune_media.episodes import EpisodeBatch
from tune_media.files import is_local
from tune_media.legacy import RECORDER
from tune_media.values import Histogram, Image, MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

_RGB = 3
_MOST_TEXTS, _MOST_CHARACTERS = 100, 1000


class TBXMediaLoggerCallback(FamilyMember, TBXLoggerCallback):
    """Everything ``ray.tune.logger.TBXLoggerCallback`` does, and media, in the same event file.

    Clips are animated GIFs in the Images tab, at the clip's own speed and at most ``gif_width`` pixels wide, made in
    the background. Pictures are images, ``Histogram`` values and lists of numbers histograms. A medium's tag is
    ``<section>/<key>``, for example ``evaluation/episodes/best``; its step is that of the result's scalars.

    TensorBoard keeps ten random images a tag unless it is started with ``--samples_per_plugin images=1000``.

    Args:
        media: Options, shared by all callbacks of the family in one experiment.
    """

    def __init__(self, media: MediaOptions | None = None) -> None:
        super().__init__()
        self._media = MediaLogging(self, "TensorBoard", media)
        self._summary_writer_cls: type[EventWriter] = EventWriter
        self._in_segments = False
        self._steps: dict[Trial, tuple[int, int]] = {}  # each trial's last iteration and step

    def log_trial_start(self, trial: Trial) -> None:  # noqa: D102
        self._media.begin(trial)
        if trial in self._trial_writer:
            return  # paused, cloned or retried: it goes on in the file that it has, with the clips still to come
        with self._media.guard("opening an event file"):
            super().log_trial_start(trial)
            local = is_local(trial.storage.storage_filesystem)  # there, Tune's copying is cheap
            self._in_segments = not local and leave_out_of_syncs(trial, EventFile.PATTERN)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:  # noqa: D102
        entries = self._media.take(trial, result)
        step = result_step(result)
        with self._media.guard("writing scalars and lists"):
            if trial not in self._trial_writer:
                self.log_trial_start(trial)
            file = self._trial_writer[trial].file_writer
            here = (int(result.get("training_iteration") or 0), step)
            last = self._steps.get(trial)
            if last is None or here[0] <= last[0] or step < last[1]:  # a new file, or the trial has gone back
                file.start_from(step)
            self._steps[trial] = here
            super().log_trial_result(iteration, trial, self._showable(result, self._media.new_in_lists(trial)))
            self._media.later("writing events", file.flush)
            if self._in_segments and file.is_late:
                self._copy_later(trial, file)
        writer = self._trial_writer.get(trial)
        for entry in entries:
            work = functools.partial(self._log_entry, writer, entry, step)
            self._media.later(f"showing {entry.path}", work, entry.show_bytes)

    def log_trial_save(self, trial: Trial) -> None:  # noqa: D102
        self._media.take_from_checkpoint(trial)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: D102
        self._media.trial_is_over(trial)
        result = self._trial_result.get(trial)
        if result and trial.evaluated_params:
            scalars = {name: value for name, value in result.items() if isinstance(value, tuple(VALID_SUMMARY_TYPES))}
            with self._media.guard("writing hyperparameters"):
                self._try_log_hparams(trial, scalars)
        self._close(trial)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:  # noqa: D102
        for trial in list(self._trial_writer):  # what was interrupted
            self._close(trial)
        self._media.finish()

    def _close(self, trial: Trial) -> None:
        """Have the background thread close a trial's event file, after the clips that it still has to write there."""
        writer = self._trial_writer.pop(trial, None)
        self._trial_result.pop(trial, None)
        self._steps.pop(trial, None)
        if writer is not None:
            self._media.later("closing an event file", writer.file_writer.flush)
            self._copy_later(trial, writer.file_writer)

    def _copy_later(self, trial: Trial, file: EventFile) -> None:
        """Bring the storage's copy of an event file up to date, after all that is still to be shown."""
        place = trial_place(trial)
        copy = file.copy_segment if self._in_segments else file.copy_whole
        work = functools.partial(copy, place.filesystem, place.path)
        self._media.on_storage_later("copying events", work, key=("events", trial.trial_id))

    def _showable(
        self, result: dict[str, Any], new: dict[tuple[str, ...], list[Any]], path: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Return a result without the arrays that would make tensorboardX raise, and lose all that comes after.

        Of lists that repeat a window of episodes, only what is new is kept.
        """
        kept = {}
        for key, value in result.items():
            if isinstance(value, dict) and key != "config":
                value = self._showable(value, new, (*path, str(key)))
            elif (*path, key) in new:
                value = new[(*path, key)]
            elif isinstance(value, np.ndarray) and not _is_showable(value):
                with self._media.guard(f"showing {key!r}"):
                    raise ValueError(
                        f"an array of shape {value.shape} is no picture with its channels first (CHW), no batch of "
                        "these and no list of numbers; report a tune_media.Image, Video or Histogram instead"
                    )
                continue
            kept[key] = value
        return kept

    def _log_entry(self, writer: Any, entry: Entry, step: int) -> None:
        if writer is None or entry.is_lost:
            return
        tag = f"{entry.section}/{entry.key}"
        medium = entry.medium
        if medium.kind == "video":
            from tune_media.gif import gif_from_video

            options = self._media.options
            gif = gif_from_video(medium.content(), options.gif_width, options.gif_fps)
            facts = medium.facts()
            _add_image(writer, tag, gif, facts["width"], facts["height"], step)
        elif isinstance(medium, Image):
            _add_image(writer, tag, medium.data, medium.width, medium.height, step)
        elif isinstance(medium, Histogram):
            _add_histogram(writer, tag, medium, step)
        elif isinstance(medium, EpisodeBatch) and recorder_of(entry.key) != RECORDER:  # Ray's TBX shows that
            _add_episodes(writer, f"{entry.section}/{recorder_of(entry.key)}", medium, step)
        writer.file_writer.flush()


def _is_showable(array: npt.NDArray[Any]) -> bool:
    """Say whether tensorboardX takes an array: numbers as a histogram, CHW as a picture, NCHW as several."""
    if array.ndim == 4:
        return array.shape[1] in (3, 4)
    return array.ndim < 3 or (array.ndim == 3 and array.shape[0] in (1, 3, 4))


def _add_image(writer: Any, tag: str, encoded: bytes, width: int, height: int, step: int) -> None:
    from tensorboardX.proto.summary_pb2 import Summary

    image = Summary.Image(height=height, width=width, colorspace=_RGB, encoded_image_string=encoded)
    writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=tag, image=image)]), step)


def _add_episodes(writer: Any, tag: str, batch: EpisodeBatch, step: int) -> None:
    """Show the values of a round's episodes: numbers as histograms, text as a table."""
    for name, histogram in batch.histograms().items():
        _add_histogram(writer, f"{tag}/{name}", histogram, step)
    for name, texts in batch.texts().items():
        lines = [f"| {record.episode_id} | {_cell(text)} |" for record, text in texts[:_MOST_TEXTS]]
        writer.add_text(f"{tag}/{name}", "\n".join(["| episode | text |", "|---|---|", *lines]), step)


def _cell(text: str) -> str:
    """Return a text as a cell of a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")[:_MOST_CHARACTERS]


def _add_histogram(writer: Any, tag: str, histogram: Histogram, step: int) -> None:
    if not histogram.count:
        return
    writer.add_histogram_raw(
        tag,
        min=histogram.minimum,
        max=histogram.maximum,
        num=histogram.count,
        sum=histogram.total,
        sum_squares=histogram.squares,
        bucket_limits=list(histogram.edges[1:]),
        bucket_counts=list(histogram.counts),
        global_step=step,
    )
