"""The files that retention chooses from, and the choice: which of them have to go."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tune_media.storage.entry import STORED
from tune_media.storage.index_lines import Line
from tune_media.storage.own_files import is_medium_name
from tune_media.values.options import Retention

Group = tuple[str, str]


@dataclass
class StoredFile:
    """A media file that is on the storage.

    Attributes:
        path: Its path, relative to its trial's folder.
        trial_id: Its trial.
        nbytes: Its size.
        order: Its training iteration and the time at which it was listed: they grow from the oldest to the newest.
        value: The value by which ``Retention(best=...)`` compares, or None.
        rolled_back: Whether the trial went back behind its iteration.
        keys: The section and key of each index line that names it.
    """

    path: str
    trial_id: str
    nbytes: int
    order: tuple[float, float]
    value: float | None = None
    rolled_back: bool = False
    keys: set[Group] = field(default_factory=set)

    @property
    def age(self) -> tuple[tuple[float, float], str]:
        """Sorts files from the oldest to the newest."""
        return self.order, self.path


def file_of_line(line: Line, by: str) -> StoredFile:
    """Return the file that an index line names; ``by`` is the fact or metric that ``best`` compares."""
    return StoredFile(
        str(line["path"]),
        str(line.get("trial_id")),
        int(_number(line.get("bytes")) or 0),
        (_number(line.get("training_iteration")) or 0.0, _number(line.get("time")) or 0.0),
        value_of_line(line, by),
        bool(line.get("rolled_back")),
        {(str(line["section"]), str(line["key"]))},
    )


def value_of_line(line: Line, by: str) -> float | None:
    """Return a fact or metric of an index line as a number; None if it has none.

    >>> value_of_line({"episode_return": 3, "metrics": {"speed": 1.5}}, "speed")
    1.5
    """
    metrics = line.get("metrics")
    return _number(line.get(by, metrics.get(by) if isinstance(metrics, dict) else None))


class KeptFiles:
    """The media files of one trial that retention chooses from; the storage's thread calls all methods.

    Attributes:
        nbytes: The size of all files.

    Args:
        policy: Which files are kept; None: all, and none is remembered here.
        trial_id: The trial; index lines of others are passed over.

    Example:
        >>> files = KeptFiles(Retention(last=1))
        >>> for step in (1, 2):
        ...     files.add(StoredFile(f"clip {step}", "trial", 10, (step, step), keys={("train", "clip")}))
        >>> [file.path for file in files.take_surplus(is_best=False)]
        ['clip 1']
    """

    def __init__(self, policy: Retention | None, trial_id: str = "") -> None:
        self.nbytes = 0
        self.policy, self._trial_id = policy, trial_id
        self._live: dict[str, StoredFile] = {}  # as they came: the oldest first
        self._rolled_back: dict[str, StoredFile] = {}
        self._has_changed = False  # since the last choice

    def values(self) -> list[StoredFile]:
        """Return all files."""
        return [*self._rolled_back.values(), *self._live.values()]

    def add_lines(self, lines: Iterable[Line]) -> None:
        """Add the media files of the trial's own index lines, if there is a policy."""
        if self.policy is None:
            return
        for line in lines:
            is_own = line.get("trial_id") == self._trial_id and is_medium_name(line["path"])
            if is_own and line.get("status") == STORED:
                self.add(file_of_line(line, self.policy.by))

    def add(self, file: StoredFile) -> None:
        """Add a file; if it is known, add the keys under which it is listed."""
        known = self._get(file.path)
        if known is not None:
            self.discard(file.path)
            file.keys |= known.keys
        (self._rolled_back if file.rolled_back else self._live)[file.path] = file
        self.nbytes += file.nbytes
        self._has_changed = True

    def discard(self, path: str) -> None:
        """Remove a file, if it is here."""
        file = self._get(path)
        if file is not None:
            del (self._rolled_back if file.rolled_back else self._live)[path]
            self.nbytes -= file.nbytes

    def mark(self, path: str, *, rolled_back: bool) -> None:
        """Note that a file no longer counts because its trial went back, or that it counts again."""
        file = self._get(path)
        if file is not None and file.rolled_back != rolled_back:
            self.discard(path)
            file.rolled_back = rolled_back
            self.add(file)

    def _get(self, path: str) -> StoredFile | None:
        return self._live.get(path) or self._rolled_back.get(path)

    def in_order_of_loss(self) -> Iterator[tuple[int, StoredFile]]:
        """Yield the files in the order in which byte limits delete them, each with the number of its class.

        The classes are: 0, rolled back; 1, all others; 2, the best of each key. In each, the oldest file comes first.
        """
        yield from ((0, file) for file in self._rolled_back.values())
        best = {file.path for group in self._groups() for file in self._best_of(group)}
        yield from ((1, file) for path, file in self._live.items() if path not in best)
        yield from ((2, file) for path, file in self._live.items() if path in best)

    def take_surplus(self, *, is_best: bool) -> list[StoredFile]:
        """Remove the files that have to go, and return them.

        Args:
            is_best: Whether this trial is the best one, of which everything is kept but for the byte limit.
        """
        if self.policy is None:
            return []
        surplus: list[StoredFile] = []
        if self._has_changed and not is_best and (self.policy.last or self.policy.best):
            kept = {file.path for group in self._groups() for file in self._kept_of(group)}
            surplus = sorted((file for file in self.values() if file.path not in kept), key=lambda file: file.age)
            self._has_changed = False
        size, limit = self.nbytes - sum(file.nbytes for file in surplus), self.policy.trial_bytes or math.inf
        self._remove(surplus)
        if size > limit:
            lost = []
            for _, file in self.in_order_of_loss():
                if size <= limit:
                    break
                lost.append(file)
                size -= file.nbytes
            self._remove(lost)
            surplus += lost
        return surplus

    def _remove(self, files: Iterable[StoredFile]) -> None:
        for file in files:
            self.discard(file.path)

    def _groups(self) -> Iterable[list[StoredFile]]:
        """Return the files of each key that rules on keys look at: none that is rolled back."""
        groups: dict[Group, list[StoredFile]] = {}
        has_rules = self.policy is not None and (self.policy.last or self.policy.best)
        for file in self._live.values() if has_rules else ():
            for key in file.keys:
                groups.setdefault(key, []).append(file)
        return groups.values()

    def _best_of(self, group: Iterable[StoredFile]) -> list[StoredFile]:
        policy = self.policy or Retention()
        sign = -1 if policy.mode == "max" else 1
        valued = (file for file in group if file.value is not None)
        return heapq.nsmallest(policy.best or 0, valued, key=lambda file: (sign * (file.value or 0.0), file.age))

    def _kept_of(self, group: Sequence[StoredFile]) -> list[StoredFile]:
        last = self.policy.last if self.policy is not None else None
        if last is None:  # ``best`` alone deletes no file that has no value
            newest = [file for file in group if file.value is None]
        else:
            newest = heapq.nlargest(last, group, key=lambda file: file.age)
        return [*newest, *self._best_of(group)]


def take_surplus_of_experiment(
    trials: Collection[KeptFiles], policy: Retention, best_trial: str | None
) -> list[StoredFile]:
    """Remove the files that have to go so that an experiment is within ``experiment_bytes``, and return them.

    Rolled-back files go first, then the oldest, then the best of each key; those of the best trial go last.

    Args:
        trials: The files of each trial.
        policy: Which files are kept.
        best_trial: The id of the best trial, if one is known.
    """
    excess = sum(trial.nbytes for trial in trials) - (policy.experiment_bytes or math.inf)
    if excess <= 0:
        return []
    surplus: list[tuple[StoredFile, KeptFiles]] = []
    rankings = [_by_urgency(trial, best_trial) for trial in trials]
    for _, _, file, trial in heapq.merge(*rankings, key=lambda item: item[:2]):
        if excess <= 0:
            break
        surplus.append((file, trial))
        excess -= file.nbytes
    for file, trial in surplus:
        trial.discard(file.path)
    return [file for file, _ in surplus]


def _by_urgency(
    trial: KeptFiles, best_trial: str | None
) -> Iterator[tuple[tuple[bool, bool, int], float, StoredFile, KeptFiles]]:
    for kind, file in trial.in_order_of_loss():
        is_live = kind > 0
        yield (is_live, is_live and file.trial_id == best_trial, kind), file.order[1], file, trial


def _number(value: Any) -> float | None:
    """Return the value of a field that ought to be a number; None if it is none, or not finite."""
    try:
        number = float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return None
    return number if number is not None and math.isfinite(number) else None
