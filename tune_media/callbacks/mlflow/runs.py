"""The MLflow runs of a sweep: found again by a tag, or created."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tune_media.callbacks.mlflow.connection import find_experiment
from tune_media.callbacks.mlflow.run import MlflowRun
from tune_media.callbacks.mlflow.valid_names import tag_value

TRIAL_TAG = "tune_media.trial"


class MlflowRuns:
    """The runs of a sweep on an MLflow server, or in a database. The backend's thread calls all its methods.

    ``experiment`` has the ``name`` of the MLflow experiment, which is created if there is none, and its
    ``artifact_location``. Files are in ``folder`` until MLflow has them.
    """

    def __init__(
        self,
        uris: Mapping[str, str | None],
        experiment: Mapping[str, str | None],
        sweep: str,
        folder: Path | None = None,
    ) -> None:
        self._uris, self._folder = uris, folder
        self._experiment, self._sweep = experiment, sweep
        self._runs: dict[str, MlflowRun] = {}  # by trial

    def start(self, trial_id: str, name: str, tags: Mapping[str, Any], *, time: float | None = None) -> MlflowRun:
        """Return the trial's run: the one that it has, even from before a restore, or a new one."""
        if trial_id not in self._runs:
            run = self._find(trial_id)
            if run is None:
                of_run = {**tags, "trial_name": name, TRIAL_TAG: self._tag_of(trial_id)}
                began = None if time is None else round(1000 * time)
                run = self._client.create_run(self._experiment_id, began, of_run, name)
            self._runs[trial_id] = MlflowRun(self._client, run, self._folder)
        self._runs[trial_id].go_on()
        return self._runs[trial_id]

    def __getitem__(self, trial_id: str) -> MlflowRun:
        return self._runs[trial_id]

    def forget(self, trial_id: str) -> None:
        """Forget a run that has ended; if its trial starts again, it is found by its tag."""
        self._runs.pop(trial_id, None)

    @functools.cached_property
    def _client(self) -> Any:
        from mlflow.tracking import MlflowClient

        return MlflowClient(**self._uris)

    @functools.cached_property
    def _experiment_id(self) -> str:
        experiment = find_experiment(self._client, self._experiment["name"])
        if experiment is None:
            try:
                return str(self._client.create_experiment(**self._experiment))
            except Exception:
                # Another process has made it since, or a server that was too slow to answer the same request before.
                experiment = find_experiment(self._client, self._experiment["name"])
                if experiment is None:
                    raise
        return str(experiment.experiment_id)

    def _tag_of(self, trial_id: str) -> str:
        return tag_value(f"{self._sweep}/{trial_id}")

    def _find(self, trial_id: str) -> Any:
        of_trial = f"tags.`{TRIAL_TAG}` = '{self._tag_of(trial_id)}'"
        runs = self._client.search_runs([self._experiment_id], of_trial, max_results=1, order_by=["start_time"])
        return runs[0] if runs else None
