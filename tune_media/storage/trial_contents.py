"""Reads the media that a trial's folder holds, for everybody who is not the driver that writes them."""

from __future__ import annotations

import logging
import posixpath
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs

from tune_media.storage.entry import STORED, may_be_rendered
from tune_media.storage.experiment_log import FOLDER, Event, read_log
from tune_media.storage.filesystem import is_local
from tune_media.storage.index import Index
from tune_media.storage.index_lines import Line, lines_of_trial
from tune_media.storage.location import TrialLocation, filesystem_of_trial, media_folder, path_of
from tune_media.values.strict_json import json_bytes

logger = logging.getLogger("tune_media")

_RUNNING_SECONDS = 120.0  # a log that is younger may belong to a driver that runs
# by kind of storage, folder, and whether parts that are done are read
_LOGS: dict[tuple[str, str, bool], tuple[tuple[object, ...], dict[str, list[Event]]]] = {}
_MAX_LOGS = 8
_lock = threading.Lock()


@dataclass(frozen=True)
class TrialContents:
    """The media that a trial's folder holds.

    Attributes:
        media_folder: The folder that the paths of the lines are relative to: the trial's own, unless that is its folder
            on the driver; then a path, or a URI. See ``tune_media.storage.location.media_folder``.
        lines: The valid line of each medium, as JSON and parsed: those of the index, and those that only the
            experiment's log has so far.
        unlisted: How many of them only the log has.
        may_run: Whether a driver that runs may still add them to the index.
        unrendered: How many clips have no file: of these there is only the tape of the episode, so far or for good.
            Those that the trial has left behind are not counted.
    """

    media_folder: str
    lines: Sequence[tuple[bytes, Line]] = ()
    unlisted: int = 0
    may_run: bool = False
    unrendered: int = 0


def read_trial(filesystem: pyarrow.fs.FileSystem, folder: str) -> TrialContents:
    """Read a trial's index, and the lines of its files that only the log has; nothing is changed.

    Several threads may call this at once.

    Args:
        filesystem: Any pyarrow filesystem.
        folder: The trial's folder on it, or the trial's folder on the driver.

    Raises:
        OSError: The filesystem does not answer.

    Example:
        >>> len(read_trial(pyarrow.fs.LocalFileSystem(), "/no/such/trial").lines)
        0
    """
    place, trial_id = _place_of(filesystem, folder)
    if place != folder:
        try:
            filesystem = filesystem_of_trial(place, filesystem, frozenset({trial_id}))
        except FileNotFoundError:  # the pointer was changed, or the driver has written no index yet
            place = folder
    location = TrialLocation(filesystem, path_of(place).rstrip("/"), Path(), "")
    index, unlisted, newest = opened_index(location)
    lines = [(json_bytes(line), line) for line in index.lines()]
    unrendered = sum(may_be_rendered(line) for _, line in lines)
    return TrialContents(place, lines, unlisted, time.time() - newest < _RUNNING_SECONDS, unrendered)


def opened_index(location: TrialLocation) -> tuple[Index, int, float]:
    """Return a trial's index, with the lines that only the experiment's log has.

    Returns:
        The index, the number of files that only the log has, and when the log was last written.

    Raises:
        OSError: The filesystem does not answer.
    """
    experiment, name = posixpath.split(location.path)
    index = Index(location)
    newest, log = _log_of(location.filesystem, experiment)
    unlisted = index.load(log.get(name, []))
    if index.is_damaged:  # or the trial has recorded nothing
        _, log = _log_of(location.filesystem, experiment, done=True)
        unlisted = index.load(log.get(name, []))
    return index, unlisted, newest


def warn_of_unlisted(found: Mapping[str, TrialContents]) -> None:
    """Say how many files are in no index, and how they get into it.

    Args:
        found: The contents of trials, by their folder.
    """
    unlisted = {folder: contents for folder, contents in found.items() if contents.unlisted}
    if not unlisted:
        return
    may_run = any(contents.may_run for contents in unlisted.values())
    logger.log(
        logging.INFO if may_run else logging.WARNING,
        "tune_media: the index.jsonl of %d trial(s) (%r ...) does not list %d of their files: %s. They are included, "
        "from the experiment's log. Tuner.restore(...) adds them to the index.",
        len(unlisted),
        min(unlisted),
        sum(contents.unlisted for contents in unlisted.values()),
        "a running driver has not added them yet" if may_run else "the driver was killed before it could add them",
    )


def warn_of_unrendered(found: Iterable[tuple[str, TrialContents]]) -> None:
    """Say how many clips are not there because nobody has rendered them, and how they are made.

    Args:
        found: The contents of trials, each with its experiment as ``as_argument`` returns it.
    """
    by_experiment: dict[str, list[TrialContents]] = {}
    for experiment, contents in found:
        if contents.unrendered:
            by_experiment.setdefault(experiment, []).append(contents)
    for experiment, trials in by_experiment.items():
        may_run = any(contents.may_run for contents in trials)
        logger.log(
            logging.INFO if may_run else logging.WARNING,
            "tune_media: %d clip(s) of %d trial(s) are tapes, and not rendered%s. `tune-media render %s --episodes "
            "waiting --storage` makes these clips%s.",
            sum(contents.unrendered for contents in trials),
            len(trials),
            " yet" if may_run else "",
            experiment,
            " when the experiment has ended" if may_run else "",
        )


def warn_of_suspects(found: Mapping[str, int]) -> None:
    """Say how many clips may not show their episodes, and how that is found out.

    Args:
        found: The number of such clips, by experiment as ``as_argument`` returns it.
    """
    for experiment, count in found.items():
        logger.warning(
            "tune_media: %d clip(s) may not show their episodes ('suspect' in their rows; 'note' says why). "
            "`tune-media render %s --episodes suspect --storage` plays their tapes again.",
            count,
            experiment,
        )


def _place_of(filesystem: pyarrow.fs.FileSystem, folder: str) -> tuple[str, str]:
    """Return the folder of a trial's media, and the trial id that its index must have if that is another folder.

    It is that folder, unless it is the driver's, and the media are elsewhere.

    Tune copies the pointer to the storage, and whoever copies an experiment copies it, too. A folder is no driver's if
    a file that its index lists is in it, or if its experiment has a log: the log is on the storage only. An index alone
    tells nothing on a local disk: a driver whose storage is away at the end writes one into its folder.
    """
    listed = lines_of_trial(filesystem, folder)
    stored = [line for _, line in listed or () if line.get("status") == STORED]
    if listed is not None and (not stored or not is_local(filesystem)):
        return folder, ""
    if any(filesystem.get_file_info(posixpath.join(folder, line["path"])).is_file for line in stored):
        return folder, ""
    place, trial_id = media_folder(filesystem, folder)
    if place != folder and _has_log(filesystem, posixpath.dirname(folder.rstrip("/"))):
        place = folder
    return place, trial_id


def _has_log(filesystem: pyarrow.fs.FileSystem, experiment: str) -> bool:
    info = filesystem.get_file_info(posixpath.join(experiment, FOLDER))
    return bool(info.type == pyarrow.fs.FileType.Directory)


def _log_of(
    filesystem: pyarrow.fs.FileSystem, experiment: str, *, done: bool = False
) -> tuple[float, dict[str, list[Event]]]:
    """Return the log of an experiment and when it was last written; it is read again if it has changed.

    ``done`` is as for ``read_log``.
    """
    selector = pyarrow.fs.FileSelector(posixpath.join(experiment, FOLDER), allow_not_found=True)
    found = sorted((info.path, info.size, info.mtime_ns) for info in filesystem.get_file_info(selector))
    key, version = (str(filesystem.type_name), experiment, done), tuple(found)
    newest = max(((nanoseconds or 0) / 1e9 for _, _, nanoseconds in found), default=0.0)
    with _lock:
        held = _LOGS.get(key)
        if held is None or held[0] != version:
            held = version, read_log(filesystem, experiment, done=done) if found else {}
            _LOGS.pop(key, None)
            _LOGS[key] = held
            while len(_LOGS) > _MAX_LOGS:
                del _LOGS[next(iter(_LOGS))]
    return newest, held[1]
