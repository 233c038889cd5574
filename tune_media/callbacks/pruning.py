"""Retention in an experiment: which files are deleted as new media come, and of which trial everything is kept."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from tune_media.storage.filesystem import folders_in
from tune_media.storage.index_lines import lines_of_trial
from tune_media.storage.location import TrialLocation
from tune_media.storage.retention import take_surplus_of_experiment
from tune_media.storage.trial_store import TrialStore
from tune_media.values.options import Retention

Best = tuple[str, float]


class Pruner:
    """Deletes the files that an experiment's policy does not keep.

    Tune's loop calls ``saw``; the storage's thread calls all other methods.

    Attributes:
        policy: Which files are kept.
        best: The id of the best trial and its value, if one is known.

    Args:
        policy: Which files are kept.
        stores: The store of each trial, by its id, shared with all who write to them: two stores of one trial would
            each write an index of their own. The stores of trials from before a restore are added to it.
    """

    def __init__(self, policy: Retention, stores: dict[str, TrialStore] | None = None) -> None:
        self.policy = policy
        self.best: Best | None = None
        self._stores = {} if stores is None else stores
        self._has_looked = False

    @property
    def needs_ended_trials(self) -> bool:
        """Whether files of trials that have ended may be deleted later, so that their stores must stay."""
        return bool(self.policy.best_trial or self.policy.experiment_bytes)

    def saw(self, trial_id: str, result: Mapping[str, Any]) -> str | None:
        """Take note of a result; return the trial that was the best until now, if another one has become it."""
        value = number_at(result, self.policy.best_trial) if self.policy.best_trial else None
        if value is None or not self.policy.better(value, self.best[1] if self.best else None):
            return None
        former, self.best = self.best, (trial_id, value)
        return former[0] if former and former[0] != trial_id else None

    def tidy(self, store: TrialStore) -> None:
        """Delete surplus files after a trial has got a new one.

        Raises:
            OSError: The storage does not answer.
        """
        if self.needs_ended_trials:
            self._stores.setdefault(store.location.trial_id, store)
        self.tidy_trial(store)
        if self.policy.experiment_bytes:
            self._look_around(store.location)
            self._tidy_experiment(list(self._stores.values()))

    def tidy_trial(self, store: TrialStore) -> None:
        """Delete the surplus files of one trial.

        Raises:
            OSError: The storage does not answer.
        """
        is_best = self.best is not None and self.best[0] == store.location.trial_id
        store.delete(store.files.take_surplus(is_best=is_best))
        _copy_if_late(store)

    def tidy_former_best(self, trial_id: str) -> None:
        """Apply the policy to a trial of which everything was kept.

        Raises:
            OSError: The storage does not answer.
        """
        if trial_id not in self._stores and self._stores:
            self._look_around(next(iter(self._stores.values())).location)
        if trial_id in self._stores:
            self._stores[trial_id].load()
            self.tidy_trial(self._stores[trial_id])

    def _tidy_experiment(self, stores: list[TrialStore]) -> None:
        files = [store.files for store in stores]
        surplus = take_surplus_of_experiment(files, self.policy, self.best[0] if self.best else None)
        for store in stores:  # all of them before the first request: it may fail
            store.delete(file for file in surplus if file.trial_id == store.location.trial_id)
        for store in stores:
            _copy_if_late(store)

    def _look_around(self, location: TrialLocation) -> None:
        """Open the trials that had ended before the experiment was restored."""
        if self._has_looked:
            return
        filesystem, experiment = location.filesystem, posixpath.dirname(location.path)
        for folder in folders_in(filesystem, experiment):
            ids = {line.get("trial_id") for _, line in lines_of_trial(filesystem, folder) or ()}
            for trial_id in {id for id in ids if isinstance(id, str)}:
                if trial_id not in self._stores:
                    local = location.local_path.parent / posixpath.basename(folder)
                    store = TrialStore(TrialLocation(filesystem, folder, local, trial_id), self.policy)
                    store.is_over = True
                    self._stores.setdefault(trial_id, store)  # Tune's loop may have opened it just now
                self._stores[trial_id].load()  # if that failed before, it is tried again
        self._has_looked = True


def _copy_if_late(store: TrialStore) -> None:
    if store.uploads.index_is_late:
        store.uploads.copy_index()


def number_at(result: Mapping[str, Any], path: str) -> float | None:
    """Return a number of a result by its path, ``outer/inner``; None if it has none.

    >>> number_at({"env_runners": {"episode_return_mean": 3}}, "env_runners/episode_return_mean")
    3.0
    """
    value: Any = result
    for part in path.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
