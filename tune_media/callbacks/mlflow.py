"""Ray's MLflow logger with media: clips as artifacts, images, histograms, a table of episodes; off Tune's loop."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.tune.utils import flatten_dict

from tune_media.callbacks.base import MediaLogging, result_step, trial_place, without_address
from tune_media.callbacks.outbox import Outbox
from tune_media.episode_files import recorder_of
from tune_media.episodes import EpisodeBatch
from tune_media.store import STORED, Entry, Place, read_if_there
from tune_media.values import Histogram, Image, MediaOptions, json_bytes

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

TRIAL_TAG, SWEEP_TAG = "tune_media.trial", "tune_media.sweep"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

_MOST_METRICS, _MOST_PARAMS, _MOST_PARAM_CHARACTERS, _MOST_NAME = 1000, 100, 6000, 250
_TABLE_EVERY = 25  # reports: a table is read and written as a whole
_TABLE = "episodes.json"
_PARENT_TAG = "mlflow.parentRunId"
_AWAY = (408, 429, 502, 503, 504)  # statuses after which it is worth trying again
_HTTP_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"


class MLflowMediaLoggerCallback(MLflowLoggerCallback):
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
        self._media = MediaLogging("MLflow", media)
        self._outbox: Outbox | None = None
        self._server: _Server | None = None
        self._open: set[str] = set()
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
        self._media.open(trial)
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
            place = trial_place(trial)
            for entry in entries:  # after it is stored
                hand_over = functools.partial(self._hand_over, server, trial.trial_id, entry, place, step)
                self._media.later(f"showing {entry.path}", hand_over)

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
            outbox.put("ending the sweep's run", functools.partial(server.end_sweep, status))
            outbox.close(self._media.options.flush_seconds)
        self._outbox = self._server = None
        self._media.finish()

    def _started(self, trial: Trial) -> _Server:
        """Return the server of this experiment, whose thread is started with its first trial."""
        if self._server is None:
            experiment = self.experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME") or trial.experiment_dir_name
            self._server = _Server(
                {"tracking_uri": self.tracking_uri, "registry_uri": self.registry_uri},
                {"name": experiment, "artifact_location": self.artifact_location},
                trial.experiment_dir_name,
                nested=self.nested,
            )
            self._outbox = Outbox(self._media, _is_away)
        return self._server

    def _put(self, what: str, work: Any, nbytes: int = 0) -> None:
        if self._outbox is not None:
            self._outbox.put(what, work, nbytes)

    def _hand_over(self, server: _Server, trial_id: str, entry: Entry, place: Place, step: int) -> None:
        if entry.status != STORED:
            return
        if isinstance(entry.medium, EpisodeBatch):
            work = functools.partial(server.log_episodes, trial_id, entry, place, step)
        else:
            work = functools.partial(server.log_medium, trial_id, entry, step)
        self._put(f"logging {entry.path}", work, entry.medium.nbytes if entry.medium.kind == "video" else 0)

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


class _Server:
    """An MLflow server (or file, or database); all its methods but one are called by one thread, and may raise.

    Args:
        uris: Where it and its registry are.
        experiment: The MLflow experiment, made where there is none.
        sweep: Name of the Tune experiment.
        nested: Whether trials are under a parent run.
    """

    def __init__(
        self, uris: dict[str, str | None], experiment: dict[str, str | None], sweep: str, *, nested: bool
    ) -> None:
        self._uris = uris
        self._experiment, self._sweep, self._nested = experiment, sweep, nested
        self._runs: dict[str, str] = {}
        self._started: dict[str, tuple[str, dict[str, Any]]] = {}
        self._parent: str | None = None
        self._params: dict[str, dict[str, str]] = {}
        self._configs: dict[str, Any] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._clips: dict[str, dict[str, str]] = {}  # by their episodes
        self._reports: dict[str, int] = {}

    @functools.cached_property
    def _client(self) -> Any:
        from mlflow.tracking import MlflowClient

        return MlflowClient(**self._uris)

    @functools.cached_property
    def _experiment_id(self) -> str:
        from mlflow.exceptions import MlflowException

        id = os.environ.get("MLFLOW_EXPERIMENT_ID")
        if id is not None:
            with contextlib.suppress(MlflowException):  # as Ray does: where there is none, the name counts
                return str(self._client.get_experiment(id).experiment_id)
        found = self._client.get_experiment_by_name(self._experiment["name"])
        return str(found.experiment_id if found else self._client.create_experiment(**self._experiment))

    def is_changed(self, trial_id: str, config: Any) -> bool:
        """Say whether a trial has other hyperparameters than it had when this was last asked; Tune's loop asks."""
        before, now = self._configs.get(trial_id), without_address(repr(config))
        self._configs[trial_id] = now
        return before is not None and before != now

    def start(self, trial_id: str, name: str, tags: Mapping[str, Any]) -> str:
        """Return the trial's run: the one that it has, from before a restore, too, or a new one."""
        if trial_id in self._runs:
            self._client.update_run(self._runs[trial_id], status="RUNNING")
            return self._runs[trial_id]
        own = {TRIAL_TAG: _tag_value(f"{self._sweep}/{trial_id}")}
        found = self._find(own)
        if found is not None:
            self._params[trial_id] = dict(found.data.params)
            self._client.update_run(found.info.run_id, status="RUNNING")
            self._runs[trial_id] = found.info.run_id
            return self._runs[trial_id]
        parent = {_PARENT_TAG: self._parent_run()} if self._nested else {}
        run = self._client.create_run(
            self._experiment_id, run_name=name, tags={**tags, "trial_name": name, **own, **parent}
        )
        self._params[trial_id] = {}
        self._runs[trial_id] = run.info.run_id
        return self._runs[trial_id]

    def log_params(self, trial_id: str, config: Mapping[str, Any], step: int) -> None:
        """Log hyperparameters once; those that have changed since are metrics where they are numbers, else tags."""
        from mlflow.entities import Param

        flat = {valid_name(name): value for name, value in flatten_dict(dict(config), delimiter="/").items()}
        texts = {name: without_address(str(value))[:_MOST_PARAM_CHARACTERS] for name, value in flat.items()}
        known = self._params[trial_id]
        new = [Param(name, text) for name, text in texts.items() if name not in known]
        for some in _batches(new, _MOST_PARAMS):
            self._client.log_batch(self._runs[trial_id], params=some)
        changed = {name: flat[name] for name, text in texts.items() if known.get(name, text) != text}
        self._params[trial_id] = {**known, **texts}
        numbers = numbers_of({f"config/{original_name(name)}": value for name, value in changed.items()})
        self.log_metrics(trial_id, numbers, step, int(1000 * time.time()))
        for name in changed.keys() - {name.removeprefix("config/") for name in map(valid_name, numbers)}:
            self._client.set_tag(self._runs[trial_id], f"config.{name}", texts[name])

    def log_metrics(self, trial_id: str, numbers: Mapping[str, float], step: int, time_ms: int) -> None:
        """Log numbers, in as few requests as MLflow takes."""
        from mlflow.entities import Metric

        metrics = [Metric(valid_name(name), value, time_ms, step) for name, value in numbers.items()]
        for some in _batches(metrics, _MOST_METRICS):
            self._client.log_batch(self._runs[trial_id], metrics=some)

    def log_medium(self, trial_id: str, entry: Entry, step: int) -> None:
        """Log a clip, a picture, a histogram or a file."""
        run, medium = self._runs[trial_id], entry.medium
        self._log_file(run, entry.path, medium.content())
        if isinstance(medium, Image):
            from tune_media.encoding import frame_from_png

            key = _flat_key(f"{entry.section}/{entry.key}")
            self._client.log_image(run, frame_from_png(medium.data), key=key, step=step)
        elif isinstance(medium, Histogram):
            self._log_quantiles(trial_id, {f"{entry.section}/{entry.key}": medium}, step)
        episode = medium.facts().get("episode_id")
        if episode is not None:
            self._clips.setdefault(trial_id, {})[episode] = entry.path

    def log_episodes(self, trial_id: str, entry: Entry, place: Place, step: int) -> None:
        """Log what is known of a round's episodes: the JSON, histograms of all values, quantiles; and keep the rows."""
        assert isinstance(entry.medium, EpisodeBatch)
        run, recorder = self._runs[trial_id], recorder_of(entry.key)
        content = read_if_there(place.filesystem, f"{place.path}/{entry.path}")
        if content is not None:
            self._log_file(run, entry.path, content)
        histograms = entry.medium.histograms()
        if histograms:
            text = json_bytes({name: json.loads(histogram.content()) for name, histogram in histograms.items()})
            name = f"histograms/{entry.section}/{_safe(recorder)}/step_{step:09d}-{entry.medium.id[:12]}.json"
            self._log_file(run, name, text)
            prefix = f"{entry.section}/{recorder}"
            self._log_quantiles(trial_id, {f"{prefix}/{name}": found for name, found in histograms.items()}, step)
        rows = self._rows.setdefault(trial_id, [])
        for episode in entry.medium.episodes:
            row = {"step": step, "section": entry.section, "recorder": recorder, **episode.record.facts()}
            row.pop("metrics", None)
            rows.append({**row, **{f"metrics/{name}": value for name, value in episode.record.metrics.items()}})
        self._reports[trial_id] = self._reports.get(trial_id, 0) + 1
        if self._reports[trial_id] % _TABLE_EVERY == 0:
            self.log_table(trial_id)

    def log_table(self, trial_id: str) -> None:
        """Add the episodes that have come to the run's table of episodes."""
        rows = self._rows.get(trial_id)
        if not rows:
            return
        clips = self._clips.get(trial_id, {})
        rows = [{"clip": clips.get(row["episode_id"]), **row} for row in rows]
        names = list(dict.fromkeys(name for row in rows for name in row))
        self._client.log_table(
            self._runs[trial_id], {name: [_cell(row.get(name)) for row in rows] for name in names}, _TABLE
        )
        self._rows[trial_id], self._clips[trial_id] = [], {}

    def log_folder(self, trial_id: str, folder: str) -> None:
        """Upload a folder."""
        self._client.log_artifacts(self._runs[trial_id], folder)

    def end(self, trial_id: str, status: str) -> None:
        """Give a trial's run its final status."""
        self._client.set_terminated(self._runs[trial_id], status)
        for held in (self._configs, self._params, self._rows, self._clips, self._reports):
            held.pop(trial_id, None)

    def end_sweep(self, status: str) -> None:
        """End the parent run, if there is one."""
        if self._parent is not None:
            self._client.set_terminated(self._parent, status)

    def _parent_run(self) -> str:
        if self._parent is None:
            own = {SWEEP_TAG: _tag_value(self._sweep)}
            found = self._find(own)
            run = found or self._client.create_run(self._experiment_id, run_name=self._sweep, tags=own)
            self._client.update_run(run.info.run_id, status="RUNNING")
            self._parent = str(run.info.run_id)
        return self._parent

    def _find(self, tags: Mapping[str, str]) -> Any:
        filters = " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())
        found = self._client.search_runs([self._experiment_id], filters, max_results=1)
        return found[0] if found else None

    def _log_file(self, run: str, path: str, content: bytes) -> None:
        folder, _, name = path.rpartition("/")
        with tempfile.TemporaryDirectory(prefix="tune_media-") as temporary:
            local = Path(temporary) / name
            local.write_bytes(content)
            self._client.log_artifact(run, str(local), folder or None)

    def _log_quantiles(self, trial_id: str, histograms: Mapping[str, Histogram], step: int) -> None:
        numbers = {
            f"{name}/p{round(100 * share):02d}": histogram.quantile(share)
            for name, histogram in histograms.items()
            if histogram.count
            for share in QUANTILES
        }
        self.log_metrics(trial_id, numbers, step, int(1000 * time.time()))


def valid_name(name: str) -> str:
    """Return a name that MLflow takes: other characters become ``_0x<code>_``; ``original_name`` reads it.

    Names longer than MLflow takes end in a digest instead, and cannot be read back.
    """
    escaped = re.sub(r"_(?=0x[0-9a-f]+_)", "_0x5f_", name)
    valid = re.sub(r"[^/A-Za-z0-9_.\- ]", lambda found: f"_0x{ord(found.group()):x}_", escaped)
    parts = [part if part.strip(".") else f"_0x{ord('.'):x}_" * len(part) or "_0x_" for part in valid.split("/")]
    valid = "/".join(parts)
    if len(valid) > _MOST_NAME:
        valid = f"{valid[: _MOST_NAME - 17]}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:16]}"
    return valid


def original_name(name: str) -> str:
    """Return the name that ``valid_name`` made a valid one of."""
    return re.sub(r"_0x([0-9a-f]*)_", lambda found: chr(int(found.group(1), 16)) if found.group(1) else "", name)


def numbers_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Return what is a number, or an array of one."""
    numbers: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, str) or (isinstance(value, np.ndarray) and value.size != 1):
            continue
        try:
            numbers[name] = float(value.item() if isinstance(value, np.ndarray) else value)
        except (TypeError, ValueError, OverflowError):
            continue
    return numbers


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


def _batches(items: Sequence[Any], most: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + most] for start in range(0, len(items), most))


def _safe(name: str) -> str:
    return re.sub(r"[^0-9A-Za-z_.=/-]", "_", name)


def _tag_value(text: str) -> str:
    """Return what a filter can name: its language has no way to write every character."""
    return re.sub(r"[^0-9A-Za-z_./=-]", lambda found: f"_0x{ord(found.group()):x}_", text)


def _flat_key(key: str) -> str:
    """Return a key for MLflow's images, in whose file names ``%`` and ``+`` have a meaning."""
    return re.sub(r"[^0-9A-Za-z_./ -]", "_", key)


def _cell(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
