"""Which of a trial's media are kept when not all of them are."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Retention:
    """Which media files are kept; what is known of episodes (``episode_data``) and all metrics always are.

    ``last`` and ``best`` count within each key of a section (``evaluation``, ``episodes/best``); what either of them
    keeps is kept, and without both everything is; ``best`` alone takes nothing that has no such value. The sizes come
    on top: what is rolled back goes first, then the oldest, and what ``best`` keeps goes last.

    Attributes:
        last: Keep the last so many of each key.
        best: Keep the best so many of each key.
        by: By which fact or metric of their episode.
        mode: ``"max"`` or ``"min"``.
        best_trial: Keep everything of the trial in which this metric of the result, for example
            ``"evaluation/env_runners/episode_return_mean"``, is best (by ``mode``) so far. When another trial becomes
            the best, the rest applies to this one again.
        trial_bytes: Keep at most so many bytes of media a trial; of the best trial, too.
        experiment_bytes: Keep at most so many bytes of media in all trials; the best trial's go last.

    Raises:
        ValueError: A value that makes no sense.
    """

    last: int | None = None
    best: int | None = None
    by: str = "episode_return"
    mode: str = "max"
    best_trial: str | None = None
    trial_bytes: int | None = None
    experiment_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("last", "best", "trial_bytes", "experiment_bytes"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value > 0):
                raise ValueError(f"Retention({name}=...) must be a whole number above 0 or None, got {value!r}.")
        if self.mode not in ("max", "min"):
            raise ValueError(f"Retention(mode=...) must be 'max' or 'min', got {self.mode!r}.")

    def better(self, value: float, than: float | None) -> bool:
        """Say whether a value is better than another; NaN never is."""
        if math.isnan(value):
            return False
        return than is None or (value > than if self.mode == "max" else value < than)


@dataclass
class Kept:
    """A media file that is on the storage.

    Attributes:
        path: Relative to its trial's folder.
        trial_id: Its trial.
        nbytes: Its size.
        order: What grows from the oldest to the newest.
        value: That by which it is good, or None.
        rolled_back: Whether its iteration was.
        keys: Under which it is listed: section and key.
    """

    path: str
    trial_id: str
    nbytes: int
    order: tuple[float, float]
    value: float | None = None
    rolled_back: bool = False
    keys: set[tuple[str, str]] = field(default_factory=set)


def kept_of_line(line: dict[str, Any], by: str) -> Kept:
    """Return what an index line says of a file."""
    metrics = line.get("metrics")
    value = line.get(by, metrics.get(by) if isinstance(metrics, dict) else None)
    good = float(value) if isinstance(value, (int, float)) and not math.isnan(value) else None
    order = (number(line.get("training_iteration")), number(line.get("time")))
    return Kept(
        str(line["path"]),
        str(line.get("trial_id")),
        int(number(line.get("bytes"))),
        order,
        good,
        bool(line.get("rolled_back")),
        {(str(line["section"]), str(line["key"]))},
    )


def surplus_of_trial(files: Iterable[Kept], policy: Retention, *, is_best: bool) -> list[Kept]:
    """Return the files of a trial that are to go."""
    files = sorted(files, key=lambda file: file.order)
    treasured = _best(files, policy)
    gone: list[Kept] = []
    if (policy.last or policy.best) and not is_best:
        kept = treasured | _last(files, policy)
        if policy.last is None:  # what has no such value is neither good nor bad
            kept |= {file.path for file in files if file.value is None and not file.rolled_back}
        gone = [file for file in files if file.path not in kept]
    if policy.trial_bytes:
        paths = {file.path for file in gone}
        gone += _until([file for file in files if file.path not in paths], policy.trial_bytes, treasured)
    return gone


def surplus_of_experiment(files: Iterable[Kept], policy: Retention, best_trial: str | None) -> list[Kept]:
    """Return the files of an experiment that are to go, so that the rest is no larger than it may be."""
    if not policy.experiment_bytes:
        return []
    files = sorted(files, key=lambda file: (file.trial_id == best_trial, file.order[1]))
    return _until(files, policy.experiment_bytes, set())


def _best(files: Sequence[Kept], policy: Retention) -> set[str]:
    """Return the paths of the best of each key."""
    sign = 1 if policy.mode == "max" else -1
    found: set[str] = set()
    for group in _groups(files).values():
        valued = [file for file in group if file.value is not None and not file.rolled_back]
        valued.sort(key=lambda file: sign * (file.value or 0.0), reverse=True)
        found |= {file.path for file in valued[: policy.best or 0]}
    return found


def _last(files: Sequence[Kept], policy: Retention) -> set[str]:
    """Return the paths of the last of each key."""
    found: set[str] = set()
    for group in _groups(files).values():
        current = [file for file in group if not file.rolled_back]
        found |= {file.path for file in current[-policy.last :]} if policy.last else set()
    return found


def _groups(files: Sequence[Kept]) -> dict[tuple[str, str], list[Kept]]:
    groups = defaultdict(list)
    for file in files:
        for key in file.keys:
            groups[key].append(file)
    return groups


def _until(files: Sequence[Kept], most: int, treasured: set[str]) -> list[Kept]:
    """Return what has to go, from the first on, until the rest is no larger than it may be."""
    gone, size = [], sum(file.nbytes for file in files)
    for file in sorted(files, key=lambda file: (file.path in treasured, not file.rolled_back)):
        if size <= most:
            break
        gone.append(file)
        size -= file.nbytes
    return gone


def number(value: Any) -> float:
    """Return a value of a line that ought to be a number; 0 where it is none."""
    return float(value) if isinstance(value, (int, float)) else 0.0
