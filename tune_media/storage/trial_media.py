"""Reads the media of a trial's folder, for all but the driver that writes them."""

from __future__ import annotations

import logging
import posixpath
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow.fs

from tune_media.storage.entry import STORED, may_be_rendered
from tune_media.storage.filesystem import is_local
from tune_media.storage.fold import fold
from tune_media.storage.index_lines import Line, LogLine, MediumLine, read_index
from tune_media.storage.location import filesystem_of_trial, media_folder, path_of
from tune_media.storage.log import has_log, read_log

logger = logging.getLogger("tune_media")

_RUNNING_SECONDS = 120.0  # a log that is younger may belong to a driver that runs


@dataclass(frozen=True)
class TrialContents:
    """The media that a trial's folder holds."""

    media_folder: str  # that the paths of the lines are relative to, see ``location.media_folder``
    lines: Sequence[Line] = ()  # the valid line of each medium: the fold of the index and the log
    is_coming: bool = False  # the driver is about to write files that are left out
    may_run: bool = False  # a driver that runs may still add media
    unrendered: int = 0  # the number of clips that are only tapes, without those that were rolled back


def read_trial(filesystem: pyarrow.fs.FileSystem, folder: str) -> TrialContents:
    """Read a trial's index and its lines in the log. Raises OSError.

    ``folder`` may be the trial's folder on the driver, too. Several threads may call this.
    """
    listed = read_lines(filesystem, folder)
    place, trial_id = _place_of(filesystem, folder, listed.index)
    if place != folder:
        try:
            filesystem = filesystem_of_trial(place, filesystem, frozenset({trial_id}))
            listed = read_lines(filesystem, path_of(place))
        except FileNotFoundError:  # the pointer was changed, or the driver has listed nothing yet
            place = folder
    fields = [line.fields() for line in listed.lines]
    unrendered = sum(map(may_be_rendered, fields))
    may_run = time.time() - listed.written < _RUNNING_SECONDS
    return TrialContents(place, fields, listed.is_coming, may_run, unrendered)


@dataclass(frozen=True)
class ListedMedia:
    """The lines of a trial in its index and in the log."""

    index: list[MediumLine]
    lines: list[MediumLine]  # the valid ones of both whose files are there
    is_coming: bool  # files of other valid lines are coming
    written: float  # when the log was last written


def read_lines(filesystem: pyarrow.fs.FileSystem, folder: str) -> ListedMedia:
    """Read a trial's log, then its index: a driver writes the index before the log is done. Raises OSError."""
    experiment, name = posixpath.split(folder.rstrip("/"))
    log = read_log(filesystem, experiment)
    index, is_whole = read_index(filesystem, folder)
    log = log if is_whole else read_log(filesystem, experiment, done=True)
    missing = missing_files(filesystem, folder, log.newest.get(name, ()))
    lines = fold([*index, *log.lines.get(name, ())])
    there = [line for line in lines if line.status != STORED or line.path not in missing]
    return ListedMedia(index, there, len(there) < len(lines), log.written)


def missing_files(filesystem: pyarrow.fs.FileSystem, folder: str, newest: Iterable[LogLine]) -> set[str]:
    """Return the files that the newest lines of a trial's log list as stored, and that are not there."""
    paths = list({line.path for line in newest if isinstance(line, MediumLine) and line.status == STORED})
    files = filesystem.get_file_info([posixpath.join(folder, path) for path in paths]) if paths else []
    return {path for path, info in zip(paths, files, strict=True) if not info.is_file}


def warn_of_unrendered(trials: Iterable[tuple[str, TrialContents]]) -> None:
    """Warn of clips that are not rendered, with the command; each trial comes with its experiment's ``as_argument``."""
    by_experiment: dict[str, list[TrialContents]] = {}
    for experiment, contents in trials:
        if contents.unrendered:
            by_experiment.setdefault(experiment, []).append(contents)
    for experiment, unrendered in by_experiment.items():
        may_run = any(contents.may_run for contents in unrendered)
        logger.log(
            logging.INFO if may_run else logging.WARNING,
            "tune_media: %d clip(s) of %d trial(s) are tapes, and not rendered%s. `tune-media render %s --episodes "
            "waiting` writes these clips into a folder%s.",
            sum(contents.unrendered for contents in unrendered),
            len(unrendered),
            " yet" if may_run else "",
            experiment,
            " when the experiment has ended" if may_run else "",
        )


def _place_of(filesystem: pyarrow.fs.FileSystem, folder: str, index: Iterable[MediumLine]) -> tuple[str, str]:
    """Return the folder of a trial's media, and the trial id that its index must have if that is another folder.

    Tune copies the pointer to the storage, and a copy of an experiment has it, too. A folder is no driver's if
    a file that its index lists is in it, or if its experiment has a log: the log is on the storage only. An index alone
    tells nothing on a local disk: drivers of earlier versions left one in their folder if the storage was away.
    """
    is_listed = has_stored = False
    for line in index:
        is_stored = line.status == STORED
        is_listed, has_stored = True, has_stored or is_stored
        if not is_local(filesystem):
            return folder, ""
        if is_stored and filesystem.get_file_info(posixpath.join(folder, line.path)).is_file:
            return folder, ""
    if is_listed and not has_stored:
        return folder, ""
    place, trial_id = media_folder(filesystem, folder)
    if place != folder and has_log(filesystem, posixpath.dirname(folder.rstrip("/"))):
        place = folder
    return place, trial_id
