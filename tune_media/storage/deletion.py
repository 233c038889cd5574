"""Files that retention deletes: the index lists them as deleted first, so that no reader misses a listed file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tune_media.storage.entry import DELETED
from tune_media.storage.index import Index
from tune_media.storage.location import TrialLocation
from tune_media.storage.retention import StoredFile


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
        """Have a file deleted with the next copy of the index."""
        self._paths[file.path] = None

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
                with contextlib.suppress(FileNotFoundError):
                    self._location.filesystem.delete_file(self._location.on_storage(path))
                del self._paths[path]
            except OSError as error:
                errors.append(error)
        if errors:
            raise errors[0]
