"""What the storage's reader knows of one trial: its index, the files that retention chooses from, and what is left."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterable

from tune_media.storage.entry import DELETED
from tune_media.storage.episode_files import FOLDER as EPISODE_FOLDER
from tune_media.storage.episode_files import parquet_name, steps_name
from tune_media.storage.experiment_log import Event
from tune_media.storage.filesystem import half_written
from tune_media.storage.index import Index, event_line
from tune_media.storage.index_lines import INDEX_PATH, is_line
from tune_media.storage.location import LOCATION_FILE, TrialLocation
from tune_media.storage.own_files import delete_own, is_deletable
from tune_media.storage.retention import KeptFiles, StoredFile
from tune_media.values.options import Retention


class TrialStore:
    """One trial on its storage. The storage's reader calls all methods.

    Attributes:
        location: Where the trial's files are.
        index: The lines that people read.
        files: The files that retention chooses from; empty if all are kept.
        waiting: How many rows of the trial are read and not done.
        is_over: Whether the trial has ended.
        has_news: Whether media were listed since ``touch_pointer``.

    Args:
        location: Where the trial's files are.
        retention: Which media are kept; None: all.
    """

    def __init__(self, location: TrialLocation, retention: Retention | None = None) -> None:
        self.location = location
        self.index = Index(location)
        self.files = KeptFiles(retention, location.trial_id)
        self.waiting = 0
        self.is_over = self.has_news = False
        self._deleted: list[str] = []  # files that are listed as deleted, and are still there

    @property
    def name(self) -> str:
        """The name of the trial's folder."""
        return self.location.path.rstrip("/").rpartition("/")[2]

    def load(self, events: Iterable[Event], unfinished: Iterable[Event] = ()) -> None:
        """Read the index, and the events of the log that it does not show.

        Args:
            events: The log of the trial.
            unfinished: The part of it by drivers that were killed: files may be left that it says were deleted, and
                files that are half-written.

        Raises:
            OSError: The storage does not answer.
        """
        self.index.load(events)
        self.keep(self.files.policy)
        unfinished = list(unfinished)
        self._deleted = [event["path"] for event in unfinished if event.get("event") == DELETED]
        if unfinished:
            self._delete_half_written()
            self._delete_unnamed_tables(unfinished)
        with contextlib.suppress(OSError):  # that of an end at which the storage was away
            (self.location.local_path / INDEX_PATH).unlink()

    def _delete_half_written(self) -> None:
        """Delete the files that a killed process had not given their names.

        A driver that lives, of an experiment in the same folder, would write its file again.

        Raises:
            OSError: The storage does not answer.
        """
        filesystem, folder = self.location.filesystem, self.location.path
        for inner in ("media", EPISODE_FOLDER, "wandb"):
            for path in half_written(filesystem, posixpath.join(folder, inner)):
                delete_own(filesystem, folder, posixpath.join(inner, path))

    def _delete_unnamed_tables(self, events: Iterable[Event]) -> None:
        """Delete the Parquet files of reports whose JSON, which comes after them, a killed process had not written.

        If its outbox is there, they are written again.

        Raises:
            OSError: The storage does not answer.
        """
        for line in filter(is_line, events):
            is_report = line.get("kind") == "episodes" and line.get("trial_id") == self.location.trial_id
            if is_report and not self.index.names(line["path"]):
                for name in (parquet_name(line["path"]), steps_name(line["path"])):
                    delete_own(self.location.filesystem, self.location.path, name)

    def keep(self, retention: Retention | None) -> None:
        """From now on keep these media."""
        self.files = KeptFiles(retention, self.location.trial_id)
        self.files.add_lines(self.index.lines())

    def apply(self, event: Event) -> None:
        """Change the lines that an event of the log is about."""
        for line in self.index.apply(event):
            self.files.mark(line["path"], rolled_back=bool(line.get("rolled_back")))

    def deletions(self, files: Iterable[StoredFile], stamp: tuple[int, int]) -> list[Event]:
        """Return the events that say which files are deleted; once they are in the log, call ``delete``."""
        found = []
        for file in files:
            self.files.discard(file.path)
            if not is_deletable(self.location.filesystem, self.location.path, file.path):
                continue  # it is no file of ours, or behind a link: it stays, and so does its line
            self.index.add_recorded(file.nbytes)
            found.append(event_line(DELETED, self.name, self.location.trial_id, stamp, path=file.path))
        return found

    def delete(self, events: Iterable[Event]) -> None:
        """List files as deleted, and delete them. A file that the storage keeps for now is tried again.

        Raises:
            OSError: The storage does not answer.
        """
        for event in events:
            self.index.apply(event)
            self._deleted.append(event["path"])
        self.delete_listed()

    def delete_listed(self) -> None:
        """Delete the files that are listed as deleted and are still there.

        Raises:
            OSError: The storage does not answer.
        """
        while self._deleted:
            delete_own(self.location.filesystem, self.location.path, self._deleted[0])
            self._deleted.pop(0)

    def touch_pointer(self) -> None:
        """Tell readers of the driver's folder that there are new media.

        Raises:
            OSError: The driver's folder cannot be written.
        """
        self.has_news = False
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.location.local_path / LOCATION_FILE)
