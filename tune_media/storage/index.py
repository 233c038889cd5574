"""The index of a trial that runs: a log, appended on the driver and copied to the trial's storage.

The driver's copy is in the folder that Tune syncs (and tells people to point TensorBoard at); it is appended at once.
The storage's copy is replaced as a whole, so that nobody sees half of it; ``CopyPause`` says how often.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable

import pyarrow.fs

from tune_media.storage.copy_pause import CopyPause
from tune_media.storage.filesystem import append_whole, is_local, read_if_there, write_atomically
from tune_media.storage.index_lines import INDEX_PATH, Key, Line, changed_line
from tune_media.storage.index_table import IndexTable
from tune_media.storage.location import TrialLocation
from tune_media.values.strict_json import json_bytes


class Index:
    """The index of one trial.

    The last line of each key is held in memory, so that a change costs one more line and no reading. The storage gets
    these lines only; the driver's copy has the superseded ones, too, until ``close`` rewrites it. Until ``load`` has
    read the lines of earlier runs, new lines are held in memory, so that no sync replaces a long index by a short one.

    The storage's thread calls all methods; Tune's loop calls ``append``, ``is_stale`` and ``may_copy``, a helper of the
    storage ``copy``.

    Args:
        location: Where the trial's files are.
        report: Called with the error if the driver's copy cannot be written; the lines are held, and written with the
            next.
    """

    def __init__(self, location: TrialLocation, report: Callable[[Exception], None] = lambda error: None) -> None:
        self._report = report
        self._filesystem = location.filesystem
        self._local = location.local_path / INDEX_PATH
        self._remote = location.on_storage(INDEX_PATH)
        self._pause = CopyPause(is_local=is_local(location.filesystem))
        self._table = IndexTable()
        self._unwritten = b""  # the lines that the driver's copy lacks
        self._must_rewrite = False  # the driver's copy has to be written anew
        self._is_stale = self._is_loaded = False
        self._lock, self._copying = threading.Lock(), threading.Lock()

    def load(self) -> list[Line]:
        """Read the lines of earlier runs, on the storage and on the driver, and continue from there.

        Raises:
            OSError: The storage does not answer.
        """
        remote = read_if_there(self._filesystem, self._remote) or b""
        with self._lock:
            here, there = IndexTable(), IndexTable()
            local = self._local.read_bytes() if self._local.exists() else b""
            here.add_all(local)
            there.add_all(remote)
            self._must_rewrite = not here.covers(there) or (bool(local) and not local.endswith(b"\n"))
            there.add_all(here.content())  # the driver's copy is never older
            there.superseded = here.superseded
            there.add_all(self._unwritten)
            self._table = there
            self._is_stale = there.content() != remote
            self._is_loaded = True
            self._write_or_report()
            return self._table.lines()

    def go_on_without(self) -> None:
        """Write the driver's copy though ``load`` has not succeeded, because no sync will come any more."""
        with self._lock, contextlib.suppress(OSError):
            if not self._is_loaded:
                self._write()

    @property
    def is_stale(self) -> bool:
        """Whether the storage's copy is out of date."""
        return self._is_stale

    @property
    def may_copy(self) -> bool:
        """Whether the pause after the last copy to the storage is over."""
        return self._pause.is_over(self._table.nbytes)

    @property
    def is_held(self) -> bool:
        """Whether the driver's copy lacks lines that the storage's has: a sync would remove them there."""
        return bool(self._unwritten) or self._must_rewrite

    def lines(self) -> list[Line]:
        """Return the valid line of each key."""
        with self._lock:
            return self._table.lines()

    def append(self, line: Line) -> None:
        """Add a line; this never raises."""
        with self._lock:
            self._append(json_bytes(line), line)
            if self._is_loaded:
                self._write_or_report()

    def add_recorded(self, nbytes: int) -> None:
        """Note that media of so many bytes have been recorded or deleted; it makes the next copy come sooner."""
        self._pause.add_recorded(nbytes)

    def amend(self, paths: Iterable[str], changes: Line) -> int:
        """Change all lines that name one of these files, at the cost of one more line for each.

        Args:
            paths: The files, relative to the trial's folder.
            changes: The new values of fields; None removes a field.

        Returns:
            How many lines were changed.

        Raises:
            OSError: The lines of earlier runs have not been read.
        """
        with self._lock:
            keys = [key for path in paths for key in self._table.keys_of(path)]
            return self._amend(keys, lambda line: changes)

    def amend_all(self, change: Callable[[Line], Line | None]) -> int:
        """Change lines, at the cost of one more line for each; this reads them all.

        Args:
            change: Returns a line's changes as ``amend`` takes them, or None if it stays as it is.

        Returns:
            How many lines were changed.

        Raises:
            OSError: The lines of earlier runs have not been read.
        """
        with self._lock:
            return self._amend(self._table.keys(), change)

    def copy(self) -> None:
        """Bring the storage's copy up to date.

        Raises:
            OSError: The storage does not answer.
        """
        with self._copying:
            with self._lock:
                if not self._is_loaded or not (self._is_stale or self.is_held):
                    return
                with contextlib.suppress(
                    OSError
                ):  # it was reported before, and the storage gets the lines all the same
                    self._write()
                content = self._table.content()
                self._is_stale = False
            try:
                write_atomically(self._filesystem, self._remote, content)
            except BaseException:
                self._is_stale = True
                raise
            self._pause.begin(len(content))

    def close(self) -> None:
        """Rewrite the driver's copy with one line a key, and bring the storage's copy up to date: the trial has ended.

        Raises:
            OSError: The storage does not answer.
        """
        with self._lock:
            if self._is_loaded and self._table.superseded:
                self._must_rewrite = True
                self._write_or_report()
        self.copy()

    def _amend(self, keys: Iterable[Key], change: Callable[[Line], Line | None]) -> int:
        if not self._is_loaded:
            raise OSError("the index that is on the storage has not been read yet")
        changed = 0
        for key in keys:
            line = self._table[key]
            changes = change(line)
            if changes is None or all(line.get(name) == value for name, value in changes.items()):
                continue
            raw = changed_line(line, changes)
            self._append(raw, json.loads(raw))
            changed += 1
        if changed:
            self._write_or_report()
        return changed

    def _append(self, raw: bytes, line: Line) -> None:
        self._table.add(raw, line)
        self._unwritten += raw + b"\n"
        self._is_stale = True

    def _write_or_report(self) -> None:
        try:
            self._write()
        except OSError as error:
            self._report(error)

    def _write(self) -> None:
        """Write the lines that the driver's copy lacks.

        Raises:
            OSError: They cannot be written; they are kept.
        """
        if not self.is_held:
            return
        self._local.parent.mkdir(parents=True, exist_ok=True)
        if self._must_rewrite:
            write_atomically(pyarrow.fs.LocalFileSystem(), str(self._local), self._table.content())
            self._must_rewrite, self._table.superseded = False, 0
        else:
            append_whole(self._local, self._unwritten)
        self._unwritten = b""
