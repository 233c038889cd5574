"""Trials that go back to an earlier checkpoint: which of their media no longer count."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tune_media.storage.index_lines import Line


@dataclass(frozen=True)
class _Rollback:
    """A trial went back: media that an earlier life recorded at or after an iteration no longer count."""

    life: int
    training_iteration: int
    step: int

    def undoes(self, training_iteration: Any, step: Any) -> bool:
        if isinstance(training_iteration, int):
            return training_iteration >= self.training_iteration
        return isinstance(step, int) and step >= self.step


class Rollbacks:
    """The lives of one trial: a new one begins with its first result, and when it goes back to an earlier iteration.

    The first result counts as going back because an earlier run of the trial may have gone further.

    Tune's loop calls ``goes_on`` and ``live_on``; the storage's thread calls the others.

    Example:
        >>> rollbacks = Rollbacks()
        >>> [rollbacks.goes_on(iteration, step=10 * iteration) for iteration in (1, 2, 3, 2)]
        [True, False, False, True]
        >>> [rollbacks.is_undone(1, iteration, None) for iteration in (1, 2, 3)]
        [False, True, True]
    """

    def __init__(self) -> None:
        self._rollbacks: list[_Rollback] = []
        self._lives: dict[str, int] = {}  # by id of the medium: the last life that recorded it
        self._revived: set[str] = set()
        self._last_iteration: int | None = None
        self._lock = threading.Lock()

    @property
    def life(self) -> int:
        """How often the trial has gone back."""
        return len(self._rollbacks)

    def goes_on(self, training_iteration: int, step: int) -> bool:
        """Take note of the trial's next result; return whether the trial went back, so that lines are to be marked."""
        last, self._last_iteration = self._last_iteration, training_iteration
        if last is not None and training_iteration > last:
            return False
        with self._lock:
            self._rollbacks.append(_Rollback(len(self._rollbacks) + 1, training_iteration, step))
        return True

    def live_on(self, id: str, *, is_known: bool) -> None:
        """Take note that this life of the trial has recorded a medium, for the first time or again."""
        with self._lock:
            if is_known and self._lives.get(id, 0) < self.life:
                self._revived.add(id)
            self._lives[id] = self.life

    @property
    def has_revived(self) -> bool:
        """Whether rolled-back media have been recorded again and are still marked as rolled back."""
        return bool(self._revived)

    def take_revived(self) -> Collection[str]:
        """Return the ids of the media that have been recorded again since the last call."""
        with self._lock:
            revived, self._revived = self._revived, set()
        return revived

    def is_undone(self, life: int, training_iteration: Any, step: Any) -> bool:
        """Say whether the trial went back behind an iteration after a life recorded it."""
        later = [rollback for rollback in self._rollbacks if rollback.life > life]
        return any(rollback.undoes(training_iteration, step) for rollback in later)

    def change_of(self, line: Line) -> Line | None:
        """Return the changes of an index line by the rollbacks so far, or None if there are none."""
        id = line["id"]
        was = bool(line.get("rolled_back"))
        undone = self.is_undone(self._lives.get(id, 0), line.get("training_iteration"), line.get("step"))
        if was == undone or (was and id not in self._lives):
            return None
        return {"rolled_back": undone or None}
