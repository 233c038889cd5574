"""The event file of one trial: Tune's loop adds the scalars of its results, the backend's thread adds its media."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from tune_media.callbacks.backend import Report
from tune_media.callbacks.tensorboard.event_file import EventFile, EventWriter
from tune_media.storage.entry import MediaEntry


class TrialEvents:
    """The event file of one trial, and what in it no longer counts since the trial went back.

    TensorBoard forgets everything from a step on if it finds a restart in the file. A medium of an iteration that the
    trial has left behind would come after the restart and be shown for ever, so it is not added.

    Args:
        writer: The trial's writer.

    Attributes:
        writer: The trial's writer.
        ray: Ray's own object for the trial; None if only an earlier process has started it.
    """

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer
        self.ray: Any = None
        self._last: tuple[int, int] | None = None  # iteration and step of the last result
        self._ways_back: list[_WayBack] = []  # each one later, and to a higher step, than the one before
        self._lives = 0
        self._lock = threading.Lock()

    @property
    def file(self) -> EventFile:
        """The file."""
        return self.writer.file_writer

    def begin_result(self, report: Report) -> None:
        """Begin a result, whose scalars come next; if it is the first one or the trial has gone back, with a restart.

        Tune's loop calls it.
        """
        self.file.wall_time = report.time
        here = (report.training_iteration, report.step)
        if self._last is None or here[0] <= self._last[0] or here[1] < self._last[1]:
            with self._lock:
                self._lives += 1
                kept = [way for way in self._ways_back if way.step < report.step]
                self._ways_back = [*kept, _WayBack(report.step, report.row, self._lives)]
                self.file.start_from(report.step)
        self._last = here

    def add_medium(self, entry: MediaEntry, events: list[bytes]) -> None:
        """Add the events of a medium, unless the trial has gone back since; the backend's thread calls it."""
        with self._lock:
            if not any(way.leaves_behind(entry) for way in self._ways_back):
                self.file.add_again(events)


@dataclass(frozen=True)
class _WayBack:
    """A result with which a trial went back, or its first one.

    Attributes:
        step: Its step.
        row: Its ``Report.row``.
        life: How many there were, with this one.
    """

    step: int
    row: int
    life: int

    def leaves_behind(self, entry: MediaEntry) -> bool:
        """Return whether a medium was reported before, and is played again."""
        life = getattr(entry, "life", self.life)  # of a call without a number
        is_later = self.row > entry.row if self.row and entry.row else self.life > life
        return is_later and self.step <= entry.step
