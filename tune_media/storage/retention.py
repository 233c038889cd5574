"""Retention: which of the media files that are listed have to go."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tune_media.storage.entry import STORED
from tune_media.storage.index_lines import Line
from tune_media.storage.own_files import is_medium_name
from tune_media.values.options import Retention

Key = TypeVar("Key")

_PATIENCE = 4  # clips that must lack a value before it counts as misspelt
_MAX_NAMES = 12


@dataclass
class StoredFile:
    """A media file that is on the storage.

    Attributes:
        path: Its path, relative to its trial's folder.
        nbytes: Its size.
        order: Its training iteration and the time at which it was listed: they grow from the oldest to the newest.
        value: The value by which ``Retention(best=...)`` compares, or None.
        rolled_back: Whether the trial went back behind its iteration.
        keys: The section and key of each index line that names it.
    """

    path: str
    nbytes: int
    order: tuple[float, float]
    value: float | None = None
    rolled_back: bool = False
    keys: set[tuple[str, str]] = field(default_factory=set)

    @property
    def age(self) -> tuple[tuple[float, float], str]:
        """Sorts files from the oldest to the newest."""
        return self.order, self.path


def files_of(lines: Iterable[Line], by: str) -> list[StoredFile]:
    """Return the media files that folded lines of a trial list as stored, the oldest first.

    Args:
        lines: The lines.
        by: The fact or metric that ``best`` compares.
    """
    files: dict[str, StoredFile] = {}
    for line in lines:
        if line.get("status") != STORED or not is_medium_name(line["path"]):
            continue
        key, file = (str(line["section"]), str(line["key"])), files.get(line["path"])
        if file is None:
            order = (_number(line.get("training_iteration")) or 0.0, _number(line.get("time")) or 0.0)
            nbytes = int(_number(line.get("bytes")) or 0)
            is_back = bool(line.get("rolled_back"))
            files[line["path"]] = StoredFile(line["path"], nbytes, order, value_of_line(line, by), is_back, {key})
        else:
            file.keys.add(key)
            file.rolled_back &= bool(line.get("rolled_back"))
    return sorted(files.values(), key=lambda file: file.age)


def value_of_line(line: Mapping[str, Any], by: str) -> float | None:
    """Return a fact or metric of an index line as a number; None if it has none.

    >>> value_of_line({"episode_return": 3, "metrics": {"speed": 1.5}}, "speed")
    1.5
    """
    metrics = line.get("metrics")
    return _number(line.get(by, metrics.get(by) if isinstance(metrics, dict) else None))


def misspelt(lines: Iterable[Line], policy: Retention) -> str:
    """Return what is wrong with a policy that compares by something that no clip of a trial has; else nothing."""
    clips = [line for line in lines if "episode_return" in line]
    if policy.best is None or len(clips) < _PATIENCE or any(value_of_line(one, policy.by) is not None for one in clips):
        return ""
    metrics = [one["metrics"] for one in clips[:_PATIENCE] if isinstance(one.get("metrics"), dict)]
    facts = {name: value for values in (*metrics, *clips[:_PATIENCE]) for name, value in values.items()}
    names = [name for name in facts if value_of_line(facts, name) is not None]
    return (
        f"Retention(by={policy.by!r}) keeps no clip as one of the best: none of the first {_PATIENCE} clips of a trial "
        f"has this value. They have: {', '.join(names[:_MAX_NAMES])}{', ...' if len(names) > _MAX_NAMES else ''}"
    )


def surplus_of_trial(files: Sequence[StoredFile], policy: Retention) -> list[StoredFile]:
    """Return the files of a trial that have to go.

    Args:
        files: Its files, as ``files_of`` returns them.
        policy: Which files are kept.

    Example:
        >>> files = [StoredFile(f"clip {n}", 10, (n, n), keys={("train", "clip")}) for n in (1, 2)]
        >>> [file.path for file in surplus_of_trial(files, Retention(last=1))]
        ['clip 1']
    """
    surplus: list[StoredFile] = []
    if policy.last or policy.best:
        kept = {file.path for group in _groups(files) for file in _kept_of(group, policy)}
        surplus = [file for file in files if file.path not in kept]
    gone = {file.path for file in surplus}
    rest = [file for file in files if file.path not in gone]
    excess = sum(file.nbytes for file in rest) - (policy.trial_bytes or math.inf)
    for _, file in sorted(_by_loss(rest, policy), key=lambda item: (item[0], item[1].age)):
        if excess <= 0:
            break
        surplus.append(file)
        excess -= file.nbytes
    return surplus


def surplus_of_experiment(
    trials: Mapping[Key, Collection[StoredFile]], policy: Retention
) -> list[tuple[Key, StoredFile]]:
    """Return the trial and the file of each that has to go so that an experiment is within ``experiment_bytes``.

    Rolled-back files go first, then the oldest, then the best of each key.

    Args:
        trials: The files of each trial.
        policy: Which files are kept.
    """
    excess = sum(file.nbytes for files in trials.values() for file in files) - (policy.experiment_bytes or math.inf)
    if excess <= 0:
        return []
    ranked = [(loss, file.order[1], id, file) for id, files in trials.items() for loss, file in _by_loss(files, policy)]
    surplus: list[tuple[Key, StoredFile]] = []
    for _, _, id, file in sorted(ranked, key=lambda item: item[:2]):
        if excess <= 0:
            break
        surplus.append((id, file))
        excess -= file.nbytes
    return surplus


def _by_loss(files: Collection[StoredFile], policy: Retention) -> list[tuple[int, StoredFile]]:
    """Return each file with the number of its class: 0, rolled back; 1, all others; 2, the best of each key."""
    best = {file.path for group in _groups(files) for file in _best_of(group, policy)} if policy.best else set()
    return [(0 if file.rolled_back else 2 if file.path in best else 1, file) for file in files]


def _groups(files: Iterable[StoredFile]) -> Iterable[list[StoredFile]]:
    """Return the files of each key that rules on keys look at: none that is rolled back."""
    groups: dict[tuple[str, str], list[StoredFile]] = {}
    for file in files:
        for key in () if file.rolled_back else file.keys:
            groups.setdefault(key, []).append(file)
    return groups.values()


def _best_of(group: Iterable[StoredFile], policy: Retention) -> list[StoredFile]:
    sign = -1 if policy.mode == "max" else 1
    valued = (file for file in group if file.value is not None)
    return heapq.nsmallest(policy.best or 0, valued, key=lambda file: (sign * (file.value or 0.0), file.age))


def _kept_of(group: Sequence[StoredFile], policy: Retention) -> list[StoredFile]:
    if policy.last is None:  # ``best`` alone deletes no file that has no value
        newest = [file for file in group if file.value is None]
    else:
        newest = heapq.nlargest(policy.last, group, key=lambda file: file.age)
    return [*newest, *_best_of(group, policy)]


def _number(value: Any) -> float | None:
    """Return the value of a field that ought to be a number; None if it is none, or not finite."""
    try:
        number = float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return None
    return number if number is not None and math.isfinite(number) else None
