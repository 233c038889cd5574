"""The media of one trial on its storage: each is written once, listed, and deleted by the rules.

Media are written straight to the trial's place on its storage (any pyarrow filesystem), not into the folder that Tune
uploads again at every sync: each byte travels once. The index is text and small, and is in both.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tune_media import Artifact
    >>> folder = Path(tempfile.mkdtemp())
    >>> location = TrialLocation(pyarrow.fs.LocalFileSystem(), str(folder / "results"), folder / "driver", "trial")
    >>> store = TrialStore(location)
    >>> store.load()
    >>> path, entry = store.registry.register(Artifact(b"x", name="x.bin"), "train", "weights", 7, 3)
    >>> store.write(PendingWrite("trial", [entry]))
    1
    >>> store.finish()
    >>> (folder / "results" / path).read_bytes()
    b'x'
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable

import pyarrow.fs

from tune_media.storage.deletion import Deletions
from tune_media.storage.entry import FAILED, KEPT_ON_DRIVER, STORED, MediaEntry, NotMadeError, PendingWrite, line_of
from tune_media.storage.filesystem import write_once
from tune_media.storage.index import Index
from tune_media.storage.index_lines import Line
from tune_media.storage.location import TrialLocation
from tune_media.storage.registry import Registry
from tune_media.storage.retention import StoredFile, TrialFiles
from tune_media.storage.rollback import Rollbacks
from tune_media.storage.unlisted_files import UnlistedFiles
from tune_media.storage.uploads import Uploads
from tune_media.values.options import Retention
from tune_media.values.secrets import error_text


class TrialStore:
    """Writes the files and the index of one trial.

    The storage's thread calls all methods, again if one raises an error of the filesystem; Tune's loop calls
    ``give_up`` and uses ``registry`` and ``rollbacks``.

    Attributes:
        location: Where the trial's files are.
        registry: The media that are known.
        rollbacks: The lives of the trial.
        files: The files that retention chooses from; empty if all are kept.
        uploads: Its requests to the storage.
        is_over: Whether the trial has ended.

    Args:
        location: Where the trial's files are.
        retention: Which media are kept; None: all.
        report: Called with the error if the driver's folder cannot be written.
        beside: Has a request to a remote storage made by another thread.
    """

    def __init__(
        self,
        location: TrialLocation,
        retention: Retention | None = None,
        report: Callable[[Exception], None] = lambda error: None,
        beside: Callable[[Callable[[], None]], None] = lambda work: work(),
    ) -> None:
        self.location = location
        self.rollbacks = Rollbacks()
        self.registry = Registry(location.trial_id, self.rollbacks)
        self.files = TrialFiles(retention, location.trial_id)
        self.is_over, self._report = False, report
        self._loading = threading.Lock()
        self._unlisted = UnlistedFiles(location, self.registry, report)
        self._index = Index(location, report)
        self._deletions = Deletions(location, self._index)
        self.uploads = Uploads(location, self.registry, self._index, self._deletions, beside, report)

    def load(self) -> None:
        """Read the index lines of earlier runs; list the files that they wrote and did not list.

        Raises:
            OSError: The storage does not answer; the next call tries it again.
        """
        with self._loading:
            if self.registry.is_complete:
                return
            lines = self._index.load()
            self.registry.load(lines)
            self.files.add_lines(lines)
            self._recover(lines)
            self.registry.complete()
            self.uploads.may_go_ahead = True  # not before: recovery would list the files as those of a killed driver
        try:
            self.location.write_pointer()
        except Exception as error:
            self._report(error)

    def go_on_without(self, error: Exception) -> None:
        """List media in the driver's folder only, because the index lines of earlier runs cannot be read."""
        self._index.go_on_without()

    def keep(self, retention: Retention | None) -> None:
        """From now on keep these media; called if the option is given after ``load``."""
        self.files = TrialFiles(retention, self.location.trial_id)
        self.files.add_lines(self._index.lines())

    def mark_rolled_back(self) -> None:
        """Mark the lines of media that were recorded before the trial went back, at or after that iteration."""
        self.rollbacks.take_revived()
        self._index.amend_all(self._change_of)

    def mark_revived(self) -> None:
        """Remove the mark from rolled-back media that the trial has recorded again."""
        for path in filter(None, map(self.registry.path_of, self.rollbacks.take_revived())):
            self._index.amend([path], {"rolled_back": None})
            self.files.mark(path, rolled_back=False)

    def write(self, package: PendingWrite) -> int:
        """Write files, unless they are there, and list them.

        Returns:
            The bytes that were written.

        Raises:
            NotMadeError: A file cannot be made; it is listed as failed.
            OSError: The storage does not answer; or another error of its filesystem.
        """
        try:
            files = package.files()
        except NotMadeError as error:
            for entry in package.entries:
                self.give_up(entry, FAILED, str(error))
            raise
        is_unsure = any(not entry.is_sure for entry in package.entries)
        if is_unsure and all(self.registry.is_from_earlier_run(entry) for entry in package.entries):
            for entry in package.entries:
                entry.status = STORED
            return 0
        with self._loading:  # recovery would list the files as those of a killed driver
            self.uploads.write(package, files)
            size = self.list_written(package)
        if self.uploads.index_is_late:
            self.uploads.copy_index()
        return size

    def list_written(self, package: PendingWrite) -> int:
        """List files that are on the storage, without a request to it; return their bytes."""
        size = sum(map(len, package.files().values()))
        self._list(package, STORED)
        self._index.add_recorded(size)
        return size

    def keep_here(self, package: PendingWrite, reason: str) -> None:
        """Write files that the storage does not take into the driver's folder, and list that.

        Raises:
            OSError: The driver's folder does not take them either; that is listed.
        """
        try:
            for name, content in package.files().items():
                write_once(pyarrow.fs.LocalFileSystem(), str(self.location.local_path / name), content)
        except Exception as error:
            for entry in package.entries:
                self.give_up(entry, FAILED, f"{reason}; and in the driver's folder: {error_text(error)}")
            raise
        self._list(package, FAILED, f"{KEPT_ON_DRIVER}: {reason}")

    def give_up(self, entry: MediaEntry, status: str, reason: str) -> None:
        """List an entry that has no file, and why; if the medium comes again, it is tried again."""
        entry.status = status
        self.registry.forget(entry)
        self._index.append(self._line(entry, {"note": reason[:500]}))

    def delete(self, files: Iterable[StoredFile]) -> None:
        """Have files deleted with the next copy of the index, which lists them as deleted; this makes no request."""
        for file in files:
            self.files.discard(file.path)
            self._deletions.add(file)
            self._index.add_recorded(file.nbytes)

    @property
    def index_is_held(self) -> bool:
        """Whether the driver's folder has not taken all of the index."""
        return self._index.is_held

    def finish(self) -> None:
        """Rewrite the index with one line a key and copy it to the storage, because nothing more is expected.

        Raises:
            OSError: The storage does not answer.
        """
        self._deletions.carry_out(self._index.close)

    def _recover(self, lines: list[Line]) -> None:
        """List the files that the index does not list, and mark the lines that a killed driver could not mark."""
        found, marks = self._unlisted.find(lines)
        for line in found:
            self._index.append(line)
            self.registry.know(line)
        self.files.add_lines(found)
        if found:
            self._index.amend_all(marks.change_of)

    def _change_of(self, line: Line) -> Line | None:
        if not self.registry.owns(line):
            return None
        changes = self.rollbacks.change_of(line)
        if changes is not None:
            self.files.mark(line["path"], rolled_back=bool(changes["rolled_back"]))
        return changes

    def _list(self, package: PendingWrite, status: str, reason: str | None = None) -> None:
        content = package.files()[package.path]
        size, digest = len(content), hashlib.sha256(content).hexdigest()
        for entry in package.entries:
            if entry.status is not None:  # it was listed before the storage went away
                continue
            medium = entry.medium
            note = "; ".join(text for text in (medium.note, package.problems, reason) if text)[:500] or None
            facts = {**medium.facts(), "status": status, "bytes": size, "sha256": digest, "note": note}
            line = self._line(entry, facts)
            self._index.append(line)
            entry.status = status
            self.registry.know(line)
            self.files.add_lines([line])
            self._deletions.cancel(entry.path)  # it waited to be deleted under another key

    def _line(self, entry: MediaEntry, facts: Line) -> Line:
        undone = self.rollbacks.is_undone(entry.life, entry.training_iteration, entry.step)
        return line_of(entry, self.location.trial_id, {**facts, "rolled_back": undone or None})
