"""Logs a finished trial with a backend, from its files on the storage: the same calls as while it ran."""

from __future__ import annotations

import contextlib
import functools
import logging
import posixpath
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tune_media.callbacks.backend import STATUS_OF, Backend, Report, Status, TrialInfo
from tune_media.experiment.params import plain_config, searched_params
from tune_media.experiment.results import (
    json_object,
    result_step,
    result_time,
    results_of_trial,
    without_lists,
)
from tune_media.experiment.state import ExperimentState, trial_name
from tune_media.experiment.stored_media import entry_of_line
from tune_media.experiment.trial_files import Line, TrialFiles
from tune_media.storage.entry import MediaEntry
from tune_media.storage.filesystem import read_if_there
from tune_media.storage.location import TrialLocation
from tune_media.storage.suspects import SUSPECT
from tune_media.storage.trial_media import read_trial
from tune_media.values.foreign import shown, without_address
from tune_media.values.number import whole_number
from tune_media.values.options import MediaOptions
from tune_media.values.secrets import error_text

logger = logging.getLogger("tune_media")

_PATIENCE = 60.0  # seconds that a tracker may be away
_PAUSES = (0.5, 1.0, 2.0, 5.0)  # seconds between two tries; the last one again and again


class AlreadyThereError(Exception):
    """The tracker has a trial already, and cannot take it twice without doubling it."""


@dataclass
class Exported:
    """What an export has logged.

    Attributes:
        trials: How many trials.
        results: How many results.
        media: How many media: clips, pictures, histograms, files, reports of episodes.
        left_alone: Trials that the tracker has already, or that were abandoned: why, by their names.
        problems: What could not be logged, each in a sentence.
    """

    trials: int = 0
    results: int = 0
    media: int = 0
    left_alone: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class ExportContext:
    """The services of a backend outside of an experiment: work is done at once, and faults are collected.

    Args:
        exported: Gets the faults.
        options: The options of the backend.
    """

    def __init__(self, exported: Exported, options: MediaOptions) -> None:
        self.options = options
        self._exported = exported

    @contextlib.contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Turn an exception into a problem, or let it through if ``MediaOptions(strict=True)``."""
        try:
            yield
        except Exception as error:
            self.fault(what, error)

    def fault(self, what: str, error: Exception, kind: str = "") -> None:
        """Add a problem."""
        if self.options.strict:
            raise error
        self._exported.problems.append(f"{what}: {error_text(error)}")

    def lacks(self, trial_id: str, what: str) -> None:
        """Add a problem of a trial."""
        self._exported.problems.append(f"trial {trial_id} lacks: {what}")

    def later(self, what: str, work: Callable[[], None], key: Any = None) -> None:
        """Do the work now."""
        with self.guard(what):
            work()

    def on_storage(self, what: str, work: Callable[[], None], key: Any = None) -> None:
        """Do the work now, and again if the storage is away, or if a file still grows that is copied."""
        with self.guard(what):
            _until_it_works(work, lambda error: isinstance(error, OSError))

    def wait_for_storage(self) -> bool:
        """Return True: everything is stored."""
        return True

    def lines(self, trial: TrialInfo) -> list[Line]:
        """Return the index lines of a trial; its driver may have been killed before they were in its index."""
        return [line for _, line in read_trial(trial.location.filesystem, trial.location.path).lines]

    def scratch(self) -> Path:
        """Return a new folder on this machine's disk."""
        return Path(tempfile.mkdtemp(prefix="tune_media-"))

    def seconds_left(self) -> float:
        """Return infinity: nobody waits."""
        return float("inf")


@dataclass(frozen=True)
class FinishedTrial:
    """A trial that is over, as its files and Tune's snapshots tell of it.

    Attributes:
        files: Its files.
        results: The lines of its results that count.
        info: The trial, as Tune started it.
        status: How it ended.
        chosen: What Tune chose for it, see ``nested_choice``.
    """

    files: TrialFiles
    results: Sequence[bytes] = field(repr=False)
    info: TrialInfo
    status: Status
    chosen: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, files: TrialFiles, differing: Sequence[str], state: ExperimentState) -> FinishedTrial:
        """Read a trial.

        Args:
            files: Its files.
            differing: The hyperparameters that differ between the trials, which are taken as those that Tune chose if
                no snapshot tells.
            state: Tune's snapshots.

        Raises:
            OSError: The storage does not answer.
        """
        results = results_of_trial(files.filesystem, files.path)
        first, last = (json_object(results[0]), json_object(results[-1])) if results else ({}, {})
        folder = posixpath.basename(files.path.rstrip("/"))
        by_folder = next((known.trial_id for known in state.trials.values() if known.folder == folder), None)
        id = str(first.get("trial_id") or by_folder or next(iter(sorted(files.trial_ids)), None) or folder)
        known = state.trials.get(id)
        chosen = known.searched if known is not None else {}
        config = first.get("config")
        config = plain_config(config if isinstance(config, dict) and config else files.read_config(), chosen)
        if chosen:
            searched = searched_params(config, chosen)
        else:
            searched = {name: files.config[name] for name in differing if name in files.config}
        info = TrialInfo(
            id,
            known.name if known else trial_name(folder, id) or folder,
            posixpath.basename(posixpath.dirname(files.path.rstrip("/"))),
            config,
            TrialLocation(files.filesystem, files.path, Path(files.path), id),
            searched=searched,
            time=result_time(first) or files.newest,
        )
        if known is not None and known.status in STATUS_OF:
            return cls(files, results, info, STATUS_OF[known.status], chosen)
        if read_if_there(files.filesystem, posixpath.join(files.path, "error.txt")) is not None:
            return cls(files, results, info, "failed", chosen)
        status: Status = "finished" if last.get("done") is True else "interrupted"
        return cls(files, results, info, status, chosen)

    @classmethod
    def of_driver(cls, info: TrialInfo, status: Status) -> FinishedTrial:
        """Read a trial while its experiment runs.

        If the trial has run in this process, its folder on the driver has all its results. If it had ended before this
        process began, the storage has them. The media are on the storage.

        Raises:
            OSError: The storage does not answer.
        """
        place = info.location
        files = TrialFiles(info.name, place.filesystem, place.path).read()
        return cls(files, results_of_trial(place.filesystem, place.path, place.local_path), info, status)


def export_trial(backend: Backend, trial: FinishedTrial, exported: Exported) -> None:
    """Log a trial with a backend: its results that count, its media, its end.

    Results and media that were rolled back are left out. Times, steps and names are those of the files, so that a
    backend whose calls are repeatable may be given the same trial again. One medium that cannot be read, or that the
    tracker refuses, costs itself.

    Args:
        backend: The backend, with an ``ExportContext``.
        trial: The trial.
        exported: Gets the counts and the problems.

    Raises:
        AlreadyThereError: The tracker has the trial already.
        Exception: The trial cannot be started: the tracker is away, or refuses it.
    """
    info = trial.info
    _call(backend, functools.partial(backend.start, info))
    for call in calls_of(trial, exported.problems):
        if isinstance(call, Report):
            with _problem(f"{info.name}, iteration {call.training_iteration}", exported):
                _call(backend, functools.partial(backend.metrics, info, call))
                exported.results += 1
        else:
            with _problem(f"{info.name}, {call.path}", exported):
                _call(backend, functools.partial(backend.media, info, call))
                if call.medium.facts().get(SUSPECT):
                    _call(backend, functools.partial(backend.suspect, info, call))
                exported.media += 1
    with _problem(f"{info.name}, its end", exported):
        _call(backend, functools.partial(backend.end, info, trial.status))
    exported.trials += 1


def calls_of(trial: FinishedTrial, problems: list[str]) -> Iterator[Report | MediaEntry]:
    """Yield the results and media of a trial that count, as a backend got them while it ran.

    Args:
        trial: The trial.
        problems: Gets a sentence for each medium that cannot be read.
    """
    files = trial.files
    lines = [line for line in (*files.lines, *files.report_lines) if not line.get("rolled_back")]
    lines.sort(key=lambda line: whole_number(line.get("training_iteration")))
    row, config, at = 0, "", trial.info.time

    def media(some: Sequence[Line]) -> Iterator[MediaEntry]:
        for number, line in enumerate(some, row + 1):
            try:
                yield entry_of_line(line, files.read_media, at, number)
            except Exception as error:  # of one file: it is gone, or broken
                problems.append(f"{trial.info.name}, {line['path']}: {error_text(error)}")

    for result in map(json_object, trial.results):
        row, at = row + 1, result_time(result) or trial.info.time
        iteration = whole_number(result.get("training_iteration"))
        before, config = config, without_address(shown(result.get("config")))
        yield Report(
            result_step(result),
            iteration,
            {**without_lists(result), "config": plain_config(result.get("config") or {}, trial.chosen)},
            time=at,
            changed=functools.partial(bool, before and config != before),
            row=row,
        )
        count = sum(whole_number(line.get("training_iteration")) <= iteration for line in lines)
        yield from media(lines[:count])
        row, lines = row + count, lines[count:]
    yield from media(lines)


@contextlib.contextmanager
def _problem(what: str, exported: Exported) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        exported.problems.append(f"{what}: {error_text(error)}")


def _call(backend: Backend, call: Callable[[], None]) -> None:
    """Make a call, again while the tracker is away."""
    _until_it_works(call, backend.is_away)


def _until_it_works(call: Callable[[], None], will_pass: Callable[[Exception], bool]) -> None:
    """Make a call, again while its error is one that will pass, for a minute."""
    started, pauses = time.monotonic(), iter(_PAUSES)
    while True:
        try:
            return call()
        except Exception as error:
            if not will_pass(error) or time.monotonic() - started > _PATIENCE:
                raise
            logger.info("tune_media: trying again after %s", error_text(error))
            time.sleep(next(pauses, _PAUSES[-1]))
