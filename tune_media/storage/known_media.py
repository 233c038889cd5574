"""The media of a trial that are known: their files, and under which keys they are listed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tune_media.storage.entry import LOST, STORED, UNRENDERED
from tune_media.storage.episode_files import file_names
from tune_media.storage.file_names import ID_DIGITS, media_path
from tune_media.storage.index_lines import Key, MediumLine
from tune_media.values.medium import CONTENT_DIGITS, Medium, new_id

_MAX_ANCESTORS = 50


@dataclass(frozen=True)
class MediumPlace:
    """The place of a medium in its trial's folder."""

    id: str  # that of the first medium if it repeats one
    path: str  # relative to the trial's folder
    is_new: bool  # still to be stored and listed under its key
    comes_again: bool = False  # recorded before the trial went back, and now again
    is_earlier: bool = False  # only an earlier process had recorded it


class KnownMedia:
    """The media of one trial that Tune's loop has seen, and their files: a view of the trial's log.

    Tune's loop calls all methods but ``load`` and ``complete``, which the storage's reader calls.

    >>> from tune_media import Artifact
    >>> known = KnownMedia("trial")
    >>> known.load([])
    >>> known.complete()
    >>> placed = known.register(Artifact(b"x", name="x.bin"), "train", "weights", step=7)
    >>> placed.path.startswith("media/train/weights/step_000000007-"), placed.is_new
    (True, True)
    """

    def __init__(self, trial_id: str) -> None:
        # the checkpoints that it descends from, ``<trial id>@<training iteration>``, the nearest first
        self.lineage: tuple[str, ...] = ()
        self.trial_id = trial_id  # lines of other trials in its folder only reserve their file names
        self._last_iteration: int | None = None
        self._times_back = 0
        self._seen_in: dict[str, int] = {}  # how often the trial had gone back when a medium was last recorded, by id
        self._paths: dict[str, str] = {}  # id of a medium -> its file
        self._by_content: dict[str | None, str] = {}  # the content of a repeated medium -> the id of the first
        self._taken: set[str] = set()  # names of files that others may not have
        self._lost: set[str] = set()  # names of files that were not stored; no other report may have them either
        self._listed: set[Key] = set()
        self._complete = threading.Event()
        self._lock = threading.Lock()

    def note_iteration_went_back(self, training_iteration: int) -> bool:
        """Note the trial's next result; return whether the trial goes back with it to an earlier iteration.

        The first result of a process counts as going back: an earlier process may have gone further.
        """
        last, self._last_iteration = self._last_iteration, training_iteration
        if last is not None and training_iteration > last:
            return False
        self._times_back += 1
        return True

    def load(self, lines: Iterable[MediumLine]) -> None:
        """Remember the index lines of earlier runs; may be called again."""
        with self._lock:
            lineage: tuple[str, ...] = ()
            for line in lines:
                (self._lost if line.status in LOST else self._taken).add(line.path)
                if line.trial_id == self.trial_id and line.status in (STORED, *UNRENDERED):
                    self._remember(line.place, line.path)
                lineage = line.lineage or lineage
            self.lineage = self.lineage or lineage

    def complete(self) -> None:
        """Take note that the files of earlier runs are known: their lines are loaded, their names are reserved."""
        self._complete.set()

    def wait_until_complete(self, seconds: float) -> bool:
        """Wait at most so many seconds until the files of earlier runs are known; return whether they are."""
        return self._complete.wait(seconds)

    def knows(self, medium: Medium) -> bool:
        """Return whether a medium has been registered before, under any key."""
        with self._lock:
            return medium.id in self._paths or medium.may_repeat in self._by_content

    def report_path(self, step: int) -> str:
        """Return a file name for the episodes of a result that no other result at the same step has."""
        with self._lock:
            path = file_names(step)
            if path in self._taken or path in self._lost or not self._complete.is_set():
                path = file_names(step, new_id()[:ID_DIGITS])
            self._taken.add(path)
        return path

    def register(
        self, medium: Medium, section: str, key: str, *, step: int, own_path: Callable[[], str] | None = None
    ) -> MediumPlace:
        """Give a medium its file; ``own_path`` returns the path of a new one that is not named like the others."""
        with self._lock:
            if medium.may_repeat in self._by_content:
                id = self._by_content[medium.may_repeat]
                is_earlier = id not in self._seen_in
                return MediumPlace(id, self._paths[id], False, self._comes_again(id), is_earlier)
            path = self._paths.get(medium.id)
        if path is None and own_path is not None:
            path = own_path()
        with self._lock:
            is_new = (medium.id, section, key) not in self._listed
            if path is None:
                path = media_path(section, key, step, medium)
                if path in self._taken:  # another medium's id begins with the same digits
                    path = media_path(section, key, step, medium, whole_id=True)
            is_earlier = medium.id not in self._seen_in
            comes_again = self._comes_again(medium.id)
            self._remember((medium.id, section, key), path)
            self._taken.add(path)
        return MediumPlace(medium.id, path, is_new, comes_again, is_earlier)

    def descends_from(self, lineage: Iterable[str]) -> None:
        """From now on the trial is a clone of the checkpoint that ``lineage`` begins with."""
        self.lineage = tuple(lineage)[:_MAX_ANCESTORS]

    def forget(self, id: str, section: str, key: str) -> None:
        """Forget a medium that could not be stored: if it comes again, it is tried again."""
        with self._lock:
            self._paths.pop(id, None)
            if self._by_content.get(id[:CONTENT_DIGITS]) == id:  # not that of a later round
                del self._by_content[id[:CONTENT_DIGITS]]
            self._listed.discard((id, section, key))

    def _comes_again(self, id: str) -> bool:
        """Note that a medium is recorded now; return whether it was before, and the trial has gone back since."""
        before, self._seen_in[id] = self._seen_in.get(id, 0), self._times_back
        return id in self._paths and before < self._times_back

    def _remember(self, key: Key, path: str) -> None:
        id = key[0]
        self._paths[id] = path
        self._by_content[id[:CONTENT_DIGITS]] = id
        self._listed.add(key)
