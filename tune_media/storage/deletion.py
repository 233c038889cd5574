"""Files that retention deletes: the index lists them as deleted first, so that no reader misses a listed file."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tune_media.storage.entry import DELETED
from tune_media.storage.index import Index
from tune_media.storage.location import TrialLocation
from tune_media.storage.own_files import delete_own, is_deletable
from tune_media.storage.retention import StoredFile

logger = logging.getLogger("tune_media")


class Deletions:
    """The files of a trial that wait to be deleted; the storage's thread calls all methods.

    If the driver is killed after the index was copied and before the files are deleted, the next start deletes them.

    Args:
        location: Where the trial's files are.
        index: The trial's index.
    """

    def __init__(self, location: TrialLocation, index: Index) -> None:
        self._location = location
        self._index = index
        self._paths: dict[str, None] = {}  # in order

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, file: StoredFile) -> None:
        """Have a file deleted with the next copy of the index, unless it is none of ours: then say so."""
        if is_deletable(self._location.filesystem, self._location.path, file.path):
            self._paths[file.path] = None
        else:
            logger.warning(
                "tune_media: the index of %r names %r, which retention does not delete: tune_media gives no file such "
                "a name, or a link leads there.",
                self._location.path,
                file.path,
            )

    def cancel(self, path: str) -> None:
        """Keep a file after all: it has just been stored again."""
        self._paths.pop(path, None)

    def carry_out(self, copy: Callable[[], None]) -> None:
        """List the files as deleted, copy the index to the storage, and delete the files.

        Args:
            copy: Copies the index to the storage.

        Raises:
            OSError: The storage does not answer; the files that are still there are deleted by the next call.
        """
        if self._paths:
            self._index.amend(self._paths, {"status": DELETED})
        copy()
        errors = []
        for path in list(self._paths):
            try:
                delete_own(self._location.filesystem, self._location.path, path)
                del self._paths[path]
            except OSError as error:
                errors.append(error)
        if errors:
            raise errors[0]
