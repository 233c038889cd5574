"""The files that retention chooses from, and the choice: which of them have to go.

Files are kept in sorted lists, so that a choice looks at the ends of these lists and not at all files.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections.abc import Collection, Iterable, Iterator
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


class TrialFiles:
    """The media files of one trial that retention chooses from; the storage's thread calls all methods.

    Attributes:
        nbytes: The size of all files.

    Args:
        policy: Which files are kept; None: all, and none is remembered here.
        trial_id: The trial; index lines of others are passed over.

    Example:
        >>> files = TrialFiles(Retention(last=1))
        >>> for step in (1, 2):
        ...     files.add(StoredFile(f"clip {step}", "trial", 10, (step, step), keys={("train", "clip")}))
        >>> [file.path for file in files.take_surplus(is_best=False)]
        ['clip 1']
    """

    def __init__(self, policy: Retention | None, trial_id: str = "") -> None:
        self.nbytes = 0
        self.policy, self._trial_id = policy, trial_id
        self._files: dict[str, StoredFile] = {}
        self._live = _SortedFiles()
        self._rolled_back = _SortedFiles()
        self._groups: dict[Group, _Group] = {}
        self._changed: set[Group] = set()  # groups in which a file came or changed since the last choice
        self._was_best = False

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def __getitem__(self, path: str) -> StoredFile:
        return self._files[path]

    def values(self) -> Collection[StoredFile]:
        """Return all files."""
        return self._files.values()

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
        known = self._files.get(file.path)
        if known is not None:
            self.discard(file.path)
            file.keys |= known.keys
        self._files[file.path] = file
        self.nbytes += file.nbytes
        (self._rolled_back if file.rolled_back else self._live).add(file.order, file)
        for key in file.keys:
            self._groups.setdefault(key, _Group(self.policy or Retention())).add(file)
        self._changed |= file.keys

    def discard(self, path: str) -> None:
        """Remove a file, if it is here."""
        file = self._files.pop(path, None)
        if file is None:
            return
        self.nbytes -= file.nbytes
        (self._rolled_back if file.rolled_back else self._live).remove(file.order, file)
        for key in file.keys:
            self._groups[key].remove(file)

    def mark(self, path: str, *, rolled_back: bool) -> None:
        """Note that a file no longer counts because its trial went back, or that it counts again."""
        file = self._files.get(path)
        if file is not None and file.rolled_back != rolled_back:
            self.discard(path)
            file.rolled_back = rolled_back
            self.add(file)

    def in_order_of_loss(self) -> Iterator[tuple[int, StoredFile]]:
        """Yield the files in the order in which byte limits delete them, each with the number of its class.

        The classes are: 0, rolled back; 1, all others; 2, the best of each key. In each, the oldest file comes first.
        """
        best = {file.path for group in self._groups.values() for file in group.best()}
        yield from ((0, file) for file in self._rolled_back)
        yield from ((1, file) for file in self._live if file.path not in best)
        yield from ((2, file) for file in self._live if file.path in best)

    def take_surplus(self, *, is_best: bool) -> list[StoredFile]:
        """Remove the files that have to go, and return them.

        Args:
            is_best: Whether this trial is the best one, of which everything is kept but for the byte limit.
        """
        if self.policy is None:
            return []
        if self._was_best and not is_best:  # now the rules apply to files that they were not applied to
            self._changed |= self._groups.keys()
        self._was_best = is_best
        surplus: list[StoredFile] = []
        if not is_best and (self.policy.last or self.policy.best):
            surplus = [file for file in self._of_changed() if not self._is_kept(file)]
            self._remove(surplus)
        self._changed.clear()
        if self.policy.trial_bytes and self.nbytes > self.policy.trial_bytes:
            surplus += self._take_until(self.policy.trial_bytes)
        return surplus

    def _of_changed(self) -> list[StoredFile]:
        found = {file.path: file for key in self._changed for file in self._groups[key].candidates()}
        return sorted(found.values(), key=lambda file: file.order)

    def _is_kept(self, file: StoredFile) -> bool:
        if file.rolled_back:
            return False
        return any(self._groups[key].keeps(file) for key in file.keys)

    def _take_until(self, limit: int) -> list[StoredFile]:
        """Remove files until the rest is within a limit, and return them."""
        surplus, size = [], self.nbytes
        for _, file in self.in_order_of_loss():
            if size <= limit:
                break
            surplus.append(file)
            size -= file.nbytes
        self._remove(surplus)
        return surplus

    def _remove(self, files: Iterable[StoredFile]) -> None:
        for file in files:
            self.discard(file.path)


def take_surplus_of_experiment(
    trials: Collection[TrialFiles], policy: Retention, best_trial: str | None
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
    surplus: list[tuple[StoredFile, TrialFiles]] = []
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
    trial: TrialFiles, best_trial: str | None
) -> Iterator[tuple[tuple[bool, bool, int], float, StoredFile, TrialFiles]]:
    for kind, file in trial.in_order_of_loss():
        is_live = kind > 0
        yield (is_live, is_live and file.trial_id == best_trial, kind), file.order[1], file, trial


class _SortedFiles:
    """Files in the order of a rank that is given with each."""

    def __init__(self) -> None:
        self._items: list[tuple[tuple[float, ...], str, StoredFile]] = []

    def add(self, rank: tuple[float, ...], file: StoredFile) -> None:
        bisect.insort(self._items, (rank, file.path, file), key=lambda item: item[:2])

    def remove(self, rank: tuple[float, ...], file: StoredFile) -> None:
        at = self.position(rank, file)
        if at < len(self._items) and self._items[at][1] == file.path:
            del self._items[at]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[StoredFile]:
        return (item[2] for item in self._items)

    def position(self, rank: tuple[float, ...], file: StoredFile) -> int:
        """Return how many files come before one."""
        return bisect.bisect_left(self._items, (rank, file.path), key=lambda item: item[:2])

    def between(self, start: int, stop: int | None = None) -> list[StoredFile]:
        return [item[2] for item in self._items[start:stop]]


class _Group:
    """The files of one key, by age and by value."""

    def __init__(self, policy: Retention) -> None:
        self._last, self._best = policy.last or 0, policy.best or 0
        self._sign = -1 if policy.mode == "max" else 1
        self._by_age, self._by_value = _SortedFiles(), _SortedFiles()
        self._rolled_back: dict[str, StoredFile] = {}

    def add(self, file: StoredFile) -> None:
        if file.rolled_back:
            self._rolled_back[file.path] = file
            return
        if self._last or file.value is not None:  # without ``last``, a file that has no value stays
            self._by_age.add(file.order, file)
        if file.value is not None:
            self._by_value.add(self._rank(file), file)

    def remove(self, file: StoredFile) -> None:
        self._rolled_back.pop(file.path, None)
        self._by_age.remove(file.order, file)
        if file.value is not None:
            self._by_value.remove(self._rank(file), file)

    def candidates(self) -> Iterator[StoredFile]:
        """Return the files that this key alone would not keep, and some that it would."""
        if self._last:
            others = self._by_age.between(0, max(0, len(self._by_age) - self._last))
        else:
            others = self._by_value.between(self._best)
        return itertools.chain(list(self._rolled_back.values()), others)

    def best(self) -> list[StoredFile]:
        return self._by_value.between(0, self._best)

    def keeps(self, file: StoredFile) -> bool:
        """Say whether the rules keep a file that is not rolled back."""
        if file.value is not None and self._by_value.position(self._rank(file), file) < self._best:
            return True
        if not self._last:  # ``best`` alone deletes no file that has no value
            return file.value is None
        return self._by_age.position(file.order, file) >= len(self._by_age) - self._last

    def _rank(self, file: StoredFile) -> tuple[float, ...]:
        return (self._sign * (file.value or 0.0), *file.order)


def _number(value: Any) -> float | None:
    """Return the value of a field that ought to be a number; None if it is none, or not finite."""
    try:
        number = float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return None
    return number if number is not None and math.isfinite(number) else None
