"""After a restore: the trials that had ended before, whose files a killed driver did not list."""

from __future__ import annotations

import logging
import posixpath
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs

from tune_media.storage.filesystem import folders_in
from tune_media.storage.recovery import heal

logger = logging.getLogger("tune_media")

_AT_ONCE = 16  # trials: each takes a few requests, which on an object store are mostly waiting


class EndedTrials:
    """The trials of an experiment that no store of this driver writes to; the storage's thread calls all methods.

    Tune does not start the finished trials of a restored experiment, so nobody else opens their folders.

    Args:
        filesystem: The filesystem of the results.
        experiment: The experiment's folder on it.
        in_use: Returns the folders of the trials that this driver writes to.

    Example:
        >>> trials = EndedTrials(pyarrow.fs.LocalFileSystem(), "/no/such/experiment", set)
        >>> trials.heal_some()
        False
    """

    def __init__(
        self, filesystem: pyarrow.fs.FileSystem, experiment: str, in_use: Callable[[], Collection[str]]
    ) -> None:
        self._filesystem = filesystem
        self._experiment = experiment
        self._in_use = in_use
        self._folders: list[str] | None = None
        self._lines = self._trials = 0

    def heal_some(self) -> bool:
        """List the unlisted files of some trials; return whether trials are left for the next call.

        A trial that fails is tried again after all others.

        Raises:
            OSError: None of these trials could be read: the storage does not answer, or no others are left.
        """
        if self._folders is None:
            self._folders = folders_in(self._filesystem, self._experiment)
        some, in_use = self._folders[:_AT_ONCE], {_name_of(path) for path in self._in_use()}
        del self._folders[:_AT_ONCE]
        some = [folder for folder in some if _name_of(folder) not in in_use]
        if some:
            with ThreadPoolExecutor(len(some), "tune_media heal") as pool:
                found = list(pool.map(self._try_to_heal, some))
            errors = {folder: error for folder, error in zip(some, found, strict=True) if isinstance(error, Exception)}
            self._folders += errors
            if len(errors) == len(some):
                raise errors[some[0]]
            added = [lines for lines in found if isinstance(lines, int)]
            self._lines += sum(added)
            self._trials += sum(map(bool, added))
        if not self._folders and self._lines:
            logger.info(
                "tune_media: the driver of an earlier run was killed before it could list all files. %d of them, of %d "
                "trial(s) in %r that do not run, are now in the index.jsonl of their trials.",
                self._lines,
                self._trials,
                self._experiment,
            )
        return bool(self._folders)

    def _try_to_heal(self, folder: str) -> int | Exception:
        try:
            return heal(self._filesystem, folder)
        except Exception as error:
            return error


def heal_experiment(filesystem: pyarrow.fs.FileSystem, experiment: str, seconds: float) -> None:
    """List the unlisted files of all trials of an experiment in which no trial runs.

    Args:
        filesystem: The filesystem of the results.
        experiment: The experiment's folder on it.
        seconds: The time it may take; the rest is listed when the experiment is restored again.

    Raises:
        OSError: The storage does not answer.
    """
    trials, until = EndedTrials(filesystem, experiment, list), time.monotonic() + seconds
    while trials.heal_some() and time.monotonic() < until:
        pass


def _name_of(folder: str) -> str:
    return posixpath.basename(folder.rstrip("/"))
