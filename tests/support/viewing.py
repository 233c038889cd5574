"""Experiments as the viewer finds them, written without running any trial."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
from fsspec.implementations.local import LocalFileSystem

import tune_media as tm
from tests.support.stores import StoredTrial
from tune_media.experiment.places import Folder
from tune_media.storage.location import TrialLocation
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series

FPS = 10


class RefusingStorage(LocalFileSystem):
    """This machine's files, as a filesystem that may pass for remote and may refuse some of them.

    Attributes:
        refused: Each call about a path with one of these texts in it raises.
        listed: The folders that were listed.
    """

    cachable = False

    def __init__(self, protocol: str = "file", **more: Any) -> None:
        super().__init__(**more)
        self.protocol = protocol
        self.refused: list[str] = []
        self.listed: list[str] = []

    def info(self, path: Any, **more: Any) -> Any:
        """Return the facts of a file, which is a path, or an entry of a folder that is listed."""
        return super().info(self._asked(path) if isinstance(path, str) else path, **more)

    def find(self, path: str, *more: Any, **options: Any) -> Any:
        self.listed.append(path)
        return super().find(self._asked(path), *more, **options)

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        return super()._open(self._asked(path), mode, **more)

    def _asked(self, path: str) -> str:
        if any(text in path for text in self.refused):
            raise PermissionError(13, "Permission denied", path)
        return path


def on(storage: LocalFileSystem, path: Path) -> Folder:
    """Return a folder as a filesystem of fsspec shows it."""
    return Folder(pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(storage)), str(path))


def write_trial(
    folder: Path,
    number: int,
    steps: tuple[int, ...] = (10, 20),
    storage: tuple[pyarrow.fs.FileSystem, str] | None = None,
    **params: Any,
) -> Path:
    """Write a trial with a best and a worst clip at each step; clips of later steps and trials are longer.

    ``storage`` has the filesystem and the path of the trial's folder there; None: ``folder``.
    """
    results = [
        {"training_iteration": step, "episode_return_mean": number + step, "config": {"lr": 1}, "note": "x"}
        for step in steps
    ]
    write_run(folder, {"lr": number / 10, "env": "E", **params}, *results)
    place = TrialLocation(*(storage or (pyarrow.fs.LocalFileSystem(), str(folder))), folder, f"id_{number}")
    store = StoredTrial(place)
    for step in steps:
        records = [
            tm.EpisodeRecord(f"{folder.name}-{step}-{key}", step + sign * (number + 1), 5, training_iteration=step)
            for key, sign in (("best", 1), ("worst", -1))
        ]
        for record, key in zip(records, ("best", "worst"), strict=True):
            clip = tm.Video.from_encoded(_moving_clip(6 + step // 5, number % 4), episode=record)
            store.add(clip, "evaluation", f"episodes/{key}", step)
        angles = Series(np.linspace(0, number + 1, 6), 1, 6)
        batch = EpisodeBatch(tuple(EpisodeData(record, {"angle": angles}) for record in records))
        store.add(batch, "evaluation", "episodes/data", step)
    store.finish()
    return folder


def write_run(folder: Path, params: Any, *results: dict[str, Any]) -> Path:
    """Write what Tune has of a trial: its hyperparameters and its results."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(params))
    return write_results(folder, *results) if results else folder


def write_results(folder: Path, *results: dict[str, Any]) -> Path:
    """Write the results of a trial in place of those that it has."""
    numbered = [{"training_iteration": number, **result} for number, result in enumerate(results, 1)]
    (folder / "result.json").write_text("".join(json.dumps(result) + "\n" for result in numbered))
    return folder


def index_lines(folder: Path) -> list[dict[str, Any]]:
    """Return the index of a trial."""
    return [json.loads(line) for line in (folder / "media" / "index.jsonl").read_text().splitlines()]


def write_index(folder: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Write the index of a trial in place of the one that it has."""
    (folder / "media" / "index.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_snapshot(
    experiment: Path, stop: dict[str, float] | None = None, copied: str | None = None, **statuses: str
) -> None:
    """Write Tune's snapshot of an experiment; ``statuses`` are Tune's words for the trials, by folder.

    ``copied`` is the folder of a trial that PBT has made go on from another one's checkpoint.
    """
    rows = []
    for name, status in statuses.items():
        tag = f"0@perturbed[{name}]" if name == copied else "0"
        facts = {"trial_id": f"tune_{name}", "relative_logdir": name, "status": status, "experiment_tag": tag}
        rows.append([json.dumps({**facts, "stopping_criterion": stop or {}}), "{}"])
    (experiment / "experiment_state-2026-01-01_00-00-00.json").write_text(json.dumps({"trial_data": rows}))


@functools.cache
def _moving_clip(count: int, number: int) -> tm.Video:
    """Return a clip that is encoded once for all tests of a process: that was half of the time of a trial."""
    return tm.Video(moving_bar(count, number), fps=FPS)


def moving_bar(count: int, number: int = 0) -> np.ndarray:
    """Return frames in which a bar moves to the right; its color tells the trial."""
    frames = np.full((count, 48, 64, 3), 40, np.uint8)
    for index in range(count):
        left = index * 56 // count
        frames[index, :, left : left + 8] = [60 + 40 * (number % 4), 200, 90]
    return frames
