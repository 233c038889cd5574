"""The MLflow run of one trial: its parameters, metrics and files.

Each call may be repeated: names, steps and times come from the trial's results, so that the same call writes the same
points and the same files again.
"""

from __future__ import annotations

import io
import json
import math
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray.tune.utils import flatten_dict

from tune_media.callbacks.backend import Report
from tune_media.callbacks.mlflow.connection import is_away
from tune_media.callbacks.mlflow.private_names import IMAGES_TAG, NOTE_TAG
from tune_media.callbacks.mlflow.valid_names import artifact_name, clip_path, image_file, valid_name
from tune_media.callbacks.shown_values import numbers_of
from tune_media.storage.entry import MediaEntry
from tune_media.storage.episode_files import recorder_of
from tune_media.storage.index_lines import Line
from tune_media.storage.location import LOCATION_FILE
from tune_media.values.checks import first_names
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.foreign import shown, without_address
from tune_media.values.histogram import Histogram
from tune_media.values.image import Image
from tune_media.values.number import as_number, whole_number
from tune_media.values.strict_json import json_bytes

BEST_RETURN = "best_return"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

_CONFIG = "config/"  # before the names of hyperparameters that are metrics
_MAX_METRICS, _MAX_PARAMS, _MAX_PARAM_CHARACTERS = 1000, 100, 6000
_MAX_TEXT, _MAX_TAG = 100, 5000  # characters
_MAX_NAMES = 3  # in a message
_THUMBNAIL = 256  # pixels


class RefusedError(ValueError):
    """MLflow does not take some parameters or metrics; it has all others."""


class MlflowRun:
    """The run of one trial. The backend's thread calls all its methods; they may raise, and be called again."""

    def __init__(self, client: Any, run: Any, folder: Path | None = None) -> None:
        self.run_id: str = run.info.run_id
        self._client, self._folder = client, folder
        self._params = dict(run.data.params)
        self._config = {name: value for name, value in run.data.metrics.items() if name.startswith(_CONFIG)}
        self._current: Mapping[str, Any] | None = None  # the last hyperparameters
        self._has_images = IMAGES_TAG in run.data.tags
        self._has_best = BEST_RETURN in run.data.metrics

    def log_result(self, report: Report, numbers: Mapping[str, float], config: Mapping[str, Any]) -> None:
        """Log the numbers of a result, and those of the hyperparameters if it is the first one or they have changed.

        ``config`` are those with which the trial started. Raises RefusedError if MLflow does not take all metrics.
        """
        self._current = report.config or self._current or config
        now = flatten_dict(dict(self._current), delimiter="/")
        current = {_CONFIG + name: value for name, value in numbers_of(now).items()}
        changed = {name: value for name, value in current.items() if self._config.get(valid_name(name)) != value}
        self.log_metrics({**numbers, **changed}, report.step, report.time)
        self._config |= {valid_name(name): value for name, value in changed.items()}

    def log_params(self, config: Mapping[str, Any]) -> None:
        """Log hyperparameters once; raises RefusedError if MLflow does not take some of them.

        Those that have changed since become tags unless they are numbers, which are metrics: see ``log_result``.
        """
        from mlflow.entities import Param

        flat = {valid_name(name): value for name, value in flatten_dict(dict(config), delimiter="/").items()}
        texts = {name: without_address(str(value))[:_MAX_PARAM_CHARACTERS] for name, value in flat.items()}
        new = [Param(name, text) for name, text in texts.items() if name not in self._params]
        changed = {name: flat[name] for name, text in texts.items() if self._params.get(name, text) != text}
        for name in changed.keys() - numbers_of(changed).keys():
            self._client.set_tag(self.run_id, f"config.{name}", texts[name])
        self._params |= {name: texts[name] for name in changed}
        try:
            self._log_some(new, _MAX_PARAMS, lambda some: self._client.log_batch(self.run_id, params=some))
        except RefusedError:
            self._params |= texts  # so that they are not sent again
            raise
        self._params |= texts

    def log_metrics(self, numbers: Mapping[str, float], step: int, seconds: float) -> None:
        """Log numbers, in as few requests as MLflow takes; raises RefusedError if it does not take some of them."""
        from mlflow.entities import Metric

        metrics = [Metric(valid_name(name), value, _milliseconds(seconds), step) for name, value in numbers.items()]
        self._log_some(metrics, _MAX_METRICS, lambda some: self._client.log_batch(self.run_id, metrics=some))

    def log_medium(self, entry: MediaEntry) -> None:
        """Log a clip, an image, a histogram or a file."""
        medium = entry.medium
        self._log_file(clip_path(entry.path, medium.facts()), medium.content())
        if isinstance(medium, Image):
            self._log_image(entry, medium)
        elif isinstance(medium, Histogram):
            self._log_quantiles(entry)

    def log_episodes(self, entry: MediaEntry, batch: EpisodeBatch) -> None:
        """Log the data of some episodes: their file, histograms of all values, and quantiles."""
        recorder = recorder_of(entry.key)
        self._log_file(entry.path, entry.content())
        histograms = batch.histograms()
        if histograms:
            text = json_bytes({name: json.loads(histogram.content()) for name, histogram in histograms.items()})
            folder = f"histograms/{entry.section}/{artifact_name(recorder)}"
            self._log_file(f"{folder}/step_{entry.step:09d}-{batch.id[:12]}.json", text)
            self._log_quantiles(entry)

    def log_folder(self, folder: str) -> None:
        """Upload a folder, without the file in it that only our own readers understand."""
        for path in sorted(Path(folder).iterdir()):
            if path.is_dir():
                self._client.log_artifacts(self.run_id, str(path), path.name)
            elif path.name != LOCATION_FILE:
                self._client.log_artifact(self.run_id, str(path))

    def go_on(self) -> None:
        """Give the run the status of one that is running."""
        self._client.update_run(self.run_id, status="RUNNING")

    def end(self, status: str) -> None:
        """Give the run its last status. It ended with its last result."""
        self._client.set_terminated(self.run_id, status, self._last_point()[1])

    def log_best(self, clips: Sequence[Line], searched: Mapping[str, Any]) -> None:
        """Log the return of the best clip, and describe the run: the hyperparameters that Tune chose, and that clip.

        MLflow shows the value of the highest step, so it is logged there, also if the trial went back.
        """
        note = [", ".join(f"{name} = {without_address(str(value))[:_MAX_TEXT]}" for name, value in searched.items())]
        best = as_number(clips[0]["episode_return"]) if clips else math.nan
        if clips:
            file = clip_path(str(clips[0]["path"]), clips[0])
            note.append(f"Best clip: return {best:.6g}, step {whole_number(clips[0].get('step'))} ({file})")
        if clips or self._has_best:
            step, milliseconds = self._last_point()
            self.log_metrics({BEST_RETURN: best}, step, (milliseconds or 0) / 1000)
            self._client.set_tag(self.run_id, BEST_RETURN, f"{best:.6g}")
        self._client.set_tag(self.run_id, NOTE_TAG, "\n\n".join(filter(None, note))[:_MAX_TAG])

    def _last_point(self) -> tuple[int, int | None]:
        """Return the highest step that any process has logged, and the time of the last result, milliseconds."""
        points = self._client.get_metric_history(self.run_id, "training_iteration")
        times = [point.timestamp for point in points]
        return max((point.step for point in points), default=0), max(times, default=None)

    def _log_some(self, items: Sequence[Any], most: int, log: Callable[[Sequence[Any]], None]) -> None:
        """Log parameters or metrics; if MLflow refuses a batch of them, one by one, so that it takes all others."""
        refused: dict[str, Exception] = {}
        for start in range(0, len(items), most):
            refused |= self._refused(items[start : start + most], log)
        if refused:
            names = first_names(list(refused), _MAX_NAMES)
            reason = shown(next(iter(refused.values())), str)
            raise RefusedError(f"MLflow refuses {len(refused)} of {len(items)} value(s): {names}: {reason}")

    def _refused(self, items: Sequence[Any], log: Callable[[Sequence[Any]], None]) -> dict[str, Exception]:
        try:
            log(items)
        except Exception as error:
            if is_away(error):
                raise
            if len(items) == 1:
                return {items[0].key: error}
            return {name: reason for item in items for name, reason in self._refused([item], log).items()}
        return {}

    def _log_file(self, path: str, content: bytes) -> None:
        folder, _, name = path.rpartition("/")
        with tempfile.TemporaryDirectory(prefix="tune_media-", dir=self._folder) as temporary:
            local = Path(temporary) / name
            local.write_bytes(content)
            self._client.log_artifact(self.run_id, str(local), folder or None)

    def _log_image(self, entry: MediaEntry, image: Image) -> None:
        """Add a picture to MLflow's grid of images, which reads their key, step and time from their files' names."""
        id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{entry.path} {image.id}"))
        name = image_file(entry.tag, entry.step, _milliseconds(entry.time), id)
        self._log_file(f"{name}.png", image.data)
        self._log_file(f"{name}+compressed.webp", _thumbnail(image.data))
        if not self._has_images:
            self._client.set_tag(self.run_id, IMAGES_TAG, "True")
            self._has_images = True

    def _log_quantiles(self, entry: MediaEntry) -> None:
        numbers = {
            f"{tag}/p{round(100 * share):02d}": histogram.quantile(share)
            for tag, histogram in entry.histograms().items()
            if histogram.count
            for share in QUANTILES
        }
        self.log_metrics(numbers, entry.step, entry.time)


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _thumbnail(png: bytes) -> bytes:
    """Return a small picture for MLflow's grid, or the picture itself if Pillow is not installed."""
    try:
        import PIL.Image
    except ImportError:
        return png
    with PIL.Image.open(io.BytesIO(png)) as image:
        image.thumbnail((_THUMBNAIL, _THUMBNAIL))
        small = io.BytesIO()
        image.save(small, "webp")
    return small.getvalue()
