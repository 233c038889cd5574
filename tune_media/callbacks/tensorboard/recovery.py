"""Events that TensorBoard lacks after a kill: made again of result.json, the index and the media on the storage.

On remote storage an event file is uploaded in segments, every few seconds. A driver that is killed takes the last ones
with it, while Tune's own state may be newer: the restored trial does not play those steps again.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow.fs
from ray.tune.logger import TBXLoggerCallback
from tensorboardX.proto.event_pb2 import SessionLog

from tune_media.callbacks.backend import TrialInfo
from tune_media.callbacks.tensorboard.event_file import EventWriter, read_events
from tune_media.callbacks.tensorboard.summaries import add_gif, add_histogram, add_image
from tune_media.experiment.results import json_object, result_step, results_of_trial, without_lists
from tune_media.ray_compat import event_writers
from tune_media.storage.filesystem import read_if_there
from tune_media.storage.index_lines import lines_of_trial
from tune_media.values.histogram import Histogram
from tune_media.values.options import MediaOptions

_MAX_READ = 256 * 2**20  # bytes of the newest event files
_SCALARS = "ray/tune/"
_KINDS = ("video", "image", "histogram")


def missing_events(trial: TrialInfo, iteration: int, options: MediaOptions) -> list[bytes]:
    """Return the events up to a training iteration that the storage's event files of a trial lack.

    They are the scalars of result.json, and the clips, pictures and histograms of the index, later than the last step
    that a tag has. The histograms of episodes' values are not made again.

    Args:
        trial: The trial, as it starts again.
        iteration: The iteration up to which Tune will not play it again.
        options: The width and frame rate of GIFs.

    Raises:
        OSError: The storage does not answer.
    """
    filesystem, folder = trial.location.filesystem, trial.location.path
    last, is_all = _last_steps(filesystem, folder)
    if not last and not is_all:
        return []
    writer = EventWriter(str(trial.location.local_path))  # holds events, and writes nothing
    rays = TBXLoggerCallback()
    event_writers(rays)[trial.ray] = writer
    last_scalar = max((step for tag, step in last.items() if tag.startswith(_SCALARS)), default=-1)
    for result in map(json_object, results_of_trial(filesystem, folder)):
        at = result.get("training_iteration")
        if isinstance(at, int) and at <= iteration and result_step(result) > last_scalar:
            writer.file_writer.wall_time = result.get("timestamp")
            TBXLoggerCallback.log_trial_result(rays, result["training_iteration"], trial.ray, without_lists(result))
    for _, line in lines_of_trial(filesystem, folder) or ():
        if line.get("trial_id") == trial.trial_id and _is_shown(line, iteration):
            tag = f"{line['section']}/{line['key']}"
            if line["step"] > last.get(tag, -1 if is_all else line["step"]):
                writer.file_writer.wall_time = line.get("time")
                _add(writer, tag, line, read_if_there(filesystem, f"{folder}/{line['path']}"), options)
    return writer.file_writer.take_waiting()


def _add(writer: EventWriter, tag: str, line: dict[str, Any], content: bytes | None, options: MediaOptions) -> None:
    """Add a medium of the index."""
    if content is None:
        return
    if line["kind"] == "histogram":
        found = json.loads(content)
        add_histogram(writer, tag, Histogram.from_counts(found["edges"], found["counts"]), line["step"])
    elif {"width", "height"} <= line.keys():
        if line["kind"] == "video":
            add_gif(writer, tag, content, line, line["step"], options)
        else:
            add_image(writer, tag, content, line["width"], line["height"], line["step"])


def _is_shown(line: dict[str, Any], iteration: int) -> bool:
    """Return whether TensorBoard shows a line of the index, up to an iteration."""
    if line.get("status") != "stored" or line.get("rolled_back") or line.get("kind") not in _KINDS:
        return False
    return isinstance(line.get("step"), int) and int(line.get("training_iteration") or iteration + 1) <= iteration


def _last_steps(filesystem: pyarrow.fs.FileSystem, folder: str) -> tuple[dict[str, int], bool]:
    """Return the last step of each tag in the event files of a folder, and whether all of them were read."""
    selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    files = [info for info in filesystem.get_file_info(selector) if "events.out.tfevents." in info.base_name]
    files.sort(key=lambda info: str(info.base_name))
    count = len(files)
    while len(files) > 1 and sum(info.size for info in files) > _MAX_READ:
        files.pop(0)
    last: dict[str, int] = {}
    for info in files:
        for event in read_events(filesystem.open_input_stream(info.path)):
            if event.session_log.status == SessionLog.START:  # later steps no longer count
                last = {tag: min(step, event.step - 1) for tag, step in last.items()}
            for value in event.summary.value:
                last[value.tag] = event.step
    return last, len(files) == count
