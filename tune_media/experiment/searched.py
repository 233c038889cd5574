"""Which hyperparameters Tune searched."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tune_media.experiment.params import differing, flat_values, searched_params
from tune_media.experiment.state import ExperimentState, Snapshots

if TYPE_CHECKING:
    from tune_media.experiment.trial_files import TrialFiles


class SearchedParams:
    """The hyperparameters that Tune searched, of trials that are looked at together; read when somebody asks.

    Tune's snapshots name them. Without a snapshot of a trial, they are those that differ between the trials.

    Args:
        trials: The trials.

    Example:
        >>> SearchedParams([]).trials
        []
    """

    def __init__(self, trials: Sequence[TrialFiles]) -> None:
        self.trials = list(trials)
        self._snapshots, self._lock = Snapshots(), threading.Lock()
        self._states: dict[str, ExperimentState] = {}
        self._differing: list[str] | None = None

    def of(self, trial: TrialFiles) -> dict[str, Any]:
        """Return those of one trial, nested ones as ``outer/inner``, with the values that it had last."""
        chosen = self.chosen(trial)
        if not chosen:
            if self._differing is None:
                self._differing = differing([one.config for one in self.trials])
            return {name: trial.config.get(name) for name in self._differing}
        return dict(flat_values(searched_params(trial.read_config(), chosen)))

    def chosen(self, trial: TrialFiles) -> dict[str, Any]:
        """Return what Tune chose for a trial, see ``nested_choice``; empty if no snapshot has it."""
        return dict(self._state_of(trial).searched_by(trial.trial_ids, trial.path))

    def _state_of(self, trial: TrialFiles) -> ExperimentState:
        experiment = posixpath.dirname(trial.path.rstrip("/"))
        with self._lock:
            if experiment not in self._states:
                try:
                    self._states[experiment] = self._snapshots.of(trial.filesystem, experiment)
                except OSError:  # the storage is away; the trials themselves have been read
                    self._states[experiment] = ExperimentState()
            return self._states[experiment]
