"""Trackio: each trial is a run, with its numbers, clips, pictures, histograms and tables of episodes."""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ray.tune.utils import flatten_dict
from typing_extensions import override

from tune_media.callbacks import trackio_names as names
from tune_media.callbacks.backend import Backend, Report, TrialInfo
from tune_media.callbacks.callback import MediaLoggerCallback
from tune_media.callbacks.shown_values import caption_of, numbers_of
from tune_media.storage.entry import MediaEntry
from tune_media.values.checks import a_text, suggests_names
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.histogram import Histogram
from tune_media.values.installing import pip_install
from tune_media.values.options import MediaOptions


@suggests_names
class TrackioMediaLoggerCallback(MediaLoggerCallback):
    """Logs metrics and media to Trackio's folder on the driver's disk, in the background; it uploads nothing.

    Each trial is a run, in a group with the name of the experiment. A clip is a ``trackio.Video`` at
    ``<section>/<key>``; pictures are images, ``Histogram`` values and the values of episodes histograms, and the
    episodes of a round a table. ``Artifact`` files are not logged; they are in the trial's folder.

    Each row is there once, also after a kill and ``Tuner.restore``. If a trial goes back and reports an iteration
    again, Trackio keeps the numbers that it got first, and has the media of both times.

    Args:
        project: Trackio's project. None: the name of the Tune experiment.
        media: Options, shared by all callbacks of the family in one experiment.

    Raises:
        ImportError: Trackio is not installed.
        TypeError: An argument of the wrong type.
        ValueError: At setup, before the first trial starts: Trackio does not take the project's name. (Without one, the
            rows of an experiment whose name it does not take are counted as lost.)

    Example:
        ``tune_media.TrackioMediaLoggerCallback(project="walkers")``
    """

    def __init__(self, project: str | None = None, media: MediaOptions | None = None) -> None:
        a_text("'walkers'", or_none=True).check("TrackioMediaLoggerCallback(project=...)", project)
        if importlib.util.find_spec("trackio") is None:
            raise ImportError("TrackioMediaLoggerCallback needs Trackio: " + pip_install("trackio"))
        super().__init__(TrackioBackend(project), media)


class TrackioBackend(Backend):
    """Writes rows to Trackio's storage, in the backend's own thread.

    ``trackio.log`` would put them into a queue, which a kill loses, and give each row a new id. Here a row has an id
    that is the same when it comes again, and Trackio ignores a row whose id it has. So do its imports.
    """

    name = "Trackio"

    def __init__(self, project: str | None) -> None:
        self._project = project
        self._configs: dict[str, Mapping[str, Any]] = {}  # of each trial, until a row has told of it
        self._records = names.RecordWriter()

    @override
    def setup(self, **info: Any) -> None:
        names.check_project(self._project or "")

    @override
    def start(self, trial: TrialInfo) -> None:
        self._configs[trial.trial_id] = trial.config

    @override
    def metrics(self, trial: TrialInfo, report: Report) -> None:
        numbers = numbers_of(report.flat)
        numbers.pop("timestamp", None)  # a row has one
        if report.config is not None:
            self._configs[trial.trial_id] = report.config
            numbers |= numbers_of(flatten_dict({"config": dict(report.config)}, delimiter="/"))
        reserved = names.reserved_keys()
        row = {f"__{name}" if name in reserved else name: value for name, value in numbers.items()}
        self._write(trial, row, report.step, report.time, f"result {report.training_iteration}")

    @override
    def media(self, trial: TrialInfo, entry: MediaEntry) -> None:
        row = dict(self._values(trial, entry))
        if row:
            self._write(trial, row, entry.step, entry.time, f"{entry.medium.id} {entry.tag}")

    def _values(self, trial: TrialInfo, entry: MediaEntry) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the values that Trackio shows of a medium, by name, as its rows have them."""
        import trackio

        place, medium = (self._project_of(trial), trial.name, entry.step), entry.medium
        if isinstance(medium, Histogram | EpisodeBatch):
            for tag, histogram in entry.histograms().items():
                if histogram.count:
                    yield tag, names.as_value(trackio.Histogram(np_histogram=(histogram.counts, histogram.edges)))
        if isinstance(medium, EpisodeBatch):
            episodes = [episode.record.facts() for episode in medium.episodes]
            flat = [{name: v for name, v in row.items() if not isinstance(v, Mapping)} for row in episodes]
            rows = [{**fields, **row.get("metrics", {})} for fields, row in zip(flat, episodes, strict=True)]
            yield entry.tag, names.as_value(trackio.Table(data=rows), *place)
        if medium.kind in ("video", "tiled", "image"):
            facts = medium.facts()
            file = names.media_folder(*place) / Path(entry.path).name
            file.write_bytes(entry.content())
            if medium.kind == "image":
                value: Any = trackio.Image(file, facts.get("caption"))
            else:
                value = trackio.Video(file, caption_of(facts, f"step {entry.step}"))
            yield entry.tag, names.as_file(value, file)

    def _write(self, trial: TrialInfo, row: dict[str, Any], step: int, seconds: float, id: str) -> None:
        run = f"{trial.experiment} {trial.trial_id}"
        config = self._configs.get(trial.trial_id)
        self._records.write(
            {
                "project": self._project_of(trial),
                "run": trial.name,
                "run_id": run,
                "metrics": row,
                "step": step,
                "timestamp": datetime.fromtimestamp(seconds, UTC).isoformat(),
                "config": None if config is None else _config_row(trial, config),
                "log_id": f"{run} {id}",
            }
        )
        self._configs.pop(trial.trial_id, None)

    def _project_of(self, trial: TrialInfo) -> str:
        """Return the project of a trial. Raises ValueError if Trackio keeps the experiment's name for itself."""
        if self._project is None:
            names.check_project(trial.experiment)
        return self._project or trial.experiment

    @override
    def is_away(self, error: Exception) -> bool:
        return isinstance(error, OSError | sqlite3.OperationalError)  # a full disk, a database that others hold


def _config_row(trial: TrialInfo, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyperparameters as Trackio's page shows them, and the facts of a run that it reads there."""
    flat = flatten_dict(dict(config), delimiter="/")
    plain = {name: value if isinstance(value, int | float) else str(value) for name, value in flat.items()}
    return {**plain, "_Group": trial.experiment, "_Created": datetime.fromtimestamp(trial.time, UTC).isoformat()}
