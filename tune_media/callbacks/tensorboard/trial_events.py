"""The event file of one trial: Tune's loop adds the scalars of its results, the backend's thread adds its media."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import Any

from tune_media.callbacks.backend import Report
from tune_media.callbacks.tensorboard.event_file import EventFile, EventWriter, read_events
from tune_media.storage.entry import MediaEntry

_MOST_CLIPS = 64  # of a tag, the newest, that are added again behind a clip that comes late


class TrialEvents:
    """The event file of one trial, and what in it no longer counts since the trial went back.

    TensorBoard forgets everything from a step on if it finds a restart in the file. A medium of an iteration that the
    trial has left behind would come after the restart and be shown for ever, so it is not added.

    TensorBoard's fast reader also forgets the steps of a tag that are not below the one that it reads. A clip may be
    rendered after newer ones of its key; these are then added again, behind it.

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
        self._clips: dict[str, dict[int, int]] = {}  # by tag and step, a place in the file before a clip
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
                for tag, clips in self._clips.items():
                    self._clips[tag] = {step: place for step, place in clips.items() if step < report.step}
        self._last = here

    def add_medium(self, entry: MediaEntry, events: list[bytes]) -> None:
        """Add the events of a medium, unless the trial has gone back since; the backend's thread calls it."""
        with self._lock:
            if any(way.leaves_behind(entry) for way in self._ways_back):
                return
            place = self.file.mark.position
            self.file.add_again(events)
            if entry.medium.kind != "video":
                return
            clips = self._clips.setdefault(entry.tag, {})
            later = {step: clips[step] for step in sorted(clips) if step > entry.step}
            self.file.add_again([event for step, at in later.items() for event in self._events_at(at, entry.tag, step)])
            clips.update({entry.step: place, **dict.fromkeys(later, place)})
            while len(clips) > _MOST_CLIPS:
                del clips[min(clips)]

    def _events_at(self, place: int, tag: str, step: int) -> list[bytes]:
        """Return the event of a clip that is in the file, from a place on; none if it is still to be written."""
        with contextlib.suppress(OSError):
            stream = self.file.path.open("rb")
            stream.seek(place)
            for event in read_events(stream):
                if event.step == step and any(value.tag == tag for value in event.summary.value):
                    return [event.SerializeToString()]
        return []


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
