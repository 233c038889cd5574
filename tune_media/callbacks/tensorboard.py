"""Ray's TensorBoard logger with media: clips that move in the Images tab, pictures, histograms."""

from __future__ import annotations

import functools
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from ray.tune.logger import TBXLoggerCallback

from tune_media.callbacks.base import MediaLogging, result_step, wait
from tune_media.store import STORED, Entry, write_once
from tune_media.values import Histogram, Image, MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

_RGB = 3
_RESTART_WAIT_SECONDS = 60.0


class TBXMediaLoggerCallback(TBXLoggerCallback):
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
        self._media = MediaLogging("TensorBoard", media)
        self._closing: dict[str, Future[None]] = {}

    def log_trial_start(self, trial: Trial) -> None:  # noqa: D102
        wait(self._closing.pop(trial.trial_id, None), _RESTART_WAIT_SECONDS)
        with self._media.guard("opening an event file"):
            super().log_trial_start(trial)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:  # noqa: D102
        entries = self._media.take(trial, result)
        with self._media.guard("writing scalars and lists"):
            super().log_trial_result(iteration, trial, self._showable(result))
        for entry in entries:
            work = functools.partial(self._log_entry, trial, entry, result_step(result))
            self._media.later(trial, f"showing {entry.path}", work)

    def log_trial_save(self, trial: Trial) -> None:  # noqa: D102
        self._media.take_from_checkpoints(trial)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: D102
        # The background thread closes the file, after the clips that it still has to write there.
        close = functools.partial(super().log_trial_end, trial, failed)
        self._closing[trial.trial_id] = self._media.later(trial, "closing an event file", close)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:  # noqa: D102
        self._media.flush()
        for trial in trials:
            if trial.trial_id in self._closing:
                self._media.later(trial, "copying event files", functools.partial(self._copy_events, trial))
        self._media.finish()

    def _showable(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result without the arrays that would make tensorboardX raise, and lose all that comes after."""
        kept = {}
        for key, value in result.items():
            if isinstance(value, dict) and key != "config":
                value = self._showable(value)
            elif isinstance(value, np.ndarray) and not _is_showable(value):
                with self._media.guard(f"showing {key!r}"):
                    raise ValueError(
                        f"an array of shape {value.shape} is no picture with its channels first (CHW), no batch of "
                        "these and no list of numbers; report a tune_media.Image, Video or Histogram instead"
                    )
                continue
            kept[key] = value
        return kept

    def _log_entry(self, trial: Trial, entry: Entry, step: int) -> None:
        writer = self._trial_writer.get(trial)
        if writer is None or entry.status != STORED:
            return
        tag = f"{entry.section}/{entry.key}"
        medium = entry.medium
        if medium.kind == "video":
            from tune_media.encoding import gif_from_video

            options = self._media.options
            gif = gif_from_video(medium.content(), options.gif_width, options.gif_fps)
            facts = medium.facts()
            _add_image(writer, tag, gif, facts["width"], facts["height"], step)
        elif isinstance(medium, Image):
            _add_image(writer, tag, medium.data, medium.width, medium.height, step)
        elif isinstance(medium, Histogram):
            _add_histogram(writer, tag, medium, step)
        writer.flush()

    def _copy_events(self, trial: Trial) -> None:
        """Bring the storage's event files up to date: Tune's last sync comes before the last clips."""
        place = self._media.place(trial)
        for file in sorted(Path(place.local_path).glob("events.out.tfevents.*")):
            write_once(place.filesystem, f"{place.path}/{file.name}", file.read_bytes())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_closing": {}}


def _is_showable(array: npt.NDArray[Any]) -> bool:
    """Say whether tensorboardX takes an array: numbers as a histogram, CHW as a picture, NCHW as several."""
    return array.ndim < 3 or (array.ndim < 5 and array.shape[-3] in (1, 3, 4))


def _add_image(writer: Any, tag: str, encoded: bytes, width: int, height: int, step: int) -> None:
    from tensorboardX.proto.summary_pb2 import Summary

    image = Summary.Image(height=height, width=width, colorspace=_RGB, encoded_image_string=encoded)
    writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=tag, image=image)]), step)


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
