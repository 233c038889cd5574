"""The MLflow run of one trial: its parameters, metrics, files, and table of episodes.

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
from tune_media.callbacks.best_clip import BestClip, BestClips
from tune_media.callbacks.mlflow.connection import is_away
from tune_media.callbacks.mlflow.episodes_table import TABLE, EpisodesTable
from tune_media.callbacks.mlflow.names import artifact_name, clip_path, image_file, numbers_of, valid_name
from tune_media.callbacks.mlflow.private_names import IMAGES_TAG, NOTE_TAG, TABLES_TAG
from tune_media.callbacks.mlflow.saved_view import BEST_RETURN
from tune_media.storage.entry import MediaEntry
from tune_media.storage.episode_files import FOLDER, recorder_of, report_step
from tune_media.storage.location import LOCATION_FILE
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.foreign import shown, without_address
from tune_media.values.histogram import Histogram
from tune_media.values.image import Image
from tune_media.values.strict_json import json_bytes

BEST_TAG, SEARCHED_TAG, SUSPECT_TAG = "tune_media.best_clip", "tune_media.searched", "tune_media.suspect"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

_CONFIG = "config/"  # before the names of hyperparameters that are metrics
_MAX_METRICS, _MAX_PARAMS, _MAX_PARAM_CHARACTERS = 1000, 100, 6000
_MAX_TEXT, _MAX_TAG = 100, 5000  # characters
_MAX_NAMES = 3  # in a message
_FIRST_TABLE, _TABLE_GROWTH = 25, 1.25  # reports: a table is written as a whole, so the longer it is, the less often
_THUMBNAIL = 256  # pixels


class RefusedError(ValueError):
    """MLflow does not take some parameters or metrics; it has all others."""


class MlflowRun:
    """The run of one trial. The backend's thread calls all its methods; they may raise, and be called again.

    Args:
        client: MLflow's client.
        run: The run, as MLflow has it now.
        folder: Where a file is until MLflow has it. None: the system's folder for temporary files.
    """

    def __init__(self, client: Any, run: Any, folder: Path | None = None) -> None:
        self.run_id: str = run.info.run_id
        self._client, self._folder = client, folder
        self._params = dict(run.data.params)
        self._config = {name: value for name, value in run.data.metrics.items() if name.startswith(_CONFIG)}
        self._current: Mapping[str, Any] | None = None  # the last hyperparameters
        self._tables = json.loads(run.data.tags.get(TABLES_TAG, "[]"))
        self._has_images = IMAGES_TAG in run.data.tags
        self._best, self._best_step, self._best_at = _best_of(run.data.tags)
        self._table = EpisodesTable()
        self._table_lacks_earlier = True
        self._reports, self._next_table = 0, float(_FIRST_TABLE)
        self._iteration: int | None = None  # of the last result
        self._time: float | None = None  # of the last result

    def log_result(self, report: Report, numbers: Mapping[str, float], config: Mapping[str, Any]) -> None:
        """Log the numbers of a result, and those of the hyperparameters if it is the first one or they have changed.

        Args:
            report: The result. If its training iteration is not higher than the last one, the trial went back.
            numbers: Its numbers by their names.
            config: The hyperparameters with which the trial started.

        Raises:
            RefusedError: MLflow does not take some of the metrics.
        """
        iteration, step, at = report.training_iteration, report.step, report.time
        if (self._iteration is None or iteration <= self._iteration) and not self._is_ranked(report.row):
            clips = BestClips(self._best.as_dicts())
            if clips.go_back(iteration):
                self._log_best(clips, step, at, report.row)
        self._iteration, self._time = iteration, at
        self._current = report.config or self._current or config
        now = flatten_dict(dict(self._current), delimiter="/")
        found = {_CONFIG + name: value for name, value in numbers_of(now).items()}
        changed = {name: value for name, value in found.items() if self._config.get(valid_name(name)) != value}
        self.log_metrics({**numbers, **changed}, step, at)
        self._config |= {valid_name(name): value for name, value in changed.items()}

    def log_params(self, config: Mapping[str, Any]) -> None:
        """Log hyperparameters once; those that have changed since become tags unless they are numbers.

        The numbers are metrics, see ``log_result``.

        Raises:
            RefusedError: MLflow does not take some of them.
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
            self._params |= texts  # they are refused once
            raise
        self._params |= texts

    def log_metrics(self, numbers: Mapping[str, float], step: int, at: float) -> None:
        """Log numbers, in as few requests as MLflow takes.

        Args:
            numbers: The numbers by their names.
            step: Their step.
            at: When they were reported, seconds since 1970.

        Raises:
            RefusedError: MLflow does not take some of them.
        """
        from mlflow.entities import Metric

        metrics = [Metric(valid_name(name), value, _milliseconds(at), step) for name, value in numbers.items()]
        self._log_some(metrics, _MAX_METRICS, lambda some: self._client.log_batch(self.run_id, metrics=some))

    def log_medium(self, entry: MediaEntry) -> None:
        """Log a clip, an image, a histogram or a file."""
        medium = entry.medium
        path = clip_path(entry.path, medium.facts())
        self._log_file(path, medium.content())
        if isinstance(medium, Image):
            self._log_image(entry, medium)
        elif isinstance(medium, Histogram):
            self._log_quantiles(entry)
        episode = medium.facts().get("episode_id")
        if episode is not None:
            self._table.add_clip(episode, path)
        iteration = entry.training_iteration
        if self._is_ranked(entry.row) or (self._iteration is not None and iteration > self._iteration):
            return  # in the latter case the trial has gone back since
        clip = BestClip.of(
            medium.facts(), section=entry.section, step=entry.step, file=path, training_iteration=iteration
        )
        clips = BestClips(self._best.as_dicts())
        if clips.add(clip):
            self._log_best(clips, entry.step, entry.time, entry.row)
        self._best = clips

    def mark_suspect(self, entry: MediaEntry) -> None:
        """Put a text beside a clip that may not show its episode, and a tag on the run."""
        text = str(entry.medium.note).encode()
        self._log_file(f"{clip_path(entry.path, entry.medium.facts())}.suspect.txt", text)
        self._client.set_tag(self.run_id, SUSPECT_TAG, "true")

    def log_episodes(self, entry: MediaEntry, batch: EpisodeBatch) -> None:
        """Log the data of some episodes: their file, histograms of all values, quantiles, and rows of the table."""
        recorder = recorder_of(entry.key)
        self._log_file(entry.path, entry.content())
        histograms = batch.histograms()
        if histograms:
            text = json_bytes({name: json.loads(histogram.content()) for name, histogram in histograms.items()})
            folder = f"histograms/{entry.section}/{artifact_name(recorder)}"
            self._log_file(f"{folder}/step_{entry.step:09d}-{batch.id[:12]}.json", text)
            self._log_quantiles(entry)
        facts = [{**episode.record.facts(), "metrics": dict(episode.record.metrics)} for episode in batch.episodes]
        place = {"section": entry.section, "recorder": recorder}
        self._table.add(entry.path, entry.step, [{**place, **row} for row in facts])
        self._reports += 1
        if self._reports >= self._next_table:
            self.log_table()
            self._next_table = max(self._reports + _FIRST_TABLE, self._reports * _TABLE_GROWTH)

    def log_table(self) -> None:
        """Write the table of episodes if it lacks any. It is written whole, and replaces the one before.

        An earlier process may have logged episodes and been killed before it wrote its table.
        """
        if self._table_lacks_earlier:
            self._read_earlier_episodes()
            self._table_lacks_earlier = False
        if not self._table.is_changed:
            return
        self._log_file(TABLE, self._table.content())
        known = {"path": TABLE, "type": "table"}
        if known not in self._tables:
            self._client.set_tag(self.run_id, TABLES_TAG, json.dumps([*self._tables, known]))
            self._tables.append(known)
        self._table.is_changed = False

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

    def describe(self, searched: Mapping[str, Any]) -> None:
        """Give the run a description: the hyperparameters that Tune chose, and the best clip."""
        texts = {name: without_address(str(value))[:_MAX_TEXT] for name, value in searched.items()}
        searched_tag = json.dumps(texts)
        self._client.set_tag(self.run_id, SEARCHED_TAG, searched_tag if len(searched_tag) <= _MAX_TAG else "{}")
        lines = [", ".join(f"{name} = {text}" for name, text in texts.items())]
        best = self._best.best
        if best is not None:
            lines.append(f"Best clip: {best.caption} ({best.file})")
        self._client.set_tag(self.run_id, NOTE_TAG, "\n\n".join(filter(None, lines))[:_MAX_TAG])

    def end(self, status: str) -> None:
        """Give the run its last status. It ended with its last result."""
        self._client.set_terminated(self.run_id, status, None if self._time is None else _milliseconds(self._time))

    def _is_ranked(self, row: int) -> bool:
        """Return whether a call is made again whose clip, or whose way back, the best clips know already."""
        return 0 < row <= self._best_at[1]

    def _log_best(self, clips: BestClips, step: int, at: float, row: int) -> None:
        """Log the return of the best clip, NaN if there is none any longer, and remember the clips with the run.

        MLflow shows the value of the highest step, so that of a trial that went back is logged at the step before.
        """
        best, step = clips.best, max(step, self._best_step)
        at = max(at, self._best_at[0])  # a clip that was rendered later is older than its row
        self.log_metrics({BEST_RETURN: best.episode_return if best else math.nan}, step, at)
        known = clips.as_dicts()
        while len(text := json.dumps({"step": step, "time": at, "row": row, "clips": known})) > _MAX_TAG:
            known = known[1:]
        self._client.set_tag(self.run_id, BEST_TAG, text)
        self._best, self._best_step, self._best_at = clips, step, (at, row)

    def _log_some(self, items: Sequence[Any], most: int, log: Callable[[Sequence[Any]], None]) -> None:
        """Log parameters or metrics; if MLflow refuses a batch of them, one by one, so that it takes all others."""
        refused: dict[str, Exception] = {}
        for start in range(0, len(items), most):
            some = items[start : start + most]
            try:
                log(some)
            except Exception as error:
                if is_away(error):
                    raise
                refused |= self._log_each(some, log) if len(some) > 1 else {some[0].key: error}
        if refused:
            names = ", ".join(list(refused)[:_MAX_NAMES]) + (", ..." if len(refused) > _MAX_NAMES else "")
            reason = shown(next(iter(refused.values())), str)
            raise RefusedError(f"MLflow refuses {len(refused)} of {len(items)} value(s): {names}: {reason}")

    def _log_each(self, items: Sequence[Any], log: Callable[[Sequence[Any]], None]) -> dict[str, Exception]:
        refused = {}
        for item in items:
            try:
                log([item])
            except Exception as error:
                if is_away(error):
                    raise
                refused[item.key] = error
        return refused

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

    def _read_earlier_episodes(self) -> None:
        """Add the episodes that an earlier process logged: those of its table, and of the reports since."""
        files = {info.path for info in self._client.list_artifacts(self.run_id)}
        if TABLE in files:
            self._table.read(self._download(TABLE))
        if FOLDER in files:
            found = [info.path for info in self._client.list_artifacts(self.run_id, FOLDER)]
            steps = {path: step for path in found if (step := report_step(path)) is not None}
            for path in sorted(self._table.missing(steps), key=lambda path: -steps[path]):
                if self._table.is_full:
                    break
                self._table.add(path, steps[path], json.loads(self._download(path)))

    def _download(self, path: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="tune_media-", dir=self._folder) as folder:
            return Path(self._client.download_artifacts(self.run_id, path, folder)).read_bytes()


def _best_of(tags: Mapping[str, str]) -> tuple[BestClips, int, tuple[float, int]]:
    """Return the best clips that a run remembers, the step of their last point, and the call that logged it."""
    found = json.loads(tags.get(BEST_TAG, "{}"))
    if "clips" not in found:  # an earlier version remembered the best one only
        return BestClips([found] if found else []), int(found.get("step", 0)), (0.0, 0)
    return BestClips(found["clips"]), int(found["step"]), (found["time"], found["row"])


def best_clip_of(tags: Mapping[str, str]) -> BestClip | None:
    """Return the best clip of a run, out of its tags."""
    return _best_of(tags)[0].best


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _thumbnail(png: bytes) -> bytes:
    """Return a small picture for MLflow's grid; the picture itself if Pillow is not installed, which makes it."""
    try:
        import PIL.Image
    except ImportError:
        return png
    with PIL.Image.open(io.BytesIO(png)) as image:
        image.thumbnail((_THUMBNAIL, _THUMBNAIL))
        small = io.BytesIO()
        image.save(small, "webp")
    return small.getvalue()
