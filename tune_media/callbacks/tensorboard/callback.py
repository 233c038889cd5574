"""Ray's TensorBoard logger with media: clips that move in the Images tab, pictures, histograms."""

from __future__ import annotations

import functools
import logging
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pyarrow.fs import FileSystem
from ray.tune.logger import TBXLoggerCallback
from typing_extensions import override

from tune_media.callbacks.backend import (
    Backend,
    Report,
    Status,
    StorageAwayError,
    TrialInfo,
    wait_for_storage,
)
from tune_media.callbacks.callback import MediaLoggerCallback
from tune_media.callbacks.tensorboard.event_file import EventFile, EventWriter, copy_ended
from tune_media.callbacks.tensorboard.hparams import HparamsTable
from tune_media.callbacks.tensorboard.recovery import find_again, find_missing
from tune_media.callbacks.tensorboard.summaries import add_gif, add_histogram, add_image, add_texts
from tune_media.callbacks.tensorboard.trial_events import TrialEvents
from tune_media.experiment.results import result_step, result_time, without_lists
from tune_media.ray_compat import (
    event_writers,
    forget_last_result,
    leave_out_of_syncs,
    set_event_writer_class,
    sync_everything,
)
from tune_media.results.old_api_stack import RECORDER
from tune_media.storage.entry import MediaEntry
from tune_media.storage.filesystem import is_local
from tune_media.values.checks import suggests_names
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.image import Image
from tune_media.values.options import MediaOptions

logger = logging.getLogger("tune_media")


@suggests_names
class TBXMediaLoggerCallback(MediaLoggerCallback, TBXLoggerCallback):
    """Everything ``ray.tune.logger.TBXLoggerCallback`` does, and media, in the same event file.

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
    """Writes event files: scalars with Ray's own code, in Tune's loop; media in the backend's thread.

    Both only add events in memory; the backend's thread writes them to the disk.

    Args:
        rays: Ray's callback, which has the writers of the trials.
    """

    name = "TensorBoard"
    in_loop = frozenset({"start", "metrics"})
    same_files_as = TBXLoggerCallback
    files = "TensorBoard scalars"
    goes_on_after_a_kill = False  # what its event files lack, of which some may be lost, is taken from the storage
    niceness = 5  # GIFs take much time; with 15, a machine full of other work left them none, not even at the end

    def __init__(self, rays: TBXLoggerCallback) -> None:
        self._rays = rays
        self._in_segments = False
        self._last_trial: TrialInfo | None = None
        self._events: dict[str, TrialEvents] = {}
        self._tables: dict[str, HparamsTable] = {}
        self._best: dict[str, dict[str, float]] = {}  # the largest returns of trials that are restored
        self._marks: dict[str, EventWriter] = {}  # by trial: what came after the end of its events
        self._ended: list[tuple[Path, FileSystem, str]] = []  # files that Tune copies, too, and where to
        self._announced: Path | None = None  # the experiment whose command for TensorBoard was printed

    @override
    def prepare_export(self) -> None:
        raise TypeError(
            "TBXMediaLoggerCallback writes into a running experiment; use tune_media.export.to_tensorboard."
        )

    @override
    def start(self, trial: TrialInfo) -> None:
        if trial.ray in event_writers(self._rays) or self._is_second:
            return  # paused, cloned or retried: it goes on in the file that it has, with the clips still to come
        place = trial.location  # Tune copies event files there while trials run
        self._announce(Path(place.path if is_local(place.filesystem) else place.local_path).parent)
        TBXLoggerCallback.log_trial_start(self._rays, trial.ray)
        events = self._events.setdefault(trial.trial_id, TrialEvents(event_writers(self._rays)[trial.ray]))
        events.ray, event_writers(self._rays)[trial.ray] = trial.ray, events.writer  # it may have media already
        local = is_local(trial.location.filesystem)  # there, Tune's copying is cheap
        self._in_segments = not local and leave_out_of_syncs(trial.ray, EventFile.PATTERN)
        self._last_trial = trial
        last = trial.ray.last_result if trial.ray is not None else None  # Tune puts other things there, too
        reached = int((last or {}).get("training_iteration") or 0)
        if reached and self.yields_to is None:  # restored in a new process, and the former one may have been killed
            events.lacks_earlier, last_row = True, self.context.last_row()
            recover = functools.partial(self._recover, trial, events, reached, last_row)
            self.context.later("recovering the steps that TensorBoard lacks", recover)

    def _announce(self, logdir: Path) -> None:
        """Print the command that shows all clips, once an experiment; Tune's own line before it shows ten a tag."""
        if self._announced != logdir:
            self._announced = logdir
            with self.context.guard("printing TensorBoard's command"):
                command = f"tensorboard --logdir {shlex.quote(str(logdir))} --samples_per_plugin images=1000"
                print(f"To see all clips in TensorBoard, run: `{command}`", flush=True)

    @override
    def metrics(self, trial: TrialInfo, report: Report) -> None:
        if self.yields_to is not None:  # a restart in a second event file would purge the steps of the first
            return
        events = self._events[trial.trial_id]

        def write() -> None:
            shown = self._showable(report.result, report.new_in_lists)
            TBXLoggerCallback.log_trial_result(self._rays, report.training_iteration, trial.ray, shown)
            with self.context.guard("writing hyperparameters"):
                evaluates = bool(trial.config.get("evaluation_interval"))
                self._table(trial).add(events.writer, report.flat, report.step, evaluates=evaluates)

        events.add_result(report, write)
        file = events.file
        self.context.later("writing events", file.flush, key=("flush", trial.trial_id))
        if self._in_segments and file.is_late:
            copy = functools.partial(self._copy_later, trial, file)
            self.context.later("copying events", copy, key=("copy", trial.trial_id))

    @override
    def media(self, trial: TrialInfo, entry: MediaEntry) -> None:
        events = self._open_events(trial)
        if events is None:
            return
        is_known = events.has(entry)
        behind = events.take_earlier(entry) if entry.medium.kind == "video" and not is_known else []
        events.add_medium(entry, [] if is_known else self._events_of_medium(trial, entry))
        for make in behind:
            with self.context.guard("adding a clip again"):
                newer = make()
                events.add_clip_again(newer, self._events_of_medium(trial, newer))
        events.file.flush()

    def _open_events(self, trial: TrialInfo) -> TrialEvents | None:
        """Return the events of a trial, if media are added as they come.

        Else the trial is to start or to end in this process: what its files lack is then taken from the storage.
        """
        events = self._events.get(trial.trial_id)
        return None if self._is_second or events is None or events.lacks_earlier else events

    def _events_of_medium(self, trial: TrialInfo, entry: MediaEntry) -> list[bytes]:
        medium, step = entry.medium, entry.step
        writer = EventWriter(str(trial.location.local_path))  # holds events, and writes nothing
        writer.file_writer.wall_time = entry.time
        if isinstance(medium, EpisodeBatch) and entry.tag == f"{entry.section}/{RECORDER}":
            return []  # Ray's code shows that
        for tag, histogram in entry.histograms().items():
            add_histogram(writer, tag, histogram, step)
        if isinstance(medium, EpisodeBatch):
            add_texts(writer, entry.tag, medium, step)
        elif isinstance(medium, Image):
            add_image(writer, entry.tag, medium.data, medium.width, medium.height, step)
        elif medium.kind == "video":
            add_gif(writer, entry.tag, medium.content(), medium.facts(), step, self.context.options)
        return writer.file_writer.take_waiting()

    @override
    def media_again(self, trial: TrialInfo, id: str, row: int) -> None:
        events = self._open_events(trial)
        if events is None:
            return
        wait_for_storage(self.context)
        for entry in find_again(trial, id, row):
            events.add_medium(entry, self._events_of_medium(trial, entry))
        events.file.flush()

    @override
    def suspect(self, trial: TrialInfo, entry: MediaEntry) -> None:
        if self._is_second:
            return
        events = self._open_events(trial)
        writer = EventWriter(str(trial.location.local_path)) if events else self._marks.get(trial.trial_id)
        if writer is None:
            writer = self._marks[trial.trial_id] = EventWriter(str(trial.location.local_path))
        writer.file_writer.wall_time = entry.time
        writer.add_text(f"{entry.tag}/suspect", str(entry.medium.note), entry.step)
        if events is not None:
            events.file.add_again(writer.file_writer.take_waiting())
            events.file.flush()
            return
        file = writer.file_writer
        file.flush()
        self._copy_later(trial, file)
        ended = (file.path, trial.location.filesystem, trial.location.path)
        if not self._in_segments and ended not in self._ended:
            self._ended.append(ended)

    @override
    def end(self, trial: TrialInfo, status: Status) -> None:
        if self._is_second:
            return
        events = self._events.get(trial.trial_id)
        if events is not None and self.context.is_at_an_earlier_process:
            return  # Tune's loop has just started it again
        if events is None:  # it ended in a process that was killed before all was written; it may start again any time
            events = TrialEvents(EventWriter(str(trial.location.local_path)))
            self._recover(trial, events, float("inf"), self.context.last_row())
        else:
            with self.context.guard("writing hyperparameters"):
                if status != "interrupted":
                    self._table(trial).end(events.writer, failed=status == "failed")
                events.add_waiting()
            self._tables.pop(trial.trial_id, None)
            del self._events[trial.trial_id]
        if events.ray is not None:
            forget_last_result(self._rays, events.ray)
            event_writers(self._rays).pop(events.ray, None)
        try:
            events.file.flush()
        finally:
            self._copy_later(trial, events.file)
            if not self._in_segments:
                self._ended.append((events.file.path, trial.location.filesystem, trial.location.path))

    @override
    def finish(self) -> None:
        for ended in self._ended:  # Tune's last sync is over, and may have put an older state in its place
            self.context.on_storage("copying events", functools.partial(copy_ended, *ended))
        self._ended.clear()
        self._marks.clear()
        if self._last_trial is not None:
            sync_everything(self._last_trial.ray)
            self._last_trial = None

    @override
    def get_state(self) -> dict[str, Any]:
        return {"best": {**self._best, **{trial_id: table.best for trial_id, table in list(self._tables.items())}}}

    @override
    def set_state(self, state: dict[str, Any]) -> None:
        self._best = dict(state.get("best", {}))

    def _table(self, trial: TrialInfo) -> HparamsTable:
        """Return the trial's line in the HParams tab; a trial without hyperparameters of its own writes nothing."""
        if trial.trial_id not in self._tables:
            self._tables[trial.trial_id] = HparamsTable(trial.searched, self._best.pop(trial.trial_id, {}))
        return self._tables[trial.trial_id]

    @override
    def is_away(self, error: Exception) -> bool:
        return isinstance(error, StorageAwayError)

    def _recover(self, trial: TrialInfo, events: TrialEvents, iteration: float, last_row: int) -> None:
        """Write what a killed driver had not brought to the storage, up to an iteration and a row of the outbox."""
        try:
            self._add_missing(trial, events, iteration, last_row)
        except StorageAwayError:
            raise
        except Exception:
            events.lacks_earlier = False  # it is not tried again
            raise

    def _add_missing(self, trial: TrialInfo, events: TrialEvents, iteration: float, last_row: int) -> None:
        wait_for_storage(self.context)  # for the media that were in the killed driver's outbox
        try:
            missing = find_missing(trial, iteration, last_row)
        except OSError as error:
            raise StorageAwayError(str(error)) from error
        writer = EventWriter(str(trial.location.local_path))  # holds events, and writes nothing
        rays, stand_in = TBXLoggerCallback(), object()
        event_writers(rays)[stand_in] = writer
        if missing.results:
            writer.file_writer.wall_time = result_time(missing.results[0])
            writer.file_writer.start_from(result_step(missing.results[0]))
        for result in missing.results:
            writer.file_writer.wall_time = result_time(result)
            TBXLoggerCallback.log_trial_result(rays, result["training_iteration"], stand_in, without_lists(result))
        found = writer.file_writer.take_waiting()
        for make in missing.media:
            with self.context.guard("recovering a medium"):
                found += self._events_of_medium(trial, make())
        events.add_missing(found, missing)
        if found:
            logger.info("tune_media: TensorBoard: %d events of trial %s were recovered", len(found), trial.trial_id)

    @property
    def _is_second(self) -> bool:
        """Whether another callback of this class writes everything."""
        return isinstance(self.yields_to, TBXMediaLoggerCallback)

    def _copy_later(self, trial: TrialInfo, file: EventFile) -> None:
        """Bring the storage's copy of an event file up to date."""
        copy = file.copy_segment if self._in_segments else file.copy_whole
        work = functools.partial(copy, trial.location.filesystem, trial.location.path)
        self.context.on_storage("copying events", work, key=("events", trial.trial_id))

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
                continue  # no numbers: tensorboardX would warn of a value that nobody wants to see there
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
    """Say whether tensorboardX takes an array: numbers as a histogram, CHW as a picture, NCHW as several."""
    if array.ndim == 4:
        return array.shape[1] in (3, 4)
    return array.ndim < 3 or (array.ndim == 3 and array.shape[0] in (1, 3, 4))
