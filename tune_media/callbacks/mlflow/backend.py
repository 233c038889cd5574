"""The MLflow backend: each trial is a run, with its metrics, clips and histograms."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from tune_media.callbacks.backend import Backend, Report, Status, TrialInfo, clips_best_first
from tune_media.callbacks.mlflow import connection
from tune_media.callbacks.mlflow.run import MlflowRun, RefusedError
from tune_media.callbacks.mlflow.runs import MlflowRuns
from tune_media.callbacks.shown_values import numbers_of
from tune_media.storage.entry import MediaEntry
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.secrets import keep_secret

_HTTP_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
_CHECK_SECONDS = 10.0  # how long the start of the experiment waits for MLflow's first answer
_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


class MlflowBackend(Backend):
    """Logs to MLflow, in the backend's own thread; only ``setup`` is called by Tune's loop."""

    name = "MLflow"

    def __init__(self, rays: Any) -> None:
        self._rays = rays
        self._runs: MlflowRuns | None = None
        self._folder: Path | None = None  # where a file is until MLflow has it
        self.use_token()

    def use_token(self) -> None:
        """Put the token where MLflow looks for it."""
        token = self._rays.tracking_token
        if token:
            keep_secret(token)
            os.environ["MLFLOW_TRACKING_TOKEN"] = token

    @override
    def setup(self, **info: Any) -> None:
        import mlflow

        self.use_token()
        # A server that hangs would do both; the reader looks before it repeats.
        os.environ.setdefault(_HTTP_RETRIES, "0")
        rays = self._rays
        rays.tracking_uri = connection.with_password(rays.tracking_uri, "MLFLOW_TRACKING_URI")
        rays.registry_uri = connection.with_password(rays.registry_uri, "MLFLOW_REGISTRY_URI")
        if rays.tracking_uri is not None:
            mlflow.set_tracking_uri(rays.tracking_uri)
        if rays.registry_uri is not None:
            mlflow.set_registry_uri(rays.registry_uri)
        name = rays.experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME")
        connection.check(rays.tracking_uri, rays.registry_uri, _CHECK_SECONDS, name)
        rays.tags = rays.tags or {}
        self._runs = None  # of an experiment before this one

    @override
    def start(self, trial: TrialInfo) -> None:
        run = self._runs_for(trial).start(trial.trial_id, trial.name, self._rays.tags or {}, time=trial.time)
        if not self._rays.log_params_on_trial_end:
            self._log_params(run, trial.config)

    @override
    def metrics(self, trial: TrialInfo, report: Report) -> None:
        run = self._started[trial.trial_id]
        try:
            run.log_result(report, numbers_of(report.flat), trial.config)
        except RefusedError as error:
            self.context.fault("logging metrics", error)
        if report.config is not None and not self._rays.log_params_on_trial_end:
            self._log_params(run, report.config)

    @override
    def media(self, trial: TrialInfo, entry: MediaEntry) -> None:
        run = self._started[trial.trial_id]
        if isinstance(entry.medium, EpisodeBatch):
            run.log_episodes(entry, entry.medium)
        else:
            run.log_medium(entry)

    @override
    def end(self, trial: TrialInfo, status: Status) -> None:
        run = self._started[trial.trial_id]
        if self._rays.log_params_on_trial_end:
            self._log_params(run, trial.config)
        if self._rays.should_save_artifact:
            self._try("logging a trial's folder", lambda: run.log_folder(str(trial.location.local_path)))
        run.end(_STATUS[status])
        self._try("logging the best clip", lambda: run.log_best(clips_best_first(trial, self.context), trial.searched))
        self._started.forget(trial.trial_id)

    @override
    def finish(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @override
    def is_away(self, error: Exception) -> bool:
        return connection.is_away(error)

    def _log_params(self, run: MlflowRun, config: Mapping[str, Any]) -> None:
        self._try("logging hyperparameters", lambda: run.log_params(config))

    def _try(self, action: str, work: Callable[[], None]) -> None:
        """Do something that a run can do without: if it fails for good, the run continues, and ends."""
        try:
            work()
        except Exception as error:
            if self.is_away(error):
                raise
            self.context.fault(action, error)

    @property
    def _started(self) -> MlflowRuns:
        assert self._runs is not None, "a trial has started"
        return self._runs

    def _runs_for(self, trial: TrialInfo) -> MlflowRuns:
        """Return the runs of the sweep, for the first trial or a later one."""
        if self._runs is None:
            self._folder = self.context.scratch()
            experiment = self._rays.experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME") or trial.experiment
            self._runs = MlflowRuns(
                {"tracking_uri": self._rays.tracking_uri, "registry_uri": self._rays.registry_uri},
                {"name": experiment, "artifact_location": connection.whole_uri(self._rays.artifact_location)},
                trial.experiment,
                folder=self._folder,
            )
        return self._runs
