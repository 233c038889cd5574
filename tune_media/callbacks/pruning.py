"""Retention in an experiment: which files are deleted as new media come, and of which trial everything is kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tune_media.storage.retention import StoredFile, take_surplus_of_experiment
from tune_media.storage.trial_store import TrialStore
from tune_media.values.options import Retention

Best = tuple[str, float]


class Pruner:
    """Chooses the files that an experiment's policy does not keep.

    Tune's loop calls ``saw``; the storage's reader calls all other methods.

    Attributes:
        policy: Which files are kept.
        best: The id of the best trial and its value, if one is known.

    Args:
        policy: Which files are kept.
    """

    def __init__(self, policy: Retention) -> None:
        self.policy = policy
        self.best: Best | None = None

    @property
    def needs_ended_trials(self) -> bool:
        """Whether files of trials that have ended may be deleted later, so that their stores must stay."""
        return bool(self.policy.best_trial_by or self.policy.experiment_bytes)

    def saw(self, trial_id: str, result: Mapping[str, Any]) -> str | None:
        """Take note of a result; return the trial that was the best until now, if another one has become it."""
        value = number_at(result, self.policy.best_trial_by) if self.policy.best_trial_by else None
        if value is None or not self.policy.better(value, self.best[1] if self.best else None):
            return None
        former, self.best = self.best, (trial_id, value)
        return former[0] if former and former[0] != trial_id else None

    def surplus_of_trial(self, store: TrialStore) -> list[StoredFile]:
        """Return the files of one trial that have to go."""
        is_best = self.best is not None and self.best[0] == store.location.trial_id
        return store.files.take_surplus(is_best=is_best)

    def surplus_of_experiment(self, stores: Collection[TrialStore]) -> list[tuple[TrialStore, list[StoredFile]]]:
        """Return the files of each trial that have to go so that all trials together are within their limit."""
        if not self.policy.experiment_bytes:
            return []
        files = [store.files for store in stores]
        surplus = take_surplus_of_experiment(files, self.policy, self.best[0] if self.best else None)
        of = {
            store.location.trial_id: [file for file in surplus if file.trial_id == store.location.trial_id]
            for store in stores
        }
        return [(store, of[store.location.trial_id]) for store in stores if of[store.location.trial_id]]


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
