"""The event file of one trial: Tune's loop adds the scalars of its results, the backend's thread adds its media."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tune_media.callbacks.backend import Report
from tune_media.callbacks.tensorboard.event_file import EventFile, EventWriter, Mark, read_events
from tune_media.callbacks.tensorboard.recovery import Missing
from tune_media.experiment.results import result_time
from tune_media.storage.entry import MediaEntry

_MOST_CLIPS = 64  # of a tag, the newest, that are added again behind a clip that comes late


class TrialEvents:
    """The event file of one trial, how far it goes, and what in it no longer counts since the trial went back.

    TensorBoard forgets everything from a step on if it finds a restart in the file. A medium of an iteration that the
    trial has left behind would come after the restart and be shown for ever, so it is not added.

    TensorBoard's fast reader also forgets the steps of a tag that are not below the one that it reads. A clip may be
    rendered after newer ones of its key; these are then added again, behind it.

    Args:
        writer: Ray's code adds a result's scalars to it. They go to the file together.

    Attributes:
        writer: The writer.
        file: The file.
        ray: Ray's own object for the trial; None if only an earlier process has started it.
        lacks_earlier: Whether what a killed process had not written is still to be added.
    """

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer
        self.file = EventFile(writer.file_writer.get_logdir())
        self.ray: Any = None
        self.lacks_earlier = False
        self._mark = Mark()
        self._last: tuple[int, int] | None = None  # iteration and step of the last result
        self._ways_back: list[_WayBack] = []  # each one later, and to a higher step, than the one before
        self._clips: dict[str, dict[int, int]] = {}  # by tag and step, a place in the file before a clip
        self._earlier_clips: dict[str, dict[int, Callable[[], MediaEntry]]] = {}  # and those of a killed process
        self._earlier_rows: set[int] = set()  # the rows of which media are there, that a killed process had not written
        self._lock = threading.Lock()

    def add_result(self, report: Report, write: Callable[[], None]) -> None:
        """Add a result: all that ``write`` adds to the writer; first a restart if it is the first or goes back.

        Tune's loop calls it.
        """
        held = self.writer.file_writer
        held.wall_time = report.time
        here = (report.training_iteration, report.step)
        if self._last is None or here[0] <= self._last[0] or here[1] < self._last[1]:
            with self._lock:
                kept = [way for way in self._ways_back if way.step < report.step]
                self._ways_back = [*kept, _WayBack(report.step, report.row)]
                for tag, clips in self._clips.items():
                    self._clips[tag] = {step: place for step, place in clips.items() if step < report.step}
                for tag, earlier in self._earlier_clips.items():
                    self._earlier_clips[tag] = {step: make for step, make in earlier.items() if step < report.step}
            held.start_from(report.step)
        self._last = here
        try:
            write()
        finally:
            self.add_waiting(iteration=here[0], timestamp=result_time(report.result), time=report.time)

    def add_waiting(self, **marked: Any) -> None:
        """Add what the writer holds, and note what the file has with it."""
        with self._lock:
            self._mark = self._mark._replace(**marked)
            self.file.add_again(self.writer.file_writer.take_waiting(), self._mark)

    def has(self, entry: MediaEntry) -> bool:
        """Say whether a medium was found on the storage, and added with what a killed process had not written."""
        return entry.row in self._earlier_rows

    def take_earlier(self, entry: MediaEntry) -> list[Callable[[], MediaEntry]]:
        """Return what makes the clips of a killed process that are newer than one of the same tag, which comes late."""
        with self._lock:
            earlier = self._earlier_clips.get(entry.tag, {})
            return [earlier.pop(step) for step in sorted(earlier) if step > entry.step]

    def add_medium(self, entry: MediaEntry, events: list[bytes]) -> None:
        """Add the events of a medium, unless the trial has gone back since; the backend's thread calls it."""
        with self._lock:
            count = 1 + (self._mark.media if self._mark.row == entry.row else 0)
            self._mark = self._mark._replace(row=entry.row, media=count, time=entry.time)
            if self.has(entry):
                self.file.add_again([], self._mark)
            else:
                self._add(entry, events)

    def add_clip_again(self, entry: MediaEntry, events: list[bytes]) -> None:
        """Add the events of a clip that a killed process had added, behind one that is older and comes late."""
        with self._lock:
            self._add(entry, events)

    def _add(self, entry: MediaEntry, events: list[bytes]) -> None:
        is_left = any(way.leaves_behind(entry) for way in self._ways_back)
        if not is_left and entry.medium.kind == "video":
            events = [*events, *self._clips_behind(entry)]
        self.file.add_again([] if is_left else events, self._mark)

    def _clips_behind(self, entry: MediaEntry) -> list[bytes]:
        """Return the events of newer clips of an entry's tag, which TensorBoard forgets when it reads the entry's."""
        clips, place = self._clips.setdefault(entry.tag, {}), self.file.length
        later = {step: clips[step] for step in sorted(clips) if step > entry.step}
        if later:
            with contextlib.suppress(OSError):  # the disk takes nothing now
                self.file.flush()
        found = [event for step, at in later.items() for event in self._events_at(at, entry.tag, step)]
        clips.update({entry.step: place, **dict.fromkeys(later, place)})
        while len(clips) > _MOST_CLIPS:
            del clips[min(clips)]
        return found

    def add_missing(self, events: list[bytes], missing: Missing) -> None:
        """Add what a killed process had not written, before all else; the backend's thread calls it.

        Args:
            events: The events of all that is missing.
            missing: What is missing.
        """
        mark = missing.mark
        with self._lock:
            restart = min((way.step for way in self._ways_back), default=float("inf"))
            for tag, clips in missing.clips.items():
                newest = sorted(clips)[-_MOST_CLIPS:]
                self._earlier_clips[tag] = {step: clips[step] for step in newest if step < restart}
            self._earlier_rows, self.lacks_earlier = missing.rows, False
            if not self._mark.iteration:
                self._mark = self._mark._replace(iteration=mark.iteration, timestamp=mark.timestamp)
            self._mark = self._mark._replace(row=mark.row, media=mark.media, time=self._mark.time or mark.time)
            self.file.comes_after(missing.files)
            self.file.insert_first(events)
            self.file.add_again([], self._mark)

    def _events_at(self, place: int, tag: str, step: int) -> list[bytes]:
        """Return the event of a clip that is in the file, from a place on; none if the disk did not take it."""
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
        row: Its ``Report.row``: all media of results before it have this number or a lower one.
    """

    step: int
    row: int

    def leaves_behind(self, entry: MediaEntry) -> bool:
        """Return whether a medium was reported before, and is played again."""
        return 0 < entry.row <= self.row and self.step <= entry.step
