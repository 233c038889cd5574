"""The lines of an experiment's media, as its driver writes them: the log, and each trial's index.

The log has the line of a file before the file is on the storage. What earlier processes left is read once, before the
first part of this process is written.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tune_media.callbacks.services import Services
from tune_media.storage.entry import DROPPED, ONLY_TAPE, STORED, WAITING
from tune_media.storage.episode_files import FOLDER as EPISODE_FOLDER
from tune_media.storage.filesystem import delete_half_written, write_atomically
from tune_media.storage.fold import as_failed, fold
from tune_media.storage.index_lines import INDEX_PATH, Key, LogLine, MediumLine, as_json, content_of, parsed, read_index
from tune_media.storage.location import TrialLocation
from tune_media.storage.log import FOLDER as LOG_FOLDER
from tune_media.storage.log import Log, Part, PartWriter, list_parts, read_log
from tune_media.storage.trial_media import missing_files

_LIVING_SECONDS = 600.0  # a process on another machine that has logged nothing for so long is taken for dead
_DRIVER_LOST = "not rendered: its driver was lost; `tune-media render` makes the clip of the tape"
_TILES_LOST = "not made: its driver was lost"
_FILE_LOST = "lost with its driver, before its file was on the storage"


@dataclass(eq=False)
class TrialLines:
    """The lines of a trial."""

    location: TrialLocation
    raw: list[bytes] = field(default_factory=list)  # the lines of its index and of the log, as JSON
    rows: dict[Key, int] = field(default_factory=dict)  # of the media that are stored
    tries: dict[Key, int] = field(default_factory=dict)  # of the media that are listed, and have no file
    paths: set[str] = field(default_factory=set)  # the files that are stored, or were
    missing: set[str] = field(default_factory=set)  # the files that an earlier process had listed, and not written
    is_over: bool = False

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return posixpath.basename(self.location.path.rstrip("/"))

    def add(self, raw: bytes, line: LogLine) -> None:
        """Add a line that is in the log, as JSON and parsed."""
        self.raw.append(raw)
        if isinstance(line, MediumLine):
            self.missing.discard(line.path)
            self.note(line)

    def note(self, line: MediumLine) -> None:
        """Take note of a medium of the trial."""
        if line.trial_id != self.location.trial_id:
            return
        if line.status == STORED and line.path not in self.missing:
            self.rows[line.place] = line.row
            self.paths.add(line.path)
        else:
            self.rows.pop(line.place, None)
            self.tries[line.place] = line.tries

    def lines(self) -> Iterable[LogLine]:
        """Yield its lines and events."""
        return (line for line in map(parsed, self.raw) if line is not None)


class ExperimentLog:
    """The lines of all trials of an experiment. The storage's thread calls all methods, ``open`` first."""

    def __init__(self, services: Services) -> None:
        self._services, self._filesystem, self._experiment = services, services.filesystem, services.experiment
        self._log = PartWriter(self._filesystem, self._experiment, services.outbox.folder.name)
        self._began = time.time()
        self._earlier: Log | None = None  # the parts of other processes that are not done
        self._has_log = False
        self._trials: dict[str, TrialLines] = {}
        self._unindexed: set[str] = set()  # the folders of trials whose index may lack lines
        self.unlogged: list[MediumLine] = []  # they belong to no row of the outbox, and go into the next part

    def open(self) -> None:
        """Read the log of earlier processes, unless that is done, and delete the files that they left half written."""
        if self._earlier is not None:
            return
        outbox, earlier = self._services.outbox, read_log(self._filesystem, self._experiment)
        everything = read_log(self._filesystem, self._experiment, done=True)
        outbox.raise_to(everything.last_row)
        self._has_log = bool(everything.parts)
        for folder in earlier.lines:
            delete_half_written(self._filesystem, self._path(folder), ("media", EPISODE_FOLDER, "wandb"))
        rows = outbox.read(0, None, ("media", "tape"))
        in_outbox = {entry.medium.id for row in rows if row.data for entry in row.media().names(row.seq)}
        for folder, lines in earlier.lines.items():
            self._unindexed.add(folder)
            for line in fold(lines):  # clips that an earlier process was to render
                if line.status == WAITING and line.id not in in_outbox:
                    status, note = (
                        (DROPPED, _TILES_LOST) if line.facts.get("kind") == "tiled" else (ONLY_TAPE, _DRIVER_LOST)
                    )
                    self.add(folder, replace(line, status=status, facts={**line.facts, "note": note}))
        self._earlier = earlier

    def trial(self, trial_id: str) -> TrialLines | None:
        """Return a known trial, with all that earlier processes left, or None."""
        if trial_id not in self._trials:
            start = self._services.outbox.trial(trial_id)
            if start is None:
                return None
            self._trials[trial_id] = self._read_trial(self._services.location(trial_id, start.folder))
        return self._trials[trial_id]

    def _read_trial(self, location: TrialLocation) -> TrialLines:
        assert self._earlier is not None, "the log is open"
        trial, log = TrialLines(location), self._earlier
        index, _ = read_index(self._filesystem, location.path)
        if self._has_log:
            trial.missing = missing_files(self._filesystem, location.path, log.newest.get(trial.folder, ()))
            log = read_log(self._filesystem, self._experiment, done=True)  # the index may have lost lines
        lines = [*index, *log.lines.get(trial.folder, ())]
        trial.raw = list(map(as_json, lines))
        for line in fold(lines):
            trial.note(line)
        try:
            if self._services.staging is not None:
                location.write_pointer()
        except Exception as error:
            self._services.faults.report("the index", "writing where the media of a trial are", error)
        return trial

    def add(self, folder: str, line: MediumLine) -> None:
        """Log a line that belongs to no row with the next part."""
        self.unlogged.append(replace(line, trial=folder))
        self._unindexed.add(folder)

    def append(self, first: int, last: int, lines: Sequence[LogLine]) -> None:
        """Write a part with the lines of rows ``first`` to ``last``; after an OSError, try the same lines again."""
        lines = [*lines, *self.unlogged]
        written = self._log.append(first, last, lines)
        by_folder: dict[str, list[TrialLines]] = {}
        for trial in self._trials.values():
            by_folder.setdefault(trial.folder, []).append(trial)
        for raw, line in zip(written, lines, strict=True):
            self._unindexed.add(line.trial or "")
            for trial in by_folder.get(line.trial or "", ()):
                trial.add(raw, line)
        self.unlogged = []

    def write_ended(self) -> None:
        """Write the indexes of ended trials that lack lines."""
        due = self._unindexed - {line.trial for line in self.unlogged}
        for trial in self._trials.values():
            if trial.is_over and trial.folder in due:
                self._write_index(trial.folder)

    def forget_ended(self) -> None:
        """Let go of the trials that have ended, and whose index is whole."""
        self._trials = {
            id: trial for id, trial in self._trials.items() if not trial.is_over or trial.folder in self._unindexed
        }

    def finish(self) -> bool:
        """Complete the indexes and the log when all is stored; return False if lines are to be logged before."""
        assert self._earlier is not None, "the log is open"
        for folder, newest in self._earlier.newest.items():  # media that were listed and never written
            missing = missing_files(self._filesystem, self._path(folder), newest)
            for line in self._lines_in(folder) if missing else ():
                if line.status == STORED and line.path in missing:
                    self.add(folder, as_failed(line, _FILE_LOST))
        if self.unlogged:
            return False
        for folder in list(self._unindexed):
            self._write_index(folder)
        self._log.finish(self._parts_of_the_dead(self._earlier.parts))
        return True

    def _parts_of_the_dead(self, parts: Collection[Part]) -> list[Part]:
        """Return the parts that were there when this process began, but for those of others that may still live."""
        listed = list_parts(self._filesystem, posixpath.join(self._experiment, LOG_FOLDER))
        since = min(self._began, time.time() - _LIVING_SECONDS)
        others = [part for part in listed if not part.is_done and part.owner != self._log.owner]
        alive = {part.writer for part in others if part.written > since}
        return [part for part in parts if part.writer not in alive]

    def _lines_in(self, folder: str) -> list[MediumLine]:
        """Return the valid lines of a trial: of its index on the storage, and all that is logged."""
        index, is_whole = read_index(self._filesystem, self._path(folder))
        trials = [trial for trial in self._trials.values() if trial.folder == folder]
        lines = [line for trial in trials for line in trial.lines()]
        if not trials:  # else it was read when the trial was opened
            lines += read_log(self._filesystem, self._experiment, done=not is_whole).lines.get(folder, [])
        return fold([*index, *lines])

    def _write_index(self, folder: str) -> None:
        lines = self._lines_in(folder)
        if lines:
            write_atomically(self._filesystem, posixpath.join(self._path(folder), INDEX_PATH), content_of(lines))
        self._unindexed.discard(folder)

    def _path(self, folder: str) -> str:
        return posixpath.join(self._experiment, folder)
