"""Retention in an experiment: what is deleted as new media come, and of which trial everything is kept."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

import pyarrow.fs

from tune_media.entries import Place
from tune_media.index import read_index
from tune_media.retention import Retention, surplus_of_experiment, surplus_of_trial
from tune_media.store import TrialStore

Best = tuple[str, float]


class Keeper:
    """Deletes what an experiment's policy does not keep. All but ``saw`` is called by the storage's thread.

    Args:
        policy: What is kept.
    """

    def __init__(self, policy: Retention) -> None:
        self.policy = policy
        self.best: Best | None = None
        self._stores: dict[str, TrialStore] = {}  # of trials that are over, too
        self._has_looked = False

    def saw(self, trial_id: str, result: Mapping[str, Any]) -> str | None:
        """Take note of a result; return the trial that was the best until now, where another one is."""
        value = _at(result, self.policy.best_trial) if self.policy.best_trial else None
        if value is None or not self.policy.better(value, self.best[1] if self.best else None):
            return None
        former, self.best = self.best, (trial_id, value)
        return former[0] if former and former[0] != trial_id else None

    def tidy(self, store: TrialStore) -> None:
        """Delete what is too much now that a trial has more."""
        if self.policy.best_trial or self.policy.experiment_bytes:
            self._stores[store.place.trial_id] = store
        self.tidy_trial(store)
        if self.policy.experiment_bytes:
            self._look_around(store.place)
            files = [file for other in self._stores.values() for file in other.files.values()]
            surplus = surplus_of_experiment(files, self.policy, self.best[0] if self.best else None)
            for trial_id in {file.trial_id for file in surplus}:
                self._stores[trial_id].delete([file.path for file in surplus if file.trial_id == trial_id])

    def tidy_trial(self, store: TrialStore) -> None:
        """Delete what is too much in one trial."""
        is_best = self.best is not None and self.best[0] == store.place.trial_id
        store.delete([file.path for file in surplus_of_trial(store.files.values(), self.policy, is_best=is_best)])

    def tidy_former_best(self, trial_id: str) -> None:
        """Apply the policy to a trial of which everything was kept."""
        if trial_id not in self._stores and self._stores:
            self._look_around(next(iter(self._stores.values())).place)
        if trial_id in self._stores:
            self.tidy_trial(self._stores[trial_id])

    def _look_around(self, place: Place) -> None:
        """Find the trials that were over before the experiment was restored."""
        if self._has_looked:
            return
        experiment = posixpath.dirname(place.path)
        for info in place.filesystem.get_file_info(pyarrow.fs.FileSelector(experiment, allow_not_found=True)):
            ids = {line.get("trial_id") for line in read_index(place.filesystem, info.path)} if not info.is_file else ()
            for trial_id in {id for id in ids if isinstance(id, str)} - self._stores.keys():
                local = place.local_path.parent / posixpath.basename(info.path)
                store = TrialStore(Place(place.filesystem, info.path, local, trial_id), self.policy)
                store.load()
                self._stores[trial_id] = store
        self._has_looked = True


def _at(result: Mapping[str, Any], path: str) -> float | None:
    """Return a number of a result by its path, ``outer/inner``."""
    value: Any = result
    for part in path.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
