"""The index of a trial that runs: the view of its log that people read, copied to the storage now and then.

An object store can only replace it as a whole; ``CopyPause`` says how often. Nothing is lost if the last copy is old:
the experiment's log has each line before its file is written.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable

import pyarrow.fs

from tune_media.storage.copy_pause import CopyPause
from tune_media.storage.entry import LOST, STORED, UNRENDERED, WAITING
from tune_media.storage.experiment_log import Event, stamp_of
from tune_media.storage.filesystem import is_local, read_if_there, write_atomically
from tune_media.storage.index_lines import INDEX_PATH, INDEX_VERSION, Key, Line, changed_line, is_line, key_of
from tune_media.storage.index_table import IndexTable
from tune_media.storage.location import TrialLocation
from tune_media.storage.passed_over import warn_of_broken_lines
from tune_media.storage.suspects import SETTLED, SUSPECT, changes_by
from tune_media.values.strict_json import json_bytes


class Index:
    """The valid line of each key of one trial. The storage's reader calls all methods.

    Args:
        location: Where the trial's files are.

    Attributes:
        is_stale: Whether the storage's copy lacks lines.
        is_damaged: Whether the storage's copy was empty, or held what is no line, when it was loaded.
    """

    def __init__(self, location: TrialLocation) -> None:
        self._location = location
        self._filesystem, self._path = location.filesystem, location.on_storage(INDEX_PATH)
        self._pause = CopyPause(is_local=is_local(location.filesystem))
        self._table = IndexTable()
        self._backs: list[tuple[tuple[int, int], int]] = []  # stamp and iteration of each time the trial went back
        self._again: dict[str, tuple[int, int]] = {}  # when a medium came again, by its id
        self.is_stale = self.is_damaged = False

    def load(self, events: Iterable[Event]) -> int:
        """Read the index on the storage, and add the events of the log that it does not show yet.

        Returns:
            How many files only the log names.

        Raises:
            OSError: The storage does not answer.
        """
        content = read_if_there(self._filesystem, self._path) or b""
        table = IndexTable()
        table.add_all(content)
        self._table, self.is_damaged = table, bool(table.others) or not table.keys()
        warn_of_broken_lines(self._path, table.others, "an index line")
        new = [event for event in events if "event" in event or (is_line(event) and self._is_new(event))]
        there = self._files_there(event["path"] for event in new if event.get("status") == STORED)
        for event in new:
            if "event" in event:
                self.apply(event)
            elif event["path"] in there or event.get("status") in (*LOST, *UNRENDERED):
                self.add(event)
        self.is_stale = table.content() != content
        return len(there)

    def _is_new(self, line: Line) -> bool:
        """Say whether the index does not show a line of the log.

        The medium may have come again after it was lost, or was waiting to be rendered.
        """
        raw = self._table.get(key_of(line))
        if raw is None:
            return True
        before, now = json.loads(raw).get("status"), line.get("status")
        return (now == STORED and before in (*LOST, *UNRENDERED)) or (before == WAITING and now != WAITING)

    def _files_there(self, paths: Iterable[str]) -> set[str]:
        """Return the files that are on the storage; the log names a file before it is there."""
        wanted = list(dict.fromkeys(paths))
        found = self._filesystem.get_file_info([self._location.on_storage(path) for path in wanted]) if wanted else []
        return {path for path, info in zip(wanted, found, strict=True) if info.type == pyarrow.fs.FileType.File}

    def has(self, line: Line) -> bool:
        """Say whether a medium is listed already, as stored or deleted, under a line's key."""
        raw = self._table.get(key_of(line))
        return raw is not None and json.loads(raw).get("status") in ("stored", "deleted")

    def is_older(self, line: Line) -> bool:
        """Say whether a medium was listed by an earlier row than a line's."""
        raw = self._table.get(key_of(line))
        return raw is not None and stamp_of(json.loads(raw)) < stamp_of(line)

    def names(self, path: str) -> bool:
        """Say whether a line names a file."""
        return bool(self._table.keys_of(path))

    def has_file(self, path: str) -> bool:
        """Say whether a line names a file that is there, or was."""
        return any(self._table[key].get("status") not in UNRENDERED for key in self._table.keys_of(path))

    def __len__(self) -> int:
        return len(self._table.keys())

    def lines(self) -> list[Line]:
        """Return the valid line of each key."""
        return self._table.lines()

    def content(self) -> bytes:
        """Return the index as a file, with one line a key."""
        return self._table.content()

    def add(self, line: Line) -> Line:
        """Add a line, marked as rolled back if the trial went back behind it; return it as it is listed.

        A line of a clip that waits changes nothing if there is another line of its key: that one is later.
        """
        before = self._table.get(key_of(line)) if line.get("status") == WAITING else None
        if before is not None:
            there: Line = json.loads(before)
            return there
        if self._again.get(str(line["id"]), (0, 0)) > stamp_of(line):
            line = {**line, "at": list(self._again[str(line["id"])])}
        if any(self._undoes(back, line) for back in self._backs):
            line = {**line, "rolled_back": True}
        line = {name: value for name, value in line.items() if name != "trial"}
        self._table.add(json_bytes(line), line)
        self.is_stale = True
        return line

    def apply(self, event: Event) -> list[Line]:
        """Change the lines that an event of the log is about; return those that it changed."""
        if event["event"] == "back":
            back = (stamp_of(event), int(event["training_iteration"]))
            self._backs.append(back)
            undone = lambda line: {"rolled_back": True} if self._undoes(back, line) else None  # noqa: E731
            return self._change(self._table.keys(), undone, event)
        if event["event"] == "again":
            self._again[event["id"]] = stamp_of(event)
            keys = [key for key in self._table.keys() if key[0] == event["id"]]  # noqa: SIM118 - a table is no dict
            return self._change(keys, lambda line: {"rolled_back": None, "at": event["at"]}, event)
        if event["event"] == "deleted":
            return self._change(self._table.keys_of(event["path"]), lambda line: {"status": "deleted"}, event)
        if event["event"] in (SUSPECT, SETTLED):
            ids = set(event.get("ids") or ())
            keys = [key for key in self._table.keys() if key[0] in ids]  # noqa: SIM118 - a table is no dict
            return self._change(keys, functools.partial(changes_by, event), event)
        return []

    def add_recorded(self, nbytes: int) -> None:
        """Note that media of so many bytes have been recorded or deleted; it makes the next copy come sooner."""
        self._pause.add_recorded(nbytes)

    @property
    def may_copy(self) -> bool:
        """Whether the storage's copy is out of date, and the pause after the last one is over."""
        return self.is_stale and self._pause.is_over(self._table.nbytes)

    def copy(self) -> None:
        """Bring the storage's copy up to date.

        Raises:
            OSError: The storage does not answer.
        """
        if not self.is_stale:
            return
        content = self._table.content()
        write_atomically(self._filesystem, self._path, content)
        self.is_stale = False
        self._pause.begin(len(content))

    def _change(self, keys: Iterable[Key], change: Callable[[Line], Line | None], event: Event) -> list[Line]:
        changed = []
        for key in keys:
            line = self._table[key]
            changes = change(line)
            is_own = line.get("trial_id") == event.get("trial_id")
            if not is_own or changes is None or all(line.get(name) == value for name, value in changes.items()):
                continue
            raw = changed_line(line, changes)
            changed.append(json.loads(raw))
            self._table.add(raw, changed[-1])
        self.is_stale |= bool(changed)
        return changed

    def _undoes(self, back: tuple[tuple[int, int], int], line: Line) -> bool:
        """Say whether a trial that went back to an iteration has undone a line that was recorded before."""
        stamp, iteration = back
        reached = line.get("training_iteration")
        return isinstance(reached, int) and reached >= iteration and stamp_of(line) < stamp


def event_line(kind: str, trial: str, trial_id: str, stamp: tuple[int, int], **facts: object) -> Event:
    """Return an event of a trial's log.

    >>> event_line("again", "train_0", "t0", (1, 7), id="ab")["event"]
    'again'
    """
    return {"v": INDEX_VERSION, "event": kind, "trial": trial, "trial_id": trial_id, "at": list(stamp), **facts}
