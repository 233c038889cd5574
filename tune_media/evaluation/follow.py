"""Plays the checkpoints of a sweep, or of another program, as they come: ``tune-media evaluate --follow``."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tune_media.evaluation.checkpoint_sources import Sources
from tune_media.evaluation.checkpoints import CheckpointSeries, StoredCheckpoint, number_of
from tune_media.experiment import evaluations
from tune_media.experiment.state import Snapshots
from tune_media.experiment.status import UNENDED
from tune_media.storage.filesystem import folders_in

_PAUSE = 2.0  # seconds between two looks
_NEXT = 10.0  # seconds after which new trials are looked for
_SURE = 20.0  # seconds for which all trials have ended: a search may start others


class Follower:
    """Yields the checkpoints of a training that goes on, each when all of it is written.

    It ends with the sweep, or after ``until_idle`` seconds without anything new. ``find`` is asked again while the
    experiment has folders of no trial.
    """

    def __init__(self, find: Callable[[], Sources], until_idle: float | None) -> None:
        self._find, self._until_idle = find, until_idle
        self._sources = find()
        self._found_at = time.monotonic()
        self._seen: dict[str, tuple[Any, float]] = {}  # by path: its files, and since when they have been these
        self._yielded: dict[str, Any] = {}  # by path: its files then
        self._snapshots = Snapshots()
        self._ended_at: float | None = None
        self._new_at = time.monotonic()

    def checkpoints(self) -> Iterator[tuple[CheckpointSeries, StoredCheckpoint]]:
        """Yield them, the earliest of all trials first, until the sweep has ended and none is left."""
        while True:
            has_ended, ready = self._has_ended(), self._look()  # in this order: the last one comes before the end
            if ready is not None:
                yield ready
                self._new_at = time.monotonic()  # it was played meanwhile
            elif has_ended or (self._until_idle is not None and time.monotonic() - self._new_at > self._until_idle):
                return
            else:
                time.sleep(_PAUSE)

    def deleted(
        self, played: Callable[[CheckpointSeries], set[int]], failed: Mapping[tuple[str, int], str]
    ) -> list[str]:
        """Return the checkpoints that were deleted before they were played.

        ``failed`` has why some could not be played, by the path of the trial and the number.
        """
        lost = []
        for series in self._sources.series:
            known = played(series) | {stored.number for stored in series.there()}
            if series.pattern is None:  # Tune counts from 0 on
                numbers = (number for number in range(max(known, default=0)) if number not in known)
                gone = {number: f"checkpoint_{number:06d}" for number in numbers}
            else:
                own = [path for path in self._seen if posixpath.dirname(path) == series.trial.path.rstrip("/")]
                names = {number_of(path) or 0: posixpath.basename(path) for path in own}
                gone = {number: name for number, name in names.items() if number not in known}
            for number, name in gone.items():
                error = failed.get((series.trial.path, number))
                why = "was deleted before it was played" if error is None else f"could not be played: {error}"
                lost.append(f"{name} of {series.trial.name} {why}")
        return lost

    def _look(self) -> tuple[CheckpointSeries, StoredCheckpoint] | None:
        """Return a checkpoint that is there as a whole, and was not yielded as it is."""
        ready, now = [], time.monotonic()
        if now - self._found_at > _NEXT and self._has_others():
            self._sources, self._found_at = self._find(), now
        for series in self._sources.series:
            for stored in series.there():
                if stored.path in self._yielded and series.pattern is None:
                    continue  # Tune writes a checkpoint once
                files = stored.files()
                before, since = self._seen.get(stored.path, (None, now))
                if before != files:
                    self._seen[stored.path] = files, now
                    self._new_at = now
                elif files and now - since >= _PAUSE and self._yielded.get(stored.path) != files:
                    ready.append((series, stored))
        for series, stored in sorted(ready, key=lambda pair: pair[1].number):
            (placed,) = series.placed([stored])
            if placed.is_reported:  # otherwise its step is not known yet
                self._yielded[stored.path] = self._seen[stored.path][0]
                self._new_at = now
                return series, placed
        return None

    def _has_others(self) -> bool:
        """Whether the experiment has folders that may be of new trials."""
        place, series = self._sources.folder, self._sources.series
        known = {of_trial.trial.path for of_trial in series} | {posixpath.join(place.path, evaluations.EVALUATIONS)}
        is_one_folder = any(of_trial.pattern is not None and of_trial.trial.path == place.path for of_trial in series)
        return not (is_one_folder or known.issuperset(folders_in(place.filesystem, place.path)))

    def _has_ended(self) -> bool:
        now, place = time.monotonic(), self._sources.folder
        trials = self._snapshots.known(place.filesystem, place.path).trials.values()
        if not trials or any(trial.status.lower() in UNENDED for trial in trials):
            self._ended_at = None
        elif self._ended_at is None:
            self._ended_at = now
        return self._ended_at is not None and now - self._ended_at > _SURE
