"""The outbox: everything that Tune reports and that is still to be delivered, in order, on the driver's own disk.

Tune's loop appends rows; each reader has a cursor, and a row goes away when all cursors have passed it. Nothing else
holds what is still to do, so that a killed driver loses nothing that Tune's loop had appended.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import logging
import os
import re
import shutil
import sqlite3
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tune_media.callbacks.rows import AnyRow, EndRow, EpisodesRow, MediumRow, StartRow, read_media_row, read_row
from tune_media.storage.entry import MediaEntry
from tune_media.storage.filesystem import write_new
from tune_media.values.plain import pack, unpack
from tune_media.values.problems import remedy
from tune_media.values.secrets import error_text

try:
    import fcntl
except ImportError as error:
    raise ImportError("Logger callbacks need Linux or macOS: " + remedy("on Windows, use WSL")) from error

logger = logging.getLogger("tune_media")

FOLDER_VARIABLE = "TUNE_MEDIA_OUTBOX"
"""The environment variable that names the folder of all outboxes; it must be on a disk of this machine."""

STORAGE = "storage"  # the name of the first reader
TAPE = "tape"  # the kind of the rows of clips that are still to be rendered

_SMALL_BYTES = 4096  # contents up to this size are in the row itself
_EXPIRES_SECONDS = 7 * 24 * 3600.0
_RESERVE, _SMALL_REMAINDER = 0.07, 64 * 2**20  # of the disk; a nearly full disk still takes so many bytes in all
_BUSY_SECONDS = 2.0  # how long a write waits for another process that has the database locked, once
_LEAST_BYTES = 2**20  # that the disk must take before anything starts
_TIDY_ROWS = 64  # deleted in one transaction
_NEWEST = 2000  # rows that Tune's loop looks through at each of its snapshots
_MOST_IN_MEMORY = 10_000  # rows in memory
_MOST_INSERTED = 99  # rows in one statement: SQLite takes 999 values
DATA_KINDS = ("result", "media", "episodes")
"""The kinds of rows that may be dropped if there is no room; all others are needed to keep order."""
_LARGE_KINDS = (*DATA_KINDS, TAPE)
_DATA_COST = f"CASE WHEN kind IN {_LARGE_KINDS} THEN length(data) ELSE 0 END"
_COST = f"(ifnull(nbytes, 0) + ifnull(length(content), 0) + {_DATA_COST})"  # how many bytes a row counts for

_NAME = re.compile(r"[0-9a-f]{16}[b-i]?|\d{8}-\d{6}-[0-9a-f]{8}")  # of an outbox's folder; the second is an older form
_SUFFIXES = ("", *"bcdefghi")  # of the outboxes of several drivers of one experiment
_COLUMNS = "seq, trial, kind, data, content, file, nbytes, state, recipe"
_MARKS = "(?,?,?,?,?,?,?,?,?)"
_SAVE_CURSOR = "INSERT INTO cursors (reader, seq) VALUES (?, ?) ON CONFLICT (reader) DO UPDATE SET seq = excluded.seq"
_TRIAL = "SELECT data FROM trials WHERE trial = ?"
_SAVE_TRIAL = "INSERT OR REPLACE INTO trials VALUES (?, ?, ?)"
_TO_BE_MADE, _READY, _PARKED = 0, 1, 2
_FORMAT = 1  # of the tables and of the data in them; it grows with each change that an older reader cannot read
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE rows (
    seq INTEGER PRIMARY KEY, trial TEXT, kind TEXT, data BLOB, content BLOB, file TEXT, nbytes INTEGER,
    state INTEGER, recipe TEXT);
CREATE INDEX recipes_in_use ON rows (recipe) WHERE recipe IS NOT NULL;
CREATE TABLE recipes (hash TEXT PRIMARY KEY, content BLOB);
CREATE TABLE cursors (reader TEXT PRIMARY KEY, seq INTEGER);
CREATE TABLE trials (trial TEXT PRIMARY KEY, data BLOB, has_ended INTEGER);
"""


class OutboxFullError(OSError):
    """The driver's disk takes no more."""


class UnreadableOutboxError(OSError):
    """An outbox is damaged, or of another version of this package."""


class ContentLostError(Exception):
    """A content that waited on the driver's disk is gone."""


Done = TypeVar("Done")


@dataclass(frozen=True)
class NewRow:
    """A row that is to be appended. Tune's loop appends all but the ``media`` and ``end`` that come of tapes.

    ``kind``: ``start`` and ``end`` of a trial; ``result``, its numbers, and ``checkpoint``, which the storage passes;
    ``media``; ``episodes``, the data of a result's episodes; ``tape``, a clip that is still to be rendered; ``back``,
    the trial went back; ``again``, a known medium was recorded again.
    """

    trial: str
    kind: str
    data: bytes = b""  # a row of ``callbacks.rows``, packed; of ``DATA_KINDS``, empty if there was no room for it
    content: bytes | None = None  # a large part, which becomes a file beside the rows
    ready: bool = True  # False if the content is still to be made; see ``Outbox.complete``
    recipe: tuple[str, bytes] | None = field(default=None, repr=False)  # of a tape, by hash: kept once for all tapes
    entry: MediaEntry | None = field(default=None, repr=False)  # whose content is still to be made, if in memory


@dataclass(frozen=True)
class Row:
    """A row of the outbox."""

    seq: int  # its number, which grows over all processes of an experiment, and is never given twice
    trial: str
    kind: str
    data: bytes = field(repr=False)
    small: bytes | None = field(repr=False)  # the content, if it is in the row
    file: Path | None
    nbytes: int
    ready: bool
    recipe: str  # the hash of a tape's recipe; empty for other rows

    def read(self, kind: type[AnyRow]) -> AnyRow:
        """Return its content."""
        return read_row(kind, self.data)

    def media(self) -> MediumRow | EpisodesRow:
        """Return its content, if its kind is ``media``, ``tape`` or ``episodes``."""
        return read_media_row(self.kind, self.data)

    def content(self) -> bytes | None:
        """Return its content, if it has any; raises ContentLostError if it is not whole: after a power cut, say."""
        if self.file is None:
            return self.small
        try:
            content = self.file.read_bytes()
        except FileNotFoundError:
            content = b""
        if len(content) != self.nbytes:
            raise ContentLostError(f"{len(content)} of {self.nbytes} bytes are left in the outbox on the driver's disk")
        return content


class Outbox:
    """The rows of one experiment. Any thread calls all methods.

    One connection is behind one lock, and no transaction takes long: Tune's loop is one of the callers.

    >>> outbox = Outbox.open(Path(tempfile.mkdtemp()), "/results/sweep", "2026-11-26")
    >>> outbox.add_reader("storage")
    >>> last = outbox.append([NewRow("t1", "end", EndRow("finished").packed())])
    >>> [row.read(EndRow) for row in outbox.read(after=0)]
    [EndRow(status='finished')]
    >>> outbox.advance("storage", last)
    >>> outbox.tidy(), list(outbox.read(after=0))
    (1, [])
    >>> outbox.close(remove=True)
    """

    def __init__(self, folder: Path, lock_file: Any) -> None:
        self.folder = folder
        self._lock_file = lock_file
        self._database = _connected(folder)
        self._lock, self._deleting, self._checkpointing = threading.RLock(), threading.Lock(), threading.Lock()
        self._changed, self.version = threading.Condition(), 0  # grows whenever there is something new for readers
        if not self._database.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone():
            self._database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_FORMAT}; COMMIT;")
        (form,) = self._database.execute("PRAGMA user_version").fetchone()
        if form != _FORMAT:
            raise UnreadableOutboxError(
                "it is of another version of tune_media, whose `deliver` or Tuner.restore stores what it holds"
            )
        self.is_adopted = self._database.execute("SELECT 1 FROM facts").fetchone() is not None
        self._cursors: dict[str, int] = dict(self._database.execute("SELECT reader, seq FROM cursors").fetchall())
        last, nbytes = self._database.execute(f"SELECT max(seq), total({_COST}) FROM rows").fetchone()
        self.reached = max(last or 0, *self._cursors.values(), 0)  # the last row of an earlier process
        nbytes += self._database.execute("SELECT total(length(content)) FROM recipes").fetchone()[0]
        # A number is never given twice: all cursors have passed the rows that were deleted.
        self.began = self.last = max(self.reached, int(1000 * time.time()))
        self.nbytes = int(nbytes)  # of contents, recipes, and the data of results and media
        self._in_memory: list[Row] = []  # the newest rows, until the disk takes them
        trials = self._database.execute("SELECT trial, data FROM trials WHERE NOT has_ended").fetchall()
        # those that have not ended, and those that the disk did not take
        self._trials: dict[str, tuple[bytes, int]] = {trial: (data, 0) for trial, data in trials}
        self._unsaved: set[str] = set()
        self._is_held = False  # whether another process has the database locked
        self._skipped: dict[str, list[tuple[int, str, str]]] = {}  # rows that readers do not get
        self._tidied_to = 0
        self._checkpoints = _connected(folder)
        self._is_closed = False

    @classmethod
    def open(cls, root: Path, storage: str, timestamp: str, last: int = 0) -> Outbox:
        """Open an experiment's outbox: that of a process that is gone, or a new one. Raises OSError if none can be.

        ``storage`` is the experiment's folder there; ``timestamp`` Tune's, which a restore keeps; ``last`` the last row
        when Tune took its snapshot. If an outbox ends before it, another machine has gone on with the experiment since:
        its rows are of results that were undone, or were lost with that machine.
        """
        name = hashlib.sha256(f"{storage}\n{timestamp}".encode()).hexdigest()[:16]
        for suffix in _SUFFIXES:
            folder = root / f"{name}{suffix}"
            try:
                outbox = cls.adopt(folder, {"storage": storage, "timestamp": timestamp})
            except UnreadableOutboxError as error:
                logger.warning("tune_media: the outbox in %s stays, and cannot be read: %s", folder, error)
                continue
            if outbox is None:
                logger.warning(
                    "tune_media: another driver of the experiment in %s runs; what it has not delivered stays in %s.",
                    storage,
                    folder,
                )
                continue
            if outbox.is_adopted and outbox.reached < last:
                outbox.close(remove=False)
                logger.warning(
                    "tune_media: another machine went on with the experiment in %s after the outbox in %s was left; "
                    "what that had not delivered stays there, and is removed after a week.",
                    storage,
                    folder,
                )
                continue
            return outbox
        raise OSError(f"{len(_SUFFIXES)} outboxes of the experiment in {storage} are in use, or cannot be read")

    @classmethod
    def adopt(cls, folder: Path, facts: Mapping[str, str] | None = None) -> Outbox | None:
        """Open the outbox in a folder, or a new one, which has these facts; None if another process has it.

        Files that the storage had refused are tried again. Raises UnreadableOutboxError, or another OSError if the disk
        does not take it.
        """
        is_new, lock_file = not folder.exists(), None
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            lock_file = _locked(folder)
            if lock_file is None:
                return None
            outbox = cls(folder, lock_file)
            outbox._begin()
            if facts and not outbox.is_adopted:
                outbox._database.executemany("INSERT INTO facts VALUES (?, ?)", list(facts.items()))
            return outbox
        except (OSError, sqlite3.Error) as error:
            if is_new and lock_file is None:  # another process may have locked it meanwhile
                with contextlib.suppress(OSError):
                    folder.rmdir()
            elif is_new:
                shutil.rmtree(folder, ignore_errors=True)
            if lock_file is not None:
                lock_file.close()
            if isinstance(error, UnreadableOutboxError):
                raise
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                raise UnreadableOutboxError(error_text(error)) from error
            raise _not_opened(folder, error) from error

    def _begin(self) -> None:
        """Delete what a kill left half done, and append the parked rows again."""
        with self._lock:
            named = {name for (name,) in self._database.execute("SELECT file FROM rows WHERE file IS NOT NULL")}
            parked = self._database.execute("SELECT seq FROM rows WHERE state = ? ORDER BY seq", (_PARKED,)).fetchall()
            for (seq,) in parked:
                self.last += 1
                self._database.execute("UPDATE rows SET seq = ?, state = ? WHERE seq = ?", (self.last, _READY, seq))
        self.began = self.last
        for file in self.folder.iterdir():  # contents that were written before a kill, and whose rows were not
            if len(file.name) == 32 and file.name not in named:
                file.unlink(missing_ok=True)

    def raise_to(self, row: int) -> None:
        """Give no later row a number that is not above this one."""
        with self._lock:
            self.last = max(self.last, row)

    @property
    def written(self) -> int:
        """The last number on the disk, of a row or a cursor, by which a restore knows the outbox again."""
        numbers = "SELECT max(seq) AS seq FROM rows UNION ALL SELECT max(seq) FROM cursors"
        return max((last or 0 for (last,) in self._select(numbers)), default=0)

    def park(self, seq: int) -> None:
        """Keep a row, though all readers pass it, until another process opens the outbox."""
        with self._lock:
            self._database.execute("UPDATE rows SET state = ? WHERE seq = ?", (_PARKED, seq))

    @property
    def has_parked(self) -> bool:
        """Whether a row is parked."""
        return bool(self._select("SELECT 1 FROM rows WHERE state = ? LIMIT 1", _PARKED))

    def append(self, rows: Sequence[NewRow], most_bytes: float | None = None) -> int:
        """Append rows, all or none, and return the number of the last one; Tune's loop calls this.

        ``most_bytes`` is how many bytes the outbox may hold. None: the rows must be kept, so if the disk takes nothing,
        they are in memory until it does, with the next rows or when ``tidy`` is called; readers get them all the same.
        Raises OutboxFullError if there is no room.
        """
        nbytes = sum(_cost(row.kind, row.data, row.content) for row in rows)
        try:
            return self._with_room(nbytes, most_bytes, lambda: self._append(rows))
        except OutboxFullError:
            with self._lock:
                if most_bytes is not None or len(self._in_memory) + len(rows) > _MOST_IN_MEMORY:
                    raise
                for row in rows:
                    self.last += 1
                    self._in_memory.append(
                        Row(self.last, row.trial, row.kind, row.data, row.content, None, 0, True, "")
                    )
                last = self.last
            self.wake()
            return last

    def _with_room(self, nbytes: int, most_bytes: float | None, work: Callable[[], Done]) -> Done:
        """Write ``nbytes`` by ``work``; for room, drop the oldest data of slow readers, or raise OutboxFullError."""
        while True:
            reason, cause = self._refusal(nbytes, most_bytes), None
            if not reason:
                try:
                    return work()
                except (OSError, sqlite3.OperationalError) as error:
                    reason, cause = f"{self.folder} does not take it ({error_text(error)})", error
            is_freed = (cause is None or _is_full(cause)) and (self.tidy() or self._skip())
            if not is_freed and (cause or self._refusal(nbytes, most_bytes)):  # else another thread has made room
                raise OutboxFullError(reason) from cause

    def _append(self, rows: Sequence[NewRow]) -> int:
        """Append rows, after those that wait in memory."""
        recipes = dict(row.recipe for row in rows if row.recipe is not None)
        added = 0
        with self._new_files() as files:
            values = [self._values(row, files) for row in rows]
            with self._lock:
                waiting = [
                    (row.seq, row.trial, row.kind, row.data, *self._put_content(row.small, files), _READY, None)
                    for row in self._in_memory
                ]
                numbered = [*waiting, *((seq, *value) for seq, value in enumerate(values, self.last + 1))]
                with self._writing(in_one=not recipes and len(numbered) <= _MOST_INSERTED):
                    for recipe in recipes.items():
                        cursor = self._database.execute("INSERT OR IGNORE INTO recipes VALUES (?, ?)", recipe)
                        added += cursor.rowcount * len(recipe[1])
                    self._insert(numbered)
                self.nbytes += added + sum(_cost(row.kind, row.data, row.content) for row in rows)
                self.nbytes += sum(_cost(row.kind, row.data, row.small) for row in self._in_memory)
                self.last, self._in_memory = self.last + len(rows), []
                last = self.last
        self.wake()
        return last

    def replace_tape(self, seq: int, row: NewRow, most_bytes: float) -> bool:
        """Replace the tape of row ``seq`` by the row of its clip; return False if the tape is gone already.

        One transaction does both, so that a kill yields neither two rows nor none. It raises as ``append`` does.
        """
        return self._with_room(len(row.content or b""), most_bytes, lambda: self._replace_tape(seq, row))

    def _replace_tape(self, seq: int, row: NewRow) -> bool:
        with self._new_files() as files:
            values = self._values(row, files)
            with self._lock:
                last = self.last
                with self._writing(in_one=False):
                    query = f"SELECT file, {_COST}, recipe FROM rows WHERE seq = ? AND kind = ?"
                    tape = self._database.execute(query, (seq, TAPE)).fetchone()
                    if tape is not None:
                        self._database.execute("DELETE FROM rows WHERE seq = ?", (seq,))
                        freed = tape[1] + self._drop_recipe(tape[2])
                        last += 1
                        self._insert([(last, *values)])
                if tape is not None:
                    self.nbytes += _cost(row.kind, row.data, row.content) - freed
                self.last = last
        if tape is None:
            _delete(files)
            return False
        if tape[0]:
            _delete([self.folder / tape[0]])
        self.wake()
        return True

    def recipe(self, hash: str) -> bytes:
        """Return the recipe that tapes name; raises ContentLostError if it is not there."""
        contents = self._select("SELECT content FROM recipes WHERE hash = ?", hash)
        if not contents:
            raise ContentLostError(f"the recipe {hash} is not in the outbox on the driver's disk")
        return bytes(contents[0][0])

    def _drop_recipe(self, hash: str) -> int:
        """Delete a recipe that no row names any more; return how many bytes that frees."""
        unused = self._database.execute(
            "SELECT length(content) FROM recipes WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM rows WHERE recipe = ?)",
            (hash, hash),
        ).fetchone()
        if unused is None:
            return 0
        self._database.execute("DELETE FROM recipes WHERE hash = ?", (hash,))
        return int(unused[0])

    def _values(self, row: NewRow, files: list[Path]) -> tuple[Any, ...]:
        """Return the columns of a new row, with a large content written into a file."""
        small, name, nbytes = self._put_content(row.content, files)
        recipe = row.recipe[0] if row.recipe is not None else None
        state = _READY if row.ready else _TO_BE_MADE
        return row.trial, row.kind, row.data, small, name, nbytes, state, recipe

    def _insert(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows, whose number comes first. Up to ``_MOST_INSERTED`` rows are one statement.

        Python gives the interpreter's lock to another thread at each statement, and may get it back only 5 ms later.
        """
        for first in range(0, len(rows), _MOST_INSERTED):
            part = rows[first : first + _MOST_INSERTED]
            marks = ",".join([_MARKS] * len(part))
            self._database.execute(f"INSERT INTO rows ({_COLUMNS}) VALUES {marks}", list(itertools.chain(*part)))

    def complete(self, seq: int, data: bytes, content: bytes | None, most_bytes: float | None = None) -> None:
        """Give a medium's row that was not ready its data and content; ``most_bytes`` and errors as for ``append``."""
        self._with_room(len(content or b""), most_bytes, lambda: self._complete(seq, data, content))

    def _complete(self, seq: int, data: bytes, content: bytes | None) -> None:
        with self._new_files() as files:
            small, name, nbytes = self._put_content(content, files)
            with self._writing():
                query = f"SELECT file, {_COST} FROM rows WHERE seq = ?"
                (old_file, old_cost) = self._database.execute(query, (seq,)).fetchone()
                self._database.execute(
                    "UPDATE rows SET data = ?, content = ?, file = ?, nbytes = ?, state = ? WHERE seq = ?",
                    (data, small, name, nbytes, _READY, seq),
                )
                self.nbytes += _cost("media", data, content) - old_cost
        if old_file:
            _delete([self.folder / old_file])
        self.wake()

    def read(self, after: int, count: int | None = 64, kinds: Sequence[str] = ()) -> list[Row]:
        """Return the rows that come after a number, at most so many; of some kinds only, if any are given."""
        marks = f"AND kind IN ({','.join('?' * len(kinds))})" if kinds else ""
        query = f"SELECT {_COLUMNS} FROM rows WHERE seq > ? {marks} ORDER BY seq LIMIT ?"
        with self._lock:
            rows = list(map(self._row, self._select(query, after, *kinds, -1 if count is None else count)))
            rows += [row for row in self._in_memory if row.seq > after and (not kinds or row.kind in kinds)]
        return sorted(rows, key=lambda row: row.seq)[:count]

    def count_after(self, after: int) -> list[tuple[str, str, int]]:
        """Return how many rows come after a number, for each trial and kind."""
        query = "SELECT trial, kind, count(*) FROM rows WHERE seq > ? GROUP BY trial, kind"
        with self._lock:
            counts = Counter({(trial, kind): count for trial, kind, count in self._select(query, after)})
            counts.update((row.trial, row.kind) for row in self._in_memory if row.seq > after)
        return [(*key, count) for key, count in counts.items()]

    def trials_behind(self, reader: str, kinds: Sequence[str]) -> list[str]:
        """Return the trials that have rows of some kinds, among the newest, that a reader has not passed."""
        after = max(self.position(reader), self.last - _NEWEST)
        if after >= self.last:
            return []
        marks = ",".join("?" * len(kinds))
        query = f"SELECT DISTINCT trial FROM rows WHERE seq > ? AND kind IN ({marks})"
        with self._lock:
            trials = {trial for (trial,) in self._select(query, after, *kinds)}
            return sorted(trials.union(row.trial for row in self._in_memory if row.seq > after and row.kind in kinds))

    def _select(self, query: str, *values: Any) -> list[Any]:
        """Return what a query finds, or nothing if the outbox is closed: a thread that hung may outlive it."""
        with self._lock:
            return [] if self._is_closed else self._database.execute(query, values).fetchall()

    def _row(self, values: tuple[Any, ...]) -> Row:
        seq, trial, kind, data, small, name, nbytes, state, recipe = values
        file = self.folder / name if name else None
        return Row(seq, trial, kind, data, small, file, nbytes or 0, state != _TO_BE_MADE, recipe or "")

    def add_reader(self, reader: str, after: int | None = None) -> None:
        """Give a reader a cursor after a row, the last one if none is given, unless it has a cursor."""
        with self._lock:
            if reader not in self._cursors:
                self._cursors[reader] = self.last if after is None else after
                self._save(_SAVE_CURSOR, [(reader, self._cursors[reader])])

    def remove_readers_but(self, readers: Iterable[str]) -> dict[str, int]:
        """Remove the cursors of all other readers; return how many rows each had not read."""
        with self._lock:
            others = dict.fromkeys(self._cursors.keys() - set(readers), 0)
            for name in others:
                query = "SELECT count(*) FROM rows WHERE seq > ?"
                (others[name],) = self._database.execute(query, (self._cursors[name],)).fetchone()
                del self._cursors[name]
                self._save("DELETE FROM cursors WHERE reader = ?", [(name,)])
        return others

    def position(self, reader: str) -> int:
        """Return the number of the last row that a reader has passed."""
        return self._cursors.get(reader, self.last)

    def advance(self, reader: str, seq: int) -> None:
        """Move a reader's cursor; it never goes back."""
        with self._lock:
            if not self._is_closed and seq > self._cursors.get(reader, 0):
                self._cursors[reader] = seq
                self._save(_SAVE_CURSOR, [(reader, seq)])

    def take_skipped(self, reader: str) -> list[tuple[int, str, str]]:
        """Return the number, trial and kind of each row over which a reader's cursor was moved, once."""
        with self._lock:
            return self._skipped.pop(reader, [])

    def remember(self, trial: str, start: StartRow | None, *, has_ended: bool = False) -> None:
        """Keep the last start of a trial for the process that adopts the outbox, and whether its end is appended."""
        with self._lock:
            self._trials[trial] = start.packed() if start else pack(None), int(has_ended)
            self._unsaved.add(trial)
            self._save_trials()

    def _save_trials(self) -> None:
        if self._save(_SAVE_TRIAL, [(name, *self._trials[name]) for name in self._unsaved]):
            for name in self._unsaved:
                if self._trials[name][1]:
                    del self._trials[name]
            self._unsaved = set()

    def trial(self, trial: str) -> StartRow | None:
        """Return the last start of a trial, or None."""
        with self._lock:
            rows = [self._trials[trial][:1]] if trial in self._trials else self._select(_TRIAL, trial)
        return read_row(StartRow, rows[0][0]) if rows and unpack(rows[0][0]) else None

    def all_trials(self) -> dict[str, StartRow]:
        """Return the last start of each trial."""
        with self._lock:
            trials = dict(self._select("SELECT trial, data FROM trials"))
            trials |= {trial: data for trial, (data, _) in self._trials.items()}
        return {trial: read_row(StartRow, data) for trial, data in trials.items() if unpack(data)}

    def trials_without_end(self) -> list[str]:
        """Return the ids of the trials whose end has not been appended, or came before all of their clips."""
        with self._lock:
            return [trial for trial, (_, has_ended) in self._trials.items() if not has_ended]

    def end(self, trial: str, status: str, *, is_whole: bool = True) -> None:
        """Append the end of a trial.

        If clips are still to be rendered (not ``is_whole``), the process that adopts the outbox appends another end.
        """
        self.append([NewRow(trial, "end", EndRow(status).packed())])
        self.remember(trial, self.trial(trial), has_ended=is_whole)

    def tidy(self) -> int:
        """Delete a few rows that all readers have passed, but no tapes and no parked rows; return how many."""
        with self._deleting:  # Tune's loop does so, too, if it needs room
            with self._lock:
                passed = min(self._cursors.values(), default=self.last)
                self._in_memory = [row for row in self._in_memory if row.seq > passed]
                if self._unsaved:
                    self._save_trials()
            if self._in_memory:
                with contextlib.suppress(OSError, sqlite3.Error):
                    self._append([])
            with self._lock:
                if self._is_closed or passed <= self._tidied_to:
                    return 0
                passed_rows = self._database.execute(
                    f"SELECT seq, file, {_COST} FROM rows WHERE seq > ? AND seq <= ? AND kind != ? AND state != ? "
                    "ORDER BY seq LIMIT ?",
                    (self._tidied_to, passed, TAPE, _PARKED, _TIDY_ROWS),
                ).fetchall()
            # The files first: on a full disk SQLite cannot write.
            _delete([self.folder / name for _, name, _ in passed_rows if name])
            upto = passed_rows[-1][0] if len(passed_rows) == _TIDY_ROWS else passed
            with self._lock:
                self.nbytes -= sum(cost for _, _, cost in passed_rows)
                with contextlib.suppress(sqlite3.Error), self._writing():
                    if not self._is_closed:
                        query = "DELETE FROM rows WHERE seq <= ? AND kind != ? AND state != ?"
                        self._database.execute(query, (upto, TAPE, _PARKED))
            self._tidied_to = upto
        return len(passed_rows)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database file, over a second connection, so that no thread waits."""
        with self._checkpointing, contextlib.suppress(sqlite3.Error):
            if not self._is_closed:
                self._checkpoints.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def wait(self, version: int, seconds: float) -> None:
        """Wait until something has changed since ``version`` had a value, at most so long."""
        with self._changed:
            if self.version == version and not self._is_closed:
                self._changed.wait(seconds)

    def wake(self) -> None:
        """Wake all waiting threads."""
        with self._changed:
            self.version += 1
            self._changed.notify_all()

    def scratch(self) -> Path:
        """Return a new folder for other files of the process, which goes with the outbox."""
        return Path(tempfile.mkdtemp(prefix="scratch-", dir=self.folder))

    def close(self, *, remove: bool) -> None:
        """Close the database; ``remove`` deletes the folder, too."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed, self._in_memory = True, []
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
        if self._checkpointing.acquire(timeout=_BUSY_SECONDS):  # to close it while it is in use would end the process
            with contextlib.suppress(sqlite3.Error):
                self._checkpoints.close()
            self._checkpointing.release()
        self.wake()
        if remove:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock_file.close()

    @contextlib.contextmanager
    def _new_files(self) -> Iterator[list[Path]]:
        """Yield a list of new files, which are deleted if their rows are not written."""
        files: list[Path] = []
        try:
            yield files
        except BaseException:
            _delete(files)
            raise

    def _put_content(self, content: bytes | None, files: list[Path]) -> tuple[bytes | None, str | None, int]:
        """Write a large content into a file; return the content of the row, the file's name and its size."""
        if content is None or len(content) <= _SMALL_BYTES:
            return content, None, 0
        name = uuid.uuid4().hex
        files.append(self.folder / name)
        write_new(str(files[-1]), content)  # linked into the trial's folder later, so its mode is that of any new file
        return None, name, len(content)

    def _skip(self) -> bool:
        """Move the slowest tracker's cursor over some rows that the storage has passed; return whether there is one."""
        with self._lock:
            stored = self._cursors.get(STORAGE, 0)
            behind = {name: seq for name, seq in self._cursors.items() if name != STORAGE and seq < stored}
            if not behind:
                return False
            slowest = min(behind, key=lambda name: behind[name])
            skipped = self._database.execute(
                "SELECT seq, trial, kind FROM rows WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                (behind[slowest], stored, _TIDY_ROWS),
            ).fetchall()
            self._skipped.setdefault(slowest, []).extend(skipped)
            self._cursors[slowest] = skipped[-1][0] if len(skipped) == _TIDY_ROWS else stored
            self._save(_SAVE_CURSOR, [(slowest, self._cursors[slowest])])
        return True

    def _refusal(self, nbytes: int, most_bytes: float | None) -> str:
        """Return why there is no room for so many bytes; empty if there is."""
        if not nbytes or most_bytes is None:
            return ""
        if self.nbytes + nbytes > most_bytes:
            return f"more than MediaOptions(max_spilled_bytes={most_bytes:g}) would wait in {self.folder}"
        if self.nbytes + nbytes <= _SMALL_REMAINDER:
            return ""
        disk = os.statvfs(self.folder)
        free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        if free - nbytes < _RESERVE * size:
            return f"less than {_RESERVE:.0%} of the disk of {self.folder} is free ({free / 1e9:.1f} GB)"
        return ""

    def _save(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Write down what is in memory, too; return False if the disk does not take it: it has it later."""
        with contextlib.suppress(sqlite3.OperationalError), self._writing():
            self._database.executemany(statement, rows)
            return True
        return False

    @contextlib.contextmanager
    def _writing(self, *, in_one: bool = True) -> Iterator[None]:
        """Hold the lock for a write, in one statement or in a transaction.

        After a write that waited in vain for another process, none waits until one works.
        """
        with self._lock:
            try:
                if not in_one:
                    self._database.execute("BEGIN IMMEDIATE")
                yield
                if not in_one:
                    self._database.execute("COMMIT")
            except BaseException as error:
                if self._database.in_transaction:  # a full disk may have ended it
                    self._database.execute("ROLLBACK")
                code = error.sqlite_errorcode if isinstance(error, sqlite3.OperationalError) else 0
                if code & 0xFF == sqlite3.SQLITE_BUSY:
                    self._is_held = True
                    self._database.execute("PRAGMA busy_timeout = 0")
                raise
            if self._is_held:
                self._is_held = False
                self._database.execute(f"PRAGMA busy_timeout = {1000 * _BUSY_SECONDS:.0f}")


def _connected(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(
        folder / "outbox.sqlite", check_same_thread=False, isolation_level=None, timeout=_BUSY_SECONDS
    )
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "wal_autocheckpoint=0", "secure_delete=OFF"):
        database.execute(f"PRAGMA {pragma}")
    return database


def _is_full(error: Exception) -> bool:
    """Return whether the disk did not take something because it is full."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _not_opened(folder: Path, error: Exception) -> OSError:
    """Return the error that ends a sweep before training: the disk takes no outbox."""
    disk = os.statvfs(folder.parent)
    return OSError(
        f"tune_media cannot open an outbox in {folder.parent} ({error_text(error)}; "
        f"{disk.f_bavail * disk.f_frsize / 1e6:.1f} MB of its disk are free). "
        + remedy(
            f"Make room there, or end what holds it, or set {FOLDER_VARIABLE} to a folder on another disk of this "
            "machine; before a restore, move the first folder's content there."
        )
    )


def _delete(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def no_room(error: Exception) -> str:
    """Return the note of a medium that the driver's disk did not take."""
    return f"no room in the outbox on the driver's disk: {error_text(error)}"


def _cost(kind: str, data: bytes, content: bytes | None) -> int:
    """Return how many bytes a row counts for, as ``_COST`` does."""
    return len(content or b"") + (len(data) if kind in _LARGE_KINDS else 0)


def outbox_root() -> Path:
    """Return the folder of this user's outboxes, made if need be; raises OSError if it is not safely ours."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    user = os.getuid()
    try:
        root = Path(chosen).expanduser() if chosen else Path(tempfile.gettempdir()) / f"tune_media-{user}"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # the second of a ~nobody
        place = f"{FOLDER_VARIABLE}={chosen}" if chosen else f"{tempfile.gettempdir()}/tune_media-{user}"
        told = f"{place} cannot be a folder for outboxes ({getattr(error, 'strerror', None) or error}): "
        raise OSError(told + remedy(f"set {FOLDER_VARIABLE} to a folder on this machine's disk.")) from error
    if not chosen and (root.is_symlink() or root.stat().st_uid != user):  # in a folder that all users share
        raise PermissionError(f"{root} belongs to somebody else; set {FOLDER_VARIABLE} to a folder of your own")
    if root.stat().st_mode & 0o077:
        holds_more = chosen and not all(_NAME.fullmatch(item.name) for item in root.iterdir())
        if holds_more or root.stat().st_uid != user:
            raise PermissionError(
                f"others can read {root}; set {FOLDER_VARIABLE} to a folder for outboxes alone, "
                f"such as {root / 'outbox'}"
            )
        root.chmod(0o700)
    return root


def check_outboxes() -> None:
    """Raise OSError unless an outbox can be opened, and takes a little more."""
    outbox = Outbox.adopt(folder := outbox_root() / uuid.uuid4().hex[:16], {"storage": ""})
    assert outbox is not None, "nobody else knows its name"
    try:
        outbox.append([NewRow("", "media", content=bytes(_LEAST_BYTES))], float("inf"))
    except OSError as error:
        raise _not_opened(folder, error) from error
    finally:
        outbox.close(remove=True)


def outboxes_of(storage: str) -> list[Path]:
    """Return the outboxes of the experiments that were in a folder on the storage; raises OSError."""
    folders = (folder for folder in sorted(outbox_root().iterdir()) if _NAME.fullmatch(folder.name))
    return [folder for folder in folders if _facts_of(folder).get("storage") == storage]


def remove_expired(root: Path) -> None:
    """Remove the outboxes that no process has adopted for a week, and name them."""
    for folder in root.iterdir():
        if not _NAME.fullmatch(folder.name):  # the user's folder may hold other things
            continue
        with contextlib.suppress(OSError):
            newest = max((file.stat().st_mtime for file in folder.iterdir()), default=folder.stat().st_mtime)
            if time.time() - newest < _EXPIRES_SECONDS:
                continue
            lock_file = _locked(folder)
            if lock_file is None:
                continue
            facts = _facts_of(folder)
            shutil.rmtree(folder, ignore_errors=True)
            lock_file.close()
            if storage := facts.get("storage", "an unknown folder"):  # none: of a check that was killed
                logger.warning(
                    "tune_media: what a killed driver had not delivered of the experiment in %s, and no restore has "
                    "adopted for a week, is removed: %s.",
                    storage,
                    folder,
                )


def _facts_of(folder: Path) -> dict[str, str]:
    """Return an outbox's facts without taking it, or none if it cannot be read."""
    place = f"{(folder / 'outbox.sqlite').absolute().as_uri()}?mode=ro"
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(place, uri=True)) as database:
        return dict(database.execute("SELECT name, value FROM facts").fetchall())
    return {}


def _locked(folder: Path) -> Any:
    """Lock an outbox for this process; return the open lock file, or None if another process has it."""
    file = (folder / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    os.register_at_fork(after_in_child=file.close)  # a child that outlives the driver would hold the lock
    return file
