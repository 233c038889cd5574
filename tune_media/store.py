"""The media of one trial on its storage: written once, listed, deleted by the rules.

Media are written straight to the trial's place on its storage (any pyarrow filesystem), not into the folder that Tune
uploads again at every sync: each byte travels once. The index is text and small, and lies in both.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import posixpath
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow.fs

from tune_media.entries import (
    DELETED,
    FAILED,
    FILE_NAME,
    ID_DIGITS,
    STORED,
    Entry,
    NotMadeError,
    Package,
    Place,
    file_name,
    safe_key,
)
from tune_media.episode_files import DATA_KEY, FOLDER, file_names, parquet_name, parts_of_parquet, report_step
from tune_media.episodes import EpisodeBatch
from tune_media.files import PARTIAL, is_local, read_if_there, write_atomically, write_once
from tune_media.index import INDEX_VERSION, Index, key_of
from tune_media.retention import Kept, Retention, kept_of_line
from tune_media.values import CONTENT_DIGITS, Medium, new_id

logger = logging.getLogger("tune_media")

PLACE_FILE = ".tune_media.json"
"""In the folder that Tune syncs: where the trial's media are."""

_MOST_ANCESTORS = 50
_KINDS = {"mp4": "video", "png": "image"}


@dataclass(frozen=True)
class _Rollback:
    """A trial went back: what was recorded in an earlier life at or after an iteration no longer counts."""

    life: int
    training_iteration: int
    step: int

    def undoes(self, training_iteration: Any, step: Any) -> bool:
        if isinstance(training_iteration, int):
            return training_iteration >= self.training_iteration
        return isinstance(step, int) and step >= self.step


class TrialStore:
    """Files and index of one trial.

    ``register``, ``report_path`` and ``goes_on`` are quick and called by whoever reads results; all others may take
    their time, may raise what the storage raises, and may then be called again.

    Args:
        place: Where.
        retention: Which media are kept; None: all.
        report: Told what the driver's folder did not take.
    """

    def __init__(
        self,
        place: Place,
        retention: Retention | None = None,
        report: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.place = place
        self.files: dict[str, Kept] = {}  # what retention chooses from
        self.is_over = False
        self.lineage: tuple[str, ...] = ()
        self.retention = retention
        self.has_revived = False  # what was rolled back has been recorded again, and is to be marked so
        self._paths: dict[str, str] = {}  # id of a medium -> its file
        self._by_content: dict[str | None, str] = {}  # what a repetition would say -> the id of what it repeats
        self._taken: set[str] = set()  # files whose names others may not have
        self._listed: set[tuple[str, str, str]] = set()  # (id, section, key)
        self._earlier: set[tuple[str, str, str]] = set()  # what earlier runs listed
        self._lives: dict[str, int] = {}  # of what is registered: how often the trial had gone back
        self._rollbacks: list[_Rollback] = []
        self._last_iteration: int | None = None
        self._loaded = threading.Event()
        self._lock = threading.Lock()
        self._report = report
        self._index = Index(place, report)

    def load(self) -> None:
        """Read what earlier runs of this trial, or in its folder, listed; list what they wrote and did not list.

        Raises:
            OSError: The storage does not answer.
        """
        if self._loaded.is_set():
            return
        lines = self._index.load()
        with self._lock:
            for line in lines:
                self._know(line)
            self._earlier = {key_of(line) for line in lines if self._is_own(line)}
            lineages = [line["lineage"] for line in lines if isinstance(line.get("lineage"), list)]
            if lineages and not self.lineage:
                self.lineage = tuple(map(str, lineages[-1]))
        self._loaded.set()
        try:
            deleted = {line["path"] for line in lines if line.get("status") == DELETED}
            for info in self._files_in("media"):
                self._adopt(info, deleted)
            for info in self._files_in(FOLDER):
                self._adopt_report(info)
            self._write_place()
        except Exception as error:
            self._report(error)

    def go_on_without(self, error: Exception) -> None:
        """List what is recorded in the driver's folder alone: what earlier runs listed cannot be read."""
        self._index.go_on_without()

    def know_files(self) -> None:
        """Find out which files ``retention`` chooses from, where it was given after ``load``."""
        with self._lock:
            for line in self._index.lines():
                if self._is_own(line):
                    self._know_file(line)

    def wait_until_loaded(self, seconds: float) -> bool:
        """Wait until what earlier runs listed is known."""
        return self._loaded.wait(seconds)

    def knows(self, medium: Medium) -> bool:
        """Say whether a medium has been registered before, under any key."""
        with self._lock:
            return medium.id in self._paths or medium.may_repeat in self._by_content

    def report_path(self, step: int) -> str:
        """Return a file for the episodes of a result; another than that of any other result at the same step."""
        with self._lock:
            path = file_names(step)
            if path in self._taken or not self._loaded.is_set():
                path = file_names(step, new_id()[:ID_DIGITS])
            self._taken.add(path)
        return path

    def register(
        self,
        medium: Medium,
        section: str,
        key: str,
        step: int,
        training_iteration: int,
        own_path: Callable[[], str] | None = None,
    ) -> tuple[str, Entry | None]:
        """Say where a medium is or will be.

        Args:
            medium: The medium.
            section: ``train`` or ``evaluation``.
            key: Its place inside its section.
            step: The step that TensorBoard shows for the result.
            training_iteration: That of the result.
            own_path: Returns the path of a medium that is not called as others are; asked where it is new.

        Returns:
            Its path relative to the trial folder, and the entry to ``write``, which is None where this medium has been
            registered under this key before.
        """
        with self._lock:
            if medium.may_repeat in self._by_content:
                id = self._by_content[medium.may_repeat]
                self._live_on(id)
                return self._paths[id], None
            path = self._paths.get(medium.id)
        if path is None and own_path is not None:
            path = own_path()
        with self._lock:
            known = (medium.id, section, key) in self._listed
            self._live_on(medium.id)
            if path is None:
                path = posixpath.join("media", safe_key(section), safe_key(key), file_name(step, medium))
                known = path in self._taken  # written by a run that was killed
            self._remember(medium.id, section, key, path)
        entry = Entry(medium, section, key, path, step, training_iteration, len(self._rollbacks), self.lineage)
        entry.is_sure = self._loaded.is_set()
        return path, None if known else entry

    def goes_on(self, training_iteration: int, step: int) -> bool:
        """Take note of a trial's next result; return whether it goes back, so that ``mark_rolled_back`` has work."""
        last, self._last_iteration = self._last_iteration, training_iteration
        if last is not None and training_iteration > last:
            return False
        with self._lock:
            self._rollbacks.append(_Rollback(len(self._rollbacks) + 1, training_iteration, step))
        return True

    def descends_from(self, lineage: Iterable[str]) -> None:
        """From now on the trial is a clone."""
        self.lineage = tuple(lineage)[:_MOST_ANCESTORS]

    def mark_rolled_back(self) -> None:
        """Mark the lines of what was recorded before the trial went back, at or after where it went back to."""
        self.has_revived = False

        def change(line: dict[str, Any]) -> dict[str, Any] | None:
            if not self._is_own(line):
                return None
            life = self._lives.get(line["id"], 0)
            was = bool(line.get("rolled_back"))
            undone = self._is_undone(life, line.get("training_iteration"), line.get("step"))
            if was == undone or (was and line["id"] not in self._lives):
                return None
            if line["path"] in self.files:
                self.files[line["path"]].rolled_back = undone
            return {"rolled_back": undone or None}

        if self._index.amend(change):
            self._index.copy()

    def write(self, package: Package) -> int:
        """Write files, unless they are there, and list them.

        Returns:
            The size of what was written.

        Raises:
            NotMadeError: A file cannot be made; it is listed so.
            OSError: The storage does not answer, or whatever else its filesystem raises.
        """
        try:
            files = package.files()
        except NotMadeError as error:
            for entry in package.entries:
                self.give_up(entry, FAILED, str(error))
            raise
        blind = [entry for entry in package.entries if not entry.is_sure]
        if blind and all((entry.medium.id, entry.section, entry.key) in self._earlier for entry in package.entries):
            for entry in package.entries:
                entry.status = STORED  # by an earlier run
            return 0
        write = write_atomically if package.entries[0].is_episodes else write_once  # the others' names are unique
        for name, content in files.items():
            write(self.place.filesystem, posixpath.join(self.place.path, name), content)
        self._list(package, STORED)
        if self._index.is_late or self.is_over:  # when it is over, nothing else may come to copy it
            self._index.copy()
        return sum(len(content) for content in files.values())

    def keep_here(self, package: Package, reason: str) -> None:
        """Write files into the driver's folder, where the storage does not take them, and list that.

        Raises:
            OSError: It does not take them either; that is listed.
        """
        try:
            for name, content in package.files().items():
                write_once(pyarrow.fs.LocalFileSystem(), str(self.place.local_path / name), content)
        except Exception as error:
            for entry in package.entries:
                self.give_up(entry, FAILED, f"{reason}; and in the driver's folder: {type(error).__name__}: {error}")
            raise
        self._list(package, FAILED, f"kept in the driver's folder, not on the storage: {reason}")

    def bring(self, path: str, names: Iterable[str]) -> int:
        """Write to the storage what ``keep_here`` has kept, and list it as stored.

        Args:
            path: The file that its lines name.
            names: All files.

        Returns:
            The size of what was written.

        Raises:
            OSError: The storage does not answer, or whatever else its filesystem raises.
        """
        size = 0
        for name in names:
            content = (self.place.local_path / name).read_bytes()
            write_atomically(self.place.filesystem, posixpath.join(self.place.path, name), content)
            size += len(content)
        self._index.amend(lambda line: {"status": STORED, "note": None} if line["path"] == path else None)
        self._index.copy()
        return size

    def give_up(self, entry: Entry, status: str, reason: str) -> None:
        """List an entry that has no file, and why; should it come again, it is tried again."""
        entry.status = status
        with self._lock:
            self._paths.pop(entry.medium.id, None)
            self._by_content.pop(entry.medium.id[:CONTENT_DIGITS], None)
            self._listed.discard((entry.medium.id, entry.section, entry.key))
        self._index.append(self._line(entry, {"note": reason[:500]}))

    def delete(self, paths: Collection[str]) -> None:
        """Delete files; first the index says so, in all lines that name them."""
        if not paths:
            return
        self._index.amend(lambda line: {"status": DELETED} if line["path"] in paths else None)
        self._index.copy()
        errors = []
        for path in paths:
            try:
                with contextlib.suppress(FileNotFoundError):
                    self.place.filesystem.delete_file(posixpath.join(self.place.path, path))
                self.files.pop(path, None)
            except OSError as error:  # it is tried again
                errors.append(error)
        if errors:
            raise errors[0]

    @property
    def index_is_late(self) -> bool:
        """Whether the storage's copy of the index has been out of date for some time."""
        return self._index.is_late

    @property
    def index_is_held(self) -> bool:
        """Whether the driver's folder has not taken all of the index."""
        return self._index.is_held

    def finish(self) -> None:
        """Bring the storage's copy of the index up to date."""
        self._index.copy()

    def _list(self, package: Package, status: str, reason: str | None = None) -> None:
        files = package.files()
        digest = hashlib.sha256(files[package.path]).hexdigest()
        for entry in package.entries:
            if entry.status is not None:  # listed already, before the storage went away
                continue
            medium = entry.medium
            note = "; ".join(text for text in (medium.note, package.problems, reason) if text)[:500] or None
            size = len(files[package.path])
            facts = {**medium.facts(), "status": status, "bytes": size, "sha256": digest, "note": note}
            line = self._line(entry, facts)
            self._index.append(line)
            entry.status = status
            with self._lock:
                self._know(line)

    def _know(self, line: dict[str, Any]) -> None:
        """Remember what a line says."""
        path = str(line["path"])
        self._taken.add(path)
        if not self._is_own(line) or line.get("status") not in (STORED, DELETED):
            return
        self._remember(line["id"], line["section"], line["key"], path)
        self._know_file(line)

    def _know_file(self, line: dict[str, Any]) -> None:
        path = str(line["path"])
        if self.retention is None or line.get("status") != STORED or path.startswith(f"{FOLDER}/"):
            return
        kept = kept_of_line(line, self.retention.by)
        if path in self.files:
            kept.keys |= self.files[path].keys
        self.files[path] = kept

    def _remember(self, id: str, section: str, key: str, path: str) -> None:
        self._paths[id] = path
        self._by_content[id[:CONTENT_DIGITS]] = id
        self._listed.add((id, section, key))

    def _live_on(self, id: str) -> None:
        """Take note that something is recorded in this life of the trial, for the first time or again."""
        life = len(self._rollbacks)
        self.has_revived = self.has_revived or (id in self._paths and self._lives.get(id, 0) < life)
        self._lives[id] = life

    def _is_own(self, line: dict[str, Any]) -> bool:
        return line.get("trial_id") == self.place.trial_id

    def _files_in(self, folder: str) -> list[pyarrow.fs.FileInfo]:
        folder = posixpath.join(self.place.path, folder)
        selector = pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True)
        return [info for info in self.place.filesystem.get_file_info(selector) if info.is_file]

    def _adopt(self, info: pyarrow.fs.FileInfo, deleted: Collection[str]) -> None:
        """List a file that a run wrote which was killed before it could say so; delete half a file, and ``deleted``."""
        path = posixpath.relpath(info.path, self.place.path)
        if info.path.endswith(PARTIAL) or path in deleted:
            self.place.filesystem.delete_file(info.path)
            return
        parts = path.split("/")
        name = FILE_NAME.match(parts[-1])
        if path in self._taken or name is None or len(parts) < 4:
            return
        step, id, suffix = name.groups()
        line = {"v": INDEX_VERSION, "id": id, "kind": _KINDS.get(suffix, "artifact"), "section": parts[1]}
        line |= {"key": "/".join(parts[2:-1]), "path": path, "bytes": info.size, "format": suffix, "step": int(step)}
        self._list_found({**line, "trial_id": self.place.trial_id})

    def _adopt_report(self, info: pyarrow.fs.FileInfo) -> None:
        """List the episodes of a report that a run wrote which was killed before it could say so."""
        path = posixpath.relpath(info.path, self.place.path)
        step = report_step(path)
        with self._lock:
            if step is None or path in self._taken:
                return
            self._taken.add(path)
        try:
            parts = parts_of_parquet(read_if_there(self.place.filesystem, parquet_name(info.path)) or b"")
        except ValueError as error:
            logger.info("tune_media: %r stays unlisted (%s)", info.path, error)
            return
        for trial_id, section, recorder, iteration in parts:
            id = hashlib.sha256("\n".join((trial_id, section, recorder, path)).encode()).hexdigest()[:32]
            line = {"v": INDEX_VERSION, "id": id, "kind": EpisodeBatch.kind, "section": section}
            line |= {"key": f"{recorder}{DATA_KEY}", "path": path, "bytes": info.size, "format": "json", "step": step}
            self._list_found({**line, "training_iteration": iteration, "trial_id": trial_id})

    def _list_found(self, line: dict[str, Any]) -> None:
        line |= {"time": round(time.time(), 3), "status": STORED}
        self._index.append({**line, "note": "found on the storage: its driver was killed before it could be listed"})
        with self._lock:
            self._know(line)

    def _write_place(self) -> None:
        """Let who reads the driver's folder find the files."""
        if is_local(self.place.filesystem):
            file = self.place.local_path / PLACE_FILE
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"media_of": self.place.path}))

    def _is_undone(self, life: int, training_iteration: Any, step: Any) -> bool:
        later = [rollback for rollback in self._rollbacks if rollback.life > life]
        return any(rollback.undoes(training_iteration, step) for rollback in later)

    def _line(self, entry: Entry, facts: dict[str, Any]) -> dict[str, Any]:
        line = {
            **facts,
            "v": INDEX_VERSION,
            "id": entry.medium.id,
            "kind": entry.medium.kind,
            "section": entry.section,
            "key": entry.key,
            "path": entry.path,
            "status": facts.get("status", entry.status),
            "training_iteration": entry.training_iteration,
            "step": entry.step,
            "time": round(time.time(), 3),
            "trial_id": self.place.trial_id,
            "lineage": list(entry.lineage) or None,
            "rolled_back": self._is_undone(entry.life, entry.training_iteration, entry.step) or None,
        }
        return {name: value for name, value in line.items() if value is not None}
