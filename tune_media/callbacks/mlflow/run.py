"""The MLflow run of one trial: its parameters, metrics, files, and table of episodes."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray.tune.utils import flatten_dict

from tune_media.callbacks.best_clip import BestClip, better
from tune_media.callbacks.mlflow.names import (
    artifact_name,
    clip_path,
    finite,
    image_key,
    numbers_of,
    original_name,
    valid_name,
)
from tune_media.callbacks.mlflow.private_names import NOTE_TAG
from tune_media.callbacks.mlflow.saved_view import BEST_RETURN
from tune_media.storage.entry import MediaEntry
from tune_media.storage.episode_files import recorder_of
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.foreign import without_address
from tune_media.values.histogram import Histogram
from tune_media.values.image import Image
from tune_media.values.strict_json import json_bytes

BEST_TAG, SEARCHED_TAG = "tune_media.best_clip", "tune_media.searched"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

_MAX_METRICS, _MAX_PARAMS, _MAX_PARAM_CHARACTERS = 1000, 100, 6000
_MAX_TEXT, _MAX_TAG = 100, 5000  # characters
_TABLE_EVERY = 25  # reports: a table is read and written as a whole
_TABLE = "episodes.json"


class MlflowRun:
    """The run of one trial. The backend's thread calls all its methods; they may raise, and be called again.

    Args:
        client: MLflow's client.
        run_id: The run.
        params: The parameters that it has already.
        tags: The tags that it has already.
    """

    def __init__(self, client: Any, run_id: str, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        self.run_id = run_id
        self._client = client
        self._params = dict(params)
        self._rows: list[dict[str, Any]] = []  # of the table of episodes, which it does not have yet
        self._clips: dict[str, str] = {}  # paths by their episodes
        self._reports = 0
        self._best = BestClip(**json.loads(tags[BEST_TAG])) if BEST_TAG in tags else None

    def log_params(self, config: Mapping[str, Any], step: int) -> None:
        """Log hyperparameters once; those that have changed since become metrics if they are numbers, else tags."""
        from mlflow.entities import Param

        flat = {valid_name(name): value for name, value in flatten_dict(dict(config), delimiter="/").items()}
        texts = {name: without_address(str(value))[:_MAX_PARAM_CHARACTERS] for name, value in flat.items()}
        new = [Param(name, text) for name, text in texts.items() if name not in self._params]
        for some in _batches(new, _MAX_PARAMS):
            self._client.log_batch(self.run_id, params=some)
        changed = {name: flat[name] for name, text in texts.items() if self._params.get(name, text) != text}
        self._params |= texts
        numbers = numbers_of({f"config/{original_name(name)}": value for name, value in changed.items()})
        self.log_metrics(numbers, step)
        for name in changed.keys() - {name.removeprefix("config/") for name in map(valid_name, numbers)}:
            self._client.set_tag(self.run_id, f"config.{name}", texts[name])

    def log_metrics(self, numbers: Mapping[str, float], step: int, at: float | None = None) -> None:
        """Log numbers, in as few requests as MLflow takes.

        Args:
            numbers: The numbers by their names.
            step: Their step.
            at: When they were reported, seconds since 1970. None: now.
        """
        from mlflow.entities import Metric

        time_ms = int(1000 * (time.time() if at is None else at))
        metrics = [Metric(valid_name(name), value, time_ms, step) for name, value in numbers.items()]
        for some in _batches(metrics, _MAX_METRICS):
            self._client.log_batch(self.run_id, metrics=some)

    def log_medium(self, entry: MediaEntry) -> None:
        """Log a clip, an image, a histogram or a file."""
        medium = entry.medium
        path = clip_path(entry.path, medium.facts())
        self._log_file(path, medium.content())
        if isinstance(medium, Image):
            from tune_media.encoding.png import frame_from_png

            key = image_key(f"{entry.section}/{entry.key}")
            self._client.log_image(self.run_id, frame_from_png(medium.data), key=key, step=entry.step)
        elif isinstance(medium, Histogram):
            self._log_quantiles({f"{entry.section}/{entry.key}": medium}, entry.step)
        episode = medium.facts().get("episode_id")
        if episode is not None:
            self._clips[episode] = path
        self._rank(BestClip.of(medium.facts(), section=entry.section, step=entry.step, file=path))

    def log_episodes(self, entry: MediaEntry, batch: EpisodeBatch) -> None:
        """Log the data of some episodes: their file, histograms of all values, quantiles; and keep the table's rows.

        If a request fails, all of this is done again; so the rows are added last.
        """
        if self._reports >= _TABLE_EVERY:
            self.log_table()
        recorder = recorder_of(entry.key)
        self._log_file(entry.path, entry.content())
        histograms = batch.histograms()
        if histograms:
            text = json_bytes({name: json.loads(histogram.content()) for name, histogram in histograms.items()})
            folder = f"histograms/{entry.section}/{artifact_name(recorder)}"
            self._log_file(f"{folder}/step_{entry.step:09d}-{batch.id[:12]}.json", text)
            prefix = f"{entry.section}/{recorder}"
            self._log_quantiles({f"{prefix}/{name}": found for name, found in histograms.items()}, entry.step)
        for episode in batch.episodes:
            row = {"step": entry.step, "section": entry.section, "recorder": recorder, **episode.record.facts()}
            row.pop("metrics", None)
            metrics = {f"metrics/{name}": value for name, value in episode.record.metrics.items()}
            self._rows.append({**row, **metrics})
        self._reports += 1

    def log_table(self) -> None:
        """Add the episodes that have come since to the table of episodes."""
        if not self._rows:
            return
        rows = [{"clip": self._clips.get(row["episode_id"]), **row} for row in self._rows]
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = {name: [finite(row.get(name)) for row in rows] for name in names}
        self._client.log_table(self.run_id, table, _TABLE)
        self._rows, self._clips, self._reports = [], {}, 0

    def log_folder(self, folder: str) -> None:
        """Upload a folder."""
        self._client.log_artifacts(self.run_id, folder)

    def go_on(self) -> None:
        """Give the run the status of one that is running."""
        self._client.update_run(self.run_id, status="RUNNING")

    def describe(self, searched: Mapping[str, Any]) -> None:
        """Give the run a description: the hyperparameters that Tune chose, and the best clip."""
        texts = {name: without_address(str(value))[:_MAX_TEXT] for name, value in searched.items()}
        searched_tag = json.dumps(texts)
        self._client.set_tag(self.run_id, SEARCHED_TAG, searched_tag if len(searched_tag) <= _MAX_TAG else "{}")
        lines = [", ".join(f"{name} = {text}" for name, text in texts.items())]
        if self._best is not None:
            lines.append(f"Best clip: {self._best.caption} ({self._best.file})")
        self._client.set_tag(self.run_id, NOTE_TAG, "\n\n".join(filter(None, lines))[:_MAX_TAG])

    def end(self, status: str) -> None:
        """Give the run its last status."""
        self._client.set_terminated(self.run_id, status)

    def _rank(self, clip: BestClip | None) -> None:
        """Log a clip's return if it is the best so far."""
        best = better(self._best, clip)
        if best is None or best is self._best:
            return
        self.log_metrics({BEST_RETURN: best.episode_return}, best.step)
        self._client.set_tag(self.run_id, BEST_TAG, json.dumps(dataclasses.asdict(best)))
        self._best = best

    def _log_file(self, path: str, content: bytes) -> None:
        folder, _, name = path.rpartition("/")
        with tempfile.TemporaryDirectory(prefix="tune_media-") as temporary:
            local = Path(temporary) / name
            local.write_bytes(content)
            self._client.log_artifact(self.run_id, str(local), folder or None)

    def _log_quantiles(self, histograms: Mapping[str, Histogram], step: int) -> None:
        numbers = {
            f"{name}/p{round(100 * share):02d}": histogram.quantile(share)
            for name, histogram in histograms.items()
            if histogram.count
            for share in QUANTILES
        }
        self.log_metrics(numbers, step)


def _batches(items: Sequence[Any], most: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + most] for start in range(0, len(items), most))
