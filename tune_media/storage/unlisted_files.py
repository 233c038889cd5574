"""The files of a trial that starts again which its index does not list."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tune_media.storage.episode_files import report_step
from tune_media.storage.found_facts import ResultMarks
from tune_media.storage.index_lines import Line
from tune_media.storage.location import TrialLocation
from tune_media.storage.recovery import delete_leftovers, find_unlisted, list_files, marks_of_results, unlisted_of
from tune_media.storage.registry import Registry

_MAX_FAILURES = 5


class UnlistedFiles:
    """Finds the files that a killed driver did not list, and deletes those that it did not finish.

    Args:
        location: Where the trial's files are.
        registry: Keeps the names of the reports that are there, listed or not.
        report: Called with the error if the search is given up.

    Example:
        >>> import pyarrow.fs
        >>> from pathlib import Path
        >>> from tune_media.storage.rollback import Rollbacks
        >>> location = TrialLocation(pyarrow.fs.LocalFileSystem(), "/no/such/trial", Path("/no/such"), "trial")
        >>> UnlistedFiles(location, Registry("trial", Rollbacks()), print).find([])[0]
        []
    """

    def __init__(self, location: TrialLocation, registry: Registry, report: Callable[[Exception], None]) -> None:
        self._location, self._registry, self._report = location, registry, report
        self._failures = 0

    def find(self, lines: Collection[Line]) -> tuple[list[Line], ResultMarks]:
        """Return the lines of these files, and the marks that a killed driver could not make.

        If the files can be listed, but one of them cannot be read or deleted at any try, there are no lines.

        Args:
            lines: The valid lines of the trial's index.

        Raises:
            OSError: The storage does not answer; call it again.
        """
        filesystem, folder = self._location.filesystem, self._location.path
        files = list_files(filesystem, folder)
        self._registry.reserve(path for path in files if report_step(path) is not None)
        try:
            delete_leftovers(filesystem, folder, files, lines)
            if unlisted_of(files, lines):
                marks = marks_of_results(filesystem, folder)
                trial_id = self._location.trial_id
                return find_unlisted(filesystem, folder, lines, files, trial_id=trial_id, marks=marks), marks
        except Exception as error:
            self._failures += 1
            if self._failures < _MAX_FAILURES:
                raise
            self._report(error)
        return [], ResultMarks(b"")
