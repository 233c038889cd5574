"""Ray's MLflow logger with media: clips as artifacts, images, histograms, a table of episodes; off Tune's loop."""

from __future__ import annotations

import functools
import logging
import os
import time
from typing import TYPE_CHECKING, Any

from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.tune.utils import flatten_dict

from tune_media.callbacks.base import FamilyMember, MediaLogging, result_step
from tune_media.callbacks.mlflow_server import Server, numbers_of
from tune_media.callbacks.outbox import Outbox, Work
from tune_media.entries import Entry
from tune_media.episodes import EpisodeBatch
from tune_media.values import MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("tune_media")

_HTTP_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
_AWAY = (408, 429, 502, 503, 504)  # statuses after which it is worth trying again


class MLflowMediaLoggerCallback(FamilyMember, MLflowLoggerCallback):
    """Everything ``ray.air.integrations.mlflow.MLflowLoggerCallback`` does, and media, in the background.

    Each trial is a run, found again by a tag when Tune restores the trial. Metrics go out in batches; a name that
    MLflow does not take is spelled with codes (``valid_name``), and ``original_name`` reads them. A clip is an artifact
    at ``media/<section>/<key>/step_<step>-<id>.mp4`` as soon as it is stored; images are logged by step, for MLflow's
    image grid; histograms as an artifact and, as metrics, their quantiles; what is known of the episodes as the table
    ``episodes.json``. Hyperparameters that PBT changes become metrics (or tags) ``config/<name>``.

    A server that is away is tried again; the end of the experiment waits ``MediaOptions(flush_seconds=...)`` for it.
    MLflow's own retries hold a request for minutes: ``MLFLOW_HTTP_REQUEST_MAX_RETRIES`` becomes 1 unless you set it.

    Args:
        tracking_uri: As Ray's. None: MLflow's own default.
        registry_uri: As Ray's.
        experiment_name: As Ray's. None: ``MLFLOW_EXPERIMENT_NAME``, else the name of the Tune experiment.
        tags: As Ray's.
        tracking_token: As Ray's; it is not pickled with the callback.
        save_artifact: As Ray's: upload the trial's local folder when it ends.
        log_params_on_trial_end: As Ray's.
        nested: Put the trials' runs under one parent run for the sweep.
        artifact_location: Where a new MLflow experiment keeps artifacts. None: MLflow's own default, which without a
            server is ``./mlruns``.
        media: Options, shared by all callbacks of the family in one experiment.

    Raises:
        ImportError: MLflow is not installed.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        registry_uri: str | None = None,
        experiment_name: str | None = None,
        tags: dict[str, Any] | None = None,
        tracking_token: str | None = None,
        save_artifact: bool = False,
        log_params_on_trial_end: bool = False,
        nested: bool = False,
        artifact_location: str | None = None,
        media: MediaOptions | None = None,
    ) -> None:
        try:
            super().__init__(
                tracking_uri,
                registry_uri=registry_uri,
                experiment_name=experiment_name,
                tags=tags,
                tracking_token=tracking_token,
                save_artifact=save_artifact,
                log_params_on_trial_end=log_params_on_trial_end,
            )
        except ImportError as error:
            raise ImportError("MLflowMediaLoggerCallback needs MLflow: pip install 'tune-media[mlflow]'") from error
        self.nested = nested
        self.artifact_location = artifact_location
        self._media = MediaLogging(self, "MLflow", media)
        self._outbox: Outbox | None = None
        self._server: Server | None = None
        self._open: set[str] = set()
        self._dropped = 0
        self._steps: dict[str, int] = {}  # each trial's last
        self._use_token()

    def setup(self, *args: Any, **info: Any) -> None:
        """Set MLflow's globals, as Ray does; the server is first asked when a trial starts, in the background."""
        self._use_token()
        os.environ.setdefault(_HTTP_RETRIES, "1")
        mlflow = self.mlflow_util._mlflow
        if self.tracking_uri is not None:
            mlflow.set_tracking_uri(self.tracking_uri)
        if self.registry_uri is not None:
            mlflow.set_registry_uri(self.registry_uri)
        self.tags: dict[str, Any] = self.tags or {}
        self._trial_runs: dict[Trial, str] = {}

    def log_trial_start(self, trial: Trial) -> None:  # noqa: D102
        self._media.begin(trial)
        self._open.add(trial.trial_id)
        server, name, step = self._started(trial), str(trial), self._steps.get(trial.trial_id, 0)
        params = {} if self.log_params_on_trial_end else dict(trial.config or {})

        def start() -> None:
            self._trial_runs[trial] = server.start(trial.trial_id, name, self.tags or {})
            server.log_params(trial.trial_id, params, step)

        self._put("starting a run", start)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:  # noqa: D102
        entries = self._media.take(trial, result)
        with self._media.guard("reading metrics"):
            if trial.trial_id not in self._open:
                self.log_trial_start(trial)
            server, step = self._started(trial), result_step(result)
            metrics = {name: value for name, value in result.items() if name != "config"}
            flat = numbers_of(flatten_dict(metrics, delimiter="/"))
            self._steps[trial.trial_id] = step
            now = int(1000 * time.time())
            self._put("logging metrics", functools.partial(server.log_metrics, trial.trial_id, flat, step, now))
            config = result.get("config")
            if config and not self.log_params_on_trial_end and server.is_changed(trial.trial_id, config):
                params = functools.partial(server.log_params, trial.trial_id, dict(config), step)
                self._put("logging hyperparameters", params)
            for entry in entries:  # after its trial's run has begun
                hand_over = functools.partial(self._hand_over, server, trial.trial_id, entry, step)
                self._media.later(f"showing {entry.path}", hand_over, entry.show_bytes)

    def log_trial_save(self, trial: Trial) -> None:  # noqa: D102
        self._media.take_from_checkpoint(trial)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: D102
        self._media.trial_is_over(trial)
        self._end(trial, "FAILED" if failed else "FINISHED")

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:  # noqa: D102
        interrupted = [trial for trial in trials if trial.trial_id in self._open]
        for trial in interrupted:
            self._end(trial, "KILLED")
        self._media.wait()
        outbox, server = self._outbox, self._server
        if outbox is not None and server is not None:
            status = "KILLED" if interrupted else "FINISHED"
            self._put("ending the sweep's run", functools.partial(server.end_sweep, status))
            self._close(outbox)
        self._outbox = self._server = None
        self._media.finish()

    def _started(self, trial: Trial) -> Server:
        """Return the server of this experiment, whose thread is started with its first trial."""
        if self._server is None:
            experiment = self.experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME") or trial.experiment_dir_name
            self._server = Server(
                {"tracking_uri": self.tracking_uri, "registry_uri": self.registry_uri},
                {"name": experiment, "artifact_location": self.artifact_location},
                trial.experiment_dir_name,
                nested=self.nested,
            )
            self._outbox = Outbox("MLflow", _is_away, self._report)
        return self._server

    def _put(self, what: str, work: Any, nbytes: int = 0) -> None:
        most = self._media.options.max_pending_bytes
        if self._outbox is not None and not self._outbox.put(Work(what, work, nbytes), most):
            self._dropped += 1
            reason = RuntimeError(f"more than MediaOptions(max_pending_bytes={most}) wait for MLflow")
            self._media.report(f"{what}; it is in the trial's folder", reason, kind="dropped")

    def _report(self, what: str, error: Exception, again: bool) -> None:
        what, kind = (f"{what} (it is tried again)", "away") if again else (what, "")
        self._media.report(what, error, kind)

    def _close(self, outbox: Outbox) -> None:
        """Wait for MLflow, and say what it did not get."""
        seconds = self._media.patience(self._media.options.flush_seconds)
        left, dropped, self._dropped = outbox.close(seconds), self._dropped, 0
        if left or dropped:
            logger.warning(
                "tune_media: MLflow: %d piece(s) of work were not done after %g s, and %d clip(s) were dropped before. "
                "All media are in the trials' folders. MediaOptions(flush_seconds=...) says how long the end waits.",
                len(left),
                seconds,
                dropped,
            )

    def _hand_over(self, server: Server, trial_id: str, entry: Entry, step: int) -> None:
        if entry.is_lost:
            return
        if isinstance(entry.medium, EpisodeBatch):
            work = functools.partial(server.log_episodes, trial_id, entry, step)
        else:
            work = functools.partial(server.log_medium, trial_id, entry, step)
        self._put(f"logging {entry.path}", work, entry.show_bytes)

    def _end(self, trial: Trial, status: str) -> None:
        self._open.discard(trial.trial_id)
        self._steps.pop(trial.trial_id, None)
        server = self._server
        if server is None:
            return
        folder = trial.local_path if self.should_save_artifact else None
        params = dict(trial.config or {}) if self.log_params_on_trial_end else {}

        def end() -> None:
            self._put("logging hyperparameters", functools.partial(server.log_params, trial.trial_id, params, 0))
            self._put("logging the table of episodes", functools.partial(server.log_table, trial.trial_id))
            if folder:
                self._put("saving the trial's folder", functools.partial(server.log_folder, trial.trial_id, folder))
            self._put("ending a run", functools.partial(server.end, trial.trial_id, status))

        self._media.later("ending a run", end)  # after its last clips

    def _use_token(self) -> None:
        if self.tracking_token:
            self._media.keep_secret(self.tracking_token)
            os.environ["MLFLOW_TRACKING_TOKEN"] = self.tracking_token

    def __getstate__(self) -> dict[str, Any]:
        gone: dict[str, Any] = {
            "_outbox": None,
            "_server": None,
            "_open": set(),
            "_trial_runs": {},
            "tracking_token": None,
        }
        return {**self.__dict__, **gone, "_trial_runs": {}}


def _is_away(error: Exception) -> bool:
    """Say whether MLflow's server did not answer, or said that it cannot at the moment."""
    import requests
    from mlflow.exceptions import MlflowException

    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return error.response.status_code in _AWAY
    if isinstance(error, (requests.exceptions.RequestException, ConnectionError, TimeoutError)):
        return True
    if type(error).__name__ in ("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError"):  # boto's
        return True
    if not isinstance(error, MlflowException):
        return False
    unreachable = "failed with exception" in str(error) or "Connection" in str(error)
    return unreachable or error.get_http_status_code() in _AWAY
