"""The media of a trial that are known: their files, and under which keys they are listed."""

from __future__ import annotations

import hashlib
import posixpath
import threading
from collections.abc import Callable, Iterable

from tune_media.storage.entry import DELETED, LOST, STORED, MediaEntry
from tune_media.storage.episode_files import file_names
from tune_media.storage.index_lines import Key, Line, key_of
from tune_media.storage.names import ID_DIGITS, file_name, safe_key
from tune_media.storage.rollback import Rollbacks
from tune_media.values.content_hash import ContentHash
from tune_media.values.medium import CONTENT_DIGITS, Medium, new_id

_MAX_ANCESTORS = 50


class Registry:
    """The media of a trial that are known.

    Tune's loop calls ``register``, ``report_path``, ``knows``, ``descends_from`` and ``wait_until_complete``, which are
    quick; the storage's thread calls the others.

    Example:
        >>> from tune_media import Artifact
        >>> registry = Registry("trial", Rollbacks())
        >>> registry.load([])
        >>> registry.complete()
        >>> path, entry = registry.register(Artifact(b"x", name="x.bin"), "train", "weights", 7, 3)
        >>> path.startswith("media/train/weights/step_000000007-"), entry.training_iteration
        (True, 3)

    Attributes:
        lineage: The checkpoints that the trial descends from, ``<trial id>@<training iteration>``, the nearest first.

    Args:
        trial_id: The trial; index lines of other trials in the same folder only reserve their file names.
        rollbacks: The lives of the trial.
    """

    def __init__(self, trial_id: str, rollbacks: Rollbacks) -> None:
        self.lineage: tuple[str, ...] = ()
        self._trial_id = trial_id
        self._rollbacks = rollbacks
        self._paths: dict[str, str] = {}  # id of a medium -> its file
        self._by_content: dict[str | None, str] = {}  # the content of a repeated medium -> the id of the first
        self._hashes: dict[str, ContentHash] = {}  # of media whose ids are made from a sample, by their content
        self._taken: set[str] = set()  # names of files that others may not have
        self._lost: set[str] = set()  # names of files that were not stored; no other report may have them either
        self._listed: set[Key] = set()
        self._earlier: set[Key] = set()  # keys of lines that earlier runs wrote, but for lost media
        self._earlier_ids: set[str] = set()
        self._complete = threading.Event()
        self._lock = threading.Lock()

    def load(self, lines: Iterable[Line]) -> None:
        """Remember the index lines of earlier runs; may be called again."""
        with self._lock:
            lineage: tuple[str, ...] = ()
            for line in lines:
                self._know(line)
                if self.owns(line):
                    if line.get("status") not in LOST:
                        self._earlier.add(key_of(line))
                    self._earlier_ids.add(str(line["id"]))
                if isinstance(line.get("lineage"), list):
                    lineage = tuple(map(str, line["lineage"]))
            self.lineage = self.lineage or lineage

    def complete(self) -> None:
        """Take note that the files of earlier runs are known: their lines are loaded, their names are reserved."""
        self._complete.set()

    @property
    def is_complete(self) -> bool:
        """Whether the files of earlier runs are known."""
        return self._complete.is_set()

    def wait_until_complete(self, seconds: float) -> bool:
        """Wait at most so many seconds until the files of earlier runs are known; return whether they are."""
        return self._complete.wait(seconds)

    def owns(self, line: Line) -> bool:
        """Say whether an index line is this trial's own."""
        return line.get("trial_id") == self._trial_id

    def knows(self, medium: Medium) -> bool:
        """Say whether a medium has been registered before, under any key."""
        with self._lock:
            return medium.id in self._paths or medium.may_repeat in self._by_content

    def path_of(self, id: str) -> str | None:
        """Return the file of a medium, or None if it is not known."""
        with self._lock:
            return self._paths.get(id)

    def report_path(self, step: int) -> str:
        """Return a file name for the episodes of a result that no other result at the same step has."""
        with self._lock:
            path = file_names(step)
            if path in self._taken or path in self._lost or not self.is_complete:
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
    ) -> tuple[str, MediaEntry | None]:
        """Give a medium its file.

        Args:
            medium: The medium.
            section: ``train`` or ``evaluation``.
            key: Its place inside its section.
            step: The step at which TensorBoard shows the result.
            training_iteration: The result's training iteration.
            own_path: Returns the path of a medium that is not named like the others; called if the medium is new.

        Returns:
            Its path relative to the trial folder, and the entry to write; None instead of the entry if this medium has
            been registered under this key before.
        """
        self._tell_apart(medium)
        with self._lock:
            if medium.may_repeat in self._by_content:
                id = self._by_content[medium.may_repeat]
                self._rollbacks.live_on(id, is_known=True)
                return self._paths[id], None
            path = self._paths.get(medium.id)
        if path is None and own_path is not None:
            path = own_path()
        with self._lock:
            is_listed = (medium.id, section, key) in self._listed
            shares_file = medium.id in self._paths
            self._rollbacks.live_on(medium.id, is_known=shares_file)
            if path is None:
                path = posixpath.join("media", safe_key(section), safe_key(key), file_name(step, medium))
                is_listed = path in self._taken  # a run that was killed wrote it
            self._remember((medium.id, section, key), path)
        life = self._rollbacks.life
        entry = MediaEntry(medium, section, key, path, step, training_iteration, life, self.lineage)
        entry.is_sure, entry.shares_file = self.is_complete, shares_file
        return path, None if is_listed else entry

    def descends_from(self, lineage: Iterable[str]) -> None:
        """From now on the trial is a clone of the checkpoint that ``lineage`` begins with."""
        self.lineage = tuple(lineage)[:_MAX_ANCESTORS]

    def reserve(self, paths: Iterable[str]) -> None:
        """Keep file names from being used, because there are such files."""
        with self._lock:
            self._taken.update(paths)

    def know(self, line: Line) -> None:
        """Remember a line that has been added to the index."""
        with self._lock:
            self._know(line)

    def forget(self, entry: MediaEntry) -> None:
        """Forget a medium that could not be stored: if it comes again, it is tried again."""
        id = entry.medium.id
        content_id = id[:CONTENT_DIGITS]
        with self._lock:
            self._paths.pop(id, None)
            self._hashes.pop(id, None)
            if self._by_content.get(content_id) == id:  # not that of a later round
                del self._by_content[content_id]
                self._hashes.pop(content_id, None)
            self._listed.discard((id, entry.section, entry.key))

    def is_from_earlier_run(self, entry: MediaEntry) -> bool:
        """Say whether an earlier run has stored an entry already."""
        return (entry.medium.id, entry.section, entry.key) in self._earlier

    def is_of_earlier_run(self, entry: MediaEntry) -> bool:
        """Say whether an earlier run has listed the entry's medium, under whatever key."""
        return entry.medium.id in self._earlier_ids

    def _tell_apart(self, medium: Medium) -> None:
        """Give a medium another id if it only looks like one that is known, by the sample that its id is made from."""
        if medium.content_hash is None or (medium.is_told_by_round and medium.may_repeat is not None):
            return
        look = medium.may_repeat or medium.id
        first = self._hashes.setdefault(look, medium.content_hash)
        if first is not medium.content_hash and medium.content_hash.differs_from(first):
            digest = hashlib.blake2b(medium.content_hash.value() or b"", digest_size=CONTENT_DIGITS // 2)
            digest.update(look.encode())
            content_id = digest.hexdigest()
            medium.reidentify(content_id + medium.id[CONTENT_DIGITS:], content_id if medium.may_repeat else None)

    def _know(self, line: Line) -> None:
        path = str(line["path"])
        (self._lost if line.get("status") in LOST else self._taken).add(path)
        if self.owns(line) and line.get("status") in (STORED, DELETED):
            self._remember(key_of(line), path)

    def _remember(self, key: Key, path: str) -> None:
        id = key[0]
        self._paths[id] = path
        self._by_content[id[:CONTENT_DIGITS]] = id
        self._listed.add(key)
