"""What TensorBoard lacks after a kill: results of result.json and media of the index, later than the files' mark.

An event file is copied to the storage every few seconds, by Tune or in segments. A driver that is killed takes the last
events with it, while Tune's own state may be newer: the restored trial does not play those steps again. The mark in the
storage's copy says how far it goes.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow.fs

from tune_media.callbacks.backend import TrialInfo
from tune_media.callbacks.tensorboard.event_file import EventFile, Mark, last_mark
from tune_media.experiment.results import json_object, result_step, result_time, results_of_trial
from tune_media.experiment.stored_media import entry_of_line
from tune_media.experiment.trial_files import Line, TrialFiles
from tune_media.storage.entry import MediaEntry
from tune_media.storage.experiment_log import row_of, stamp_of
from tune_media.values.number import as_number, whole_number


@dataclasses.dataclass
class Missing:
    """What the event files of a trial lack.

    Attributes:
        files: The names of the event files.
        results: The results, in order.
        media: Makes an entry of each medium, in order.
        rows: The numbers of the rows of the outbox that these media came from.
        clips: Makes an entry of each clip that the files have, with those that they lack, by tag and step.
        mark: How far the files go with them.
    """

    files: list[str]
    results: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    media: list[Callable[[], MediaEntry]] = dataclasses.field(default_factory=list)
    rows: set[int] = dataclasses.field(default_factory=set)
    clips: dict[str, dict[int, Callable[[], MediaEntry]]] = dataclasses.field(default_factory=dict)
    mark: Mark = dataclasses.field(default_factory=Mark)


def find_missing(trial: TrialInfo, iteration: float, last_row: int) -> Missing:
    """Return what the storage's event files of a trial lack up to a training iteration; nothing if they are another's.

    Args:
        trial: The trial.
        iteration: The iteration up to which Tune will not play it again.
        last_row: The last row of the outbox before this process's first result of the trial. What has a higher number
            is of this process, which delivers it, but for clips that it rendered later.

    Raises:
        OSError: The storage does not answer.
    """
    filesystem, folder = trial.location.filesystem, trial.location.path
    names = event_files(filesystem, folder)
    own = [name for name in names if EventFile.is_own(name)]
    if names and not own:
        return Missing(names)
    marks = (last_mark(filesystem, f"{folder}/{name}") for name in reversed(own))
    known = next((mark for mark in marks if mark is not None), Mark())
    missing = Missing(names, mark=known)
    missing.results = [
        result
        for result in map(json_object, results_of_trial(filesystem, folder, trial.location.local_path))
        if _is_later(result, known) and whole_number(result.get("training_iteration")) <= iteration
    ]
    # A restart comes before the results, and TensorBoard forgets the media from there on.
    restart = result_step(missing.results[0]) if missing.results else float("inf")
    files, of_row = TrialFiles(trial.name, filesystem, folder).read(), Counter[int]()
    restarts: dict[str, float] = {}  # the step from which on TensorBoard's fast reader forgets the clips of a tag
    counting: list[tuple[Line, bool]] = []  # and whether the files lack it
    for line in sorted((*files.lines, *files.report_lines), key=row_of):
        row, mark = row_of(line), missing.mark
        if line.get("trial_id") != trial.trial_id or whole_number(line.get("training_iteration")) > iteration:
            continue
        if stamp_of(line)[1] > last_row:
            continue
        of_row[row] += 1
        is_new = row > known.row or (row == known.row and of_row[row] > known.media)
        if not line.get("rolled_back"):
            counting.append((line, is_new))
            if is_new:
                restarts[_tag(line)] = min(restarts.get(_tag(line), restart), _step(line))
        if mark.row <= row <= last_row:
            missing.mark = mark._replace(row=row, media=of_row[row], time=as_number(line.get("time")))
    for line, is_new in sorted(counting, key=lambda each: _step(each[0])):  # as TensorBoard wants them
        make, is_clip = _entry_of(line, files), line.get("kind") == "video"
        if is_new or _step(line) >= (restarts.get(_tag(line), restart) if is_clip else restart):
            missing.media.append(make)
            missing.rows.add(row_of(line))
        if is_clip:
            missing.clips.setdefault(_tag(line), {})[_step(line)] = make
    if missing.results:
        last = missing.results[-1]
        reached = whole_number(last.get("training_iteration"))
        missing.mark = missing.mark._replace(iteration=reached, timestamp=result_time(last))
    return missing


def find_again(trial: TrialInfo, id: str, row: int) -> list[MediaEntry]:
    """Return a medium that was recorded again, under each of its keys; TensorBoard forgot it as the trial went back.

    Args:
        trial: The trial.
        id: The medium's id.
        row: The number of the row that says so.

    Raises:
        OSError: The storage does not answer.
    """
    files = TrialFiles(trial.name, trial.location.filesystem, trial.location.path).read()
    lines = (line for line in files.lines if line["id"] == id and line.get("trial_id") == trial.trial_id)
    return [dataclasses.replace(_entry_of(line, files)(), row=row) for line in lines]


def event_files(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[str]:
    """Return the names of the event files in a folder, in the order in which TensorBoard reads them.

    Raises:
        OSError: The storage does not answer.
    """
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True))
    return sorted(posixpath.basename(info.path) for info in found if "events.out.tfevents." in info.path)


def _entry_of(line: Line, files: TrialFiles) -> Callable[[], MediaEntry]:
    return lambda: entry_of_line(line, files.read_media, as_number(line.get("time")), row_of(line))


def _tag(line: Line) -> str:
    return f"{line['section']}/{line['key']}"


def _step(line: Line) -> int:
    return whole_number(line.get("step"))


def _is_later(result: dict[str, Any], mark: Mark) -> bool:
    """Say whether a result may be later than the last one in the files, which is written again if in doubt."""
    if whole_number(result.get("training_iteration")) > mark.iteration:
        return True
    return 0 < mark.timestamp <= result_time(result)
