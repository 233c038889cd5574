"""The MLflow runs of a sweep: found again by a tag, or created, and under a parent run if wanted."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tune_media.callbacks.mlflow.connection import find_experiment, is_away
from tune_media.callbacks.mlflow.names import tag_value, valid_name
from tune_media.callbacks.mlflow.private_names import PARENT_TAG
from tune_media.callbacks.mlflow.run import MlflowRun
from tune_media.callbacks.mlflow.saved_view import view_tag
from tune_media.callbacks.mlflow.sweep_run import SweepRun
from tune_media.values.score import known_returns

TRIAL_TAG, TRIAL_OF_TAG, SWEEP_TAG = "tune_media.trial", "tune_media.trial_of", "tune_media.sweep"


class MlflowRuns:
    """The runs of a sweep on an MLflow server, or in a database. The backend's thread calls all its methods.

    Args:
        uris: The ``tracking_uri`` and the ``registry_uri``.
        experiment: The ``name`` of the MLflow experiment, which is created if there is none, and its
            ``artifact_location``.
        sweep: The name of the Tune experiment.
        nested: Whether the trials' runs are under a parent run.
        folder: Where files are until MLflow has them. None: the system's folder for temporary files.
    """

    def __init__(
        self,
        uris: Mapping[str, str | None],
        experiment: Mapping[str, str | None],
        sweep: str,
        *,
        nested: bool,
        folder: Path | None = None,
    ) -> None:
        self._uris, self._folder = uris, folder
        self._experiment, self._sweep, self._nested = experiment, sweep, nested
        self._runs: dict[str, MlflowRun] = {}  # by trial
        self._parent: str | None = None
        self._scores: list[str] = []  # the metrics that say how good a policy is, best first
        self._searched: list[str] = []
        self._columns: list[str] | None = None  # of the saved view
        self._began: int | None = None  # milliseconds since 1970

    def start(self, trial_id: str, name: str, tags: Mapping[str, Any], *, at: float | None = None) -> MlflowRun:
        """Return the trial's run: the one that it has, even from before a restore, or a new one.

        Args:
            trial_id: The trial.
            name: Its name.
            tags: Tags of a new run.
            at: When the trial started, seconds since 1970. None: now.
        """
        began = None if at is None else round(1000 * at)
        self._began = self._began or began
        if self._nested:
            self._parent_run()  # even if no run is new, as after a restore: it is ended at the end
        if trial_id not in self._runs:
            own = {TRIAL_TAG: tag_value(f"{self._sweep}/{trial_id}")}
            of = {TRIAL_OF_TAG: tag_value(self._sweep)}
            found = self._find(own) or self._create(name, {**tags, "trial_name": name, **of, **own}, began)
            self._runs[trial_id] = MlflowRun(self._client, found, self._folder)
        self._runs[trial_id].go_on()
        return self._runs[trial_id]

    def find(self, trial_id: str) -> MlflowRun | None:
        """Return the run of a trial that has started, and may have ended; None if MLflow has none."""
        if trial_id in self._runs:
            return self._runs[trial_id]
        found = self._find({TRIAL_TAG: tag_value(f"{self._sweep}/{trial_id}")})
        return None if found is None else MlflowRun(self._client, found, self._folder)

    def __getitem__(self, trial_id: str) -> MlflowRun:
        return self._runs[trial_id]

    def forget(self, trial_id: str) -> None:
        """Let go of a run that has ended; if its trial starts again, it is found by its tag."""
        self._runs.pop(trial_id, None)

    def show(self, *, searched: Iterable[str] = (), metrics: Iterable[str] = ()) -> None:
        """Save a view of the table of runs, ordered by the score, if its columns change.

        Args:
            searched: The hyperparameters that Tune chose. None: those of the call before.
            metrics: The names of the metrics of a result.
        """
        self._searched = sorted(map(valid_name, searched)) or self._searched
        self._scores = known_returns([*self._scores, *metrics])
        columns = [*self._scores[:1], *self._searched]
        if columns == self._columns:
            return
        runs = f"tags.`{TRIAL_OF_TAG}` = '{tag_value(self._sweep)}'"
        score = self._scores[0] if self._scores else None
        tag = view_tag(self._sweep, self._searched, runs, self._began or 0, score)
        self._columns = columns  # a server that refuses the tag is not asked with every result
        try:
            self._client.set_experiment_tag(self._experiment_id, *tag)
        except Exception as error:
            if is_away(error):
                self._columns = None
            raise

    def end(self, status: str) -> None:
        """End the parent run, if there is one, with a page of all trials and their best clips."""
        if self._parent is not None:
            try:
                SweepRun(self._client, self._experiment_id, self._parent, self._sweep, self._folder).summarize()
            finally:
                self._client.set_terminated(self._parent, status)

    @functools.cached_property
    def _client(self) -> Any:
        from mlflow.tracking import MlflowClient

        return MlflowClient(**self._uris)

    @functools.cached_property
    def _experiment_id(self) -> str:
        found = find_experiment(self._client, self._experiment["name"])
        if found is None:
            try:
                return str(self._client.create_experiment(**self._experiment))
            except Exception:
                # Another process has made it since, or a server that was too slow to answer the same request before.
                found = find_experiment(self._client, self._experiment["name"])
                if found is None:
                    raise
        return str(found.experiment_id)

    def _create(self, name: str, tags: Mapping[str, Any], began: int | None) -> Any:
        parent = {PARENT_TAG: self._parent_run()} if self._nested else {}
        return self._client.create_run(self._experiment_id, began, {**tags, **parent}, name)

    def _parent_run(self) -> str:
        if self._parent is None:
            own = {SWEEP_TAG: tag_value(self._sweep)}
            found = self._find(own)
            run = found or self._client.create_run(self._experiment_id, self._began, own, self._sweep)
            self._client.update_run(run.info.run_id, status="RUNNING")
            self._parent = str(run.info.run_id)
        return self._parent

    def _find(self, tags: Mapping[str, str]) -> Any:
        filters = " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())
        found = self._client.search_runs([self._experiment_id], filters, max_results=1, order_by=["start_time"])
        return found[0] if found else None
