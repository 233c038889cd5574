"""What the MLflow callback asks of a server: runs, metrics, files, tables; names that MLflow takes."""

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
from typing import Any

import numpy as np
from ray.tune.utils import flatten_dict

from tune_media.callbacks.base import without_address
from tune_media.entries import Entry
from tune_media.episode_files import recorder_of
from tune_media.episodes import EpisodeBatch
from tune_media.values import Histogram, Image, json_bytes

TRIAL_TAG, SWEEP_TAG = "tune_media.trial", "tune_media.sweep"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

_MOST_METRICS, _MOST_PARAMS, _MOST_PARAM_CHARACTERS, _MOST_NAME = 1000, 100, 6000, 250
_TABLE_EVERY = 25  # reports: a table is read and written as a whole
_TABLE = "episodes.json"
_PARENT_TAG = "mlflow.parentRunId"


class Server:
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

    def log_episodes(self, trial_id: str, entry: Entry, step: int) -> None:
        """Log what is known of a round's episodes: the JSON, histograms of all values, quantiles; and keep the rows."""
        assert isinstance(entry.medium, EpisodeBatch)
        run, recorder = self._runs[trial_id], recorder_of(entry.key)
        self._log_file(run, entry.path, entry.content())
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
