"""A trial on its storage as the driver leaves it, without a driver."""

from __future__ import annotations

import functools
import time
from pathlib import Path

import pyarrow.fs

import tune_media as tm
from tune_media.callbacks.rows import episodes_row
from tune_media.storage.entry import MediaEntry, file_set
from tune_media.storage.filesystem import write_atomically, write_once
from tune_media.storage.fold import fold
from tune_media.storage.index_lines import INDEX_PATH, BackEvent, LogLine, content_of, read_index
from tune_media.storage.known_media import KnownMedia
from tune_media.storage.location import TrialLocation
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.medium import Medium

LOCAL = pyarrow.fs.LocalFileSystem()


class StoredTrial:
    """Writes the media of one trial and their index lines, as the storage's writer does."""

    def __init__(self, location: TrialLocation) -> None:
        self.location = location
        index, _ = read_index(location.filesystem, location.path)
        self.lines: list[LogLine] = [*index]
        self.known = KnownMedia(location.trial_id)
        self.known.load(index)
        self.known.complete()
        self._clips: dict[str, dict[str, str]] = {}  # of each episode: the id of each clip by its path
        self._count = 0

    @classmethod
    def in_folder(cls, folder: Path, trial_id: str | None = None) -> StoredTrial:
        """Open a trial's folder on this machine."""
        return cls(TrialLocation(LOCAL, str(folder), folder, trial_id or f"id_{folder.name}"))

    def add(
        self,
        medium: Medium,
        section: str = "evaluation",
        key: str = "episodes/best",
        step: int = 7,
        iteration: int | None = None,
    ) -> str:
        """Store a medium, list it, and return its path."""
        own_path = functools.partial(self.known.report_path, step) if isinstance(medium, EpisodeBatch) else None
        placed = self.known.register(medium, section, key, step=step, own_path=own_path)
        if isinstance(medium, tm.Video) and medium.episode:
            self._clips.setdefault(medium.episode.episode_id, {})[placed.path] = medium.id
        self._count += 1
        reached = step if iteration is None else iteration
        entry = MediaEntry(medium, section, key, placed.path, step, reached, time.time() - 10 + self._count / 1000)
        entries = [entry]
        if isinstance(medium, EpisodeBatch):
            row, content = episodes_row(self.location.trial_id, entries, self._clips)
            entries = row.entries(content, self._count)
        files = file_set(entries, self.location.trial_id, self._count)
        for name, content in files.files.items():
            write_once(self.location.filesystem, self.location.on_storage(name), content)
        self.lines += files.lines
        return placed.path

    def __enter__(self) -> StoredTrial:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()

    def goes_on(self, iteration: int) -> None:
        """Take note of the trial's next result: it may go back to an earlier iteration."""
        if self.known.note_iteration_went_back(iteration):
            self._count += 1
            trial_id = self.location.trial_id
            self.lines.append(BackEvent(None, trial_id, self._count, iteration))

    def finish(self) -> None:
        """Write the index, and the file that leads readers of the driver's folder to the storage."""
        self.lines = [*fold(self.lines)]
        write_atomically(self.location.filesystem, self.location.on_storage(INDEX_PATH), content_of(self.lines))
        self.location.write_pointer()
