"""Requests to a trial's storage. On a remote one many are under way at a time, since each takes long."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow.fs

from tune_media.storage.deletion import Deletions
from tune_media.storage.entry import PendingWrite
from tune_media.storage.filesystem import is_local, write_atomically, write_once
from tune_media.storage.index import Index
from tune_media.storage.location import TrialLocation
from tune_media.storage.registry import Registry

Write = Callable[[pyarrow.fs.FileSystem, str, bytes], None]
"""Writes a file: its filesystem, path and content."""


class Uploads:
    """Writes the files of one trial's media, and copies its index.

    The storage's thread calls all methods; its helpers call ``write_early`` and ``copy_index_early``, too.

    Attributes:
        is_remote: Whether the storage is not this machine's own disk.
        is_copying: Whether another thread copies the index now.
        may_go_ahead: Whether files may be written before their turn.

    Args:
        location: Where the trial's files are.
        registry: The media that are known.
        index: The trial's index.
        deletions: The files that wait to be deleted.
        beside: Has a request to a remote storage made by another thread, or at once if there is none.
        report: Called with the error if the index cannot be copied.
    """

    def __init__(
        self,
        location: TrialLocation,
        registry: Registry,
        index: Index,
        deletions: Deletions,
        beside: Callable[[Callable[[], None]], None],
        report: Callable[[Exception], None],
    ) -> None:
        self.is_remote = not is_local(location.filesystem)
        self.is_copying = self.may_go_ahead = False
        self._location, self._registry, self._index, self._deletions = location, registry, index, deletions
        self._beside, self._report = beside, report
        self._beside_trial: set[str] = set()  # the files that were written there

    def write(self, package: PendingWrite, files: Mapping[str, bytes]) -> None:
        """Write files, unless they are on the storage already.

        Raises:
            OSError: The storage does not answer; or another error of its filesystem.
        """
        is_missing = self.is_remote and self._is_new(package)  # on the storage: that costs no request
        write = write_atomically if package.entries[0].is_episodes or is_missing else write_once
        if not package.is_on_storage:
            self._write_all(files, write)
        package.is_on_storage = True

    def write_early(self, package: PendingWrite) -> None:
        """Write the files of new media to a remote storage, before ``TrialStore.write`` lists them.

        Raises:
            NotMadeError: A file cannot be made.
            OSError: The storage does not answer, or the index lines of earlier runs have not been read.
        """
        if not self.may_go_ahead:
            raise OSError("the index that is on the storage has not been read yet")
        if self._is_new(package):
            self._write_all(package.files(), write_atomically)
            package.is_on_storage = True

    def _write_all(self, files: Mapping[str, bytes], write: Write) -> None:
        """Write files; those beside the trial's folder, which come again with each report, once."""
        for name, content in files.items():
            if name not in self._beside_trial:
                write(self._location.filesystem, self._location.on_storage(name), content)
            if name.startswith("../"):
                self._beside_trial.add(name)

    @property
    def index_is_late(self) -> bool:
        """Whether the storage's copy of the index is out of date and may be replaced."""
        is_stale = self._index.is_stale or bool(self._deletions)
        return is_stale and self._index.may_copy and not self.is_copying

    def copy_index(self) -> None:
        """Bring the storage's copy of the index up to date, on a remote one while other media are written.

        Then delete the files that it lists as deleted.

        Raises:
            OSError: The storage does not answer.
        """
        if not self.is_remote or self._deletions:
            self._deletions.carry_out(self._index.copy)
        elif not self.is_copying:
            self.is_copying = True
            self._beside(self._try_to_copy)

    def copy_index_early(self) -> None:
        """Copy the index of a trial that has ended, unless files wait to be deleted; ``TrialStore.finish`` does both.

        Raises:
            OSError: The storage does not answer.
        """
        if self._index.is_stale and not self._deletions:
            self._index.copy()

    def _try_to_copy(self) -> None:
        try:
            self._index.copy()
        except Exception as error:  # it is tried again after the next medium, and at the trial's end
            self._report(error)
        finally:
            self.is_copying = False

    def _is_new(self, package: PendingWrite) -> bool:
        """Return whether no file of these names can be on the storage, nor wait there to be deleted."""
        return not any(entry.shares_file or self._registry.is_of_earlier_run(entry) for entry in package.entries)
