"""What became of each trial, in Tune's words, and why it failed."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tune_media.experiment.state import ExperimentState, Snapshots
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.filesystem import read_if_there
from tune_media.values.secrets import redacted

FAILED = "error"
_ERRORS = "error.txt"  # Tune's, in the folder of a trial that failed: the traceback of each failure
_MAX_ERROR = 400
_MAX_TRACEBACKS = 20_000
_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # as Ray writes them for a terminal


@dataclass(frozen=True)
class TrialStatus:
    """What became of a trial.

    Attributes:
        word: ``pending``, ``running``, ``paused``, ``terminated`` or ``error``, as Tune's last snapshot has it; empty
            if no snapshot knows the trial.
        error: The last line of its last traceback if it failed, without keys and passwords.

    >>> TrialStatus("error", "ValueError: no").word == FAILED
    True
    """

    word: str = ""
    error: str = ""


class Statuses:
    """Reads the status of trials; a snapshot is read again only if it has changed, an error once.

    Args:
        snapshots: Holds the snapshots that were read before.

    >>> Statuses(Snapshots()).of([])
    []
    """

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._errors: dict[str, str] = {}

    def of(self, trials: Sequence[TrialFiles]) -> list[TrialStatus]:
        """Return the status of each trial; an experiment that cannot be read has trials without status."""
        states: dict[tuple[int, str], ExperimentState] = {}
        found = []
        for trial in trials:
            place = id(trial.filesystem), trial.experiment
            if place not in states:
                states[place] = self._snapshots.known(trial.filesystem, trial.experiment)
            own = states[place].find(trial.trial_ids, trial.path)
            word = own.status.lower() if own else ""
            found.append(TrialStatus(word, self._error(trial) if word == FAILED else ""))
        return found

    def _error(self, trial: TrialFiles) -> str:
        if trial.path not in self._errors:
            with contextlib.suppress(OSError):
                self._errors[trial.path] = last_line(_content(trial))
        return self._errors.get(trial.path, "")


def tracebacks(trial: TrialFiles) -> str:
    """Return the tracebacks of a trial's failures, the end of them if they are long, without keys and passwords.

    It is empty if the trial did not fail, or if they cannot be read.
    """
    with contextlib.suppress(OSError):
        text = _COLOR.sub("", _content(trial).decode("utf-8", "replace")).strip()
        return redacted(text)[-_MAX_TRACEBACKS:]
    return ""


def _content(trial: TrialFiles) -> bytes:
    return read_if_there(trial.filesystem, posixpath.join(trial.path, _ERRORS)) or b""


def last_line(traceback: bytes) -> str:
    r"""Return the line of a traceback that names the exception.

    >>> last_line(b"Failure # 1\nTraceback ...\nValueError: no\n\n")
    'ValueError: no'
    """
    lines = traceback.decode("utf-8", "replace").split("\n")
    told = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return redacted(told)[:_MAX_ERROR]
