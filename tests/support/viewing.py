"""Experiments as the viewer finds them, written without running any trial."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs

import tune_media as tm
from tune_media.storage.entry import PendingWrite
from tune_media.storage.location import TrialLocation
from tune_media.storage.trial_store import TrialStore
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series

FPS = 10


def write_trial(
    folder: Path,
    number: int,
    steps: tuple[int, ...] = (10, 20),
    storage: tuple[pyarrow.fs.FileSystem, str] | None = None,
    **params: Any,
) -> Path:
    """Write a trial with a best and a worst clip at each step; clips of later steps and trials are longer.

    Args:
        folder: The trial's folder on the driver.
        number: Its number.
        steps: The steps of its results.
        storage: The filesystem and the path of its folder on the storage. None: ``folder``.
        params: More hyperparameters.
    """
    folder.mkdir(parents=True)
    (folder / "params.json").write_text(json.dumps({"lr": number / 10, "env": "E", **params}))
    results = [
        {"training_iteration": step, "episode_return_mean": number + step, "config": {"lr": 1}, "note": "x"}
        for step in steps
    ]
    (folder / "result.json").write_text("".join(json.dumps(result) + "\n" for result in results))
    store = TrialStore(TrialLocation(*(storage or (pyarrow.fs.LocalFileSystem(), str(folder))), folder, f"id_{number}"))
    store.load()
    for step in steps:
        records = [
            tm.EpisodeRecord(f"{folder.name}-{step}-{key}", step + sign * (number + 1), 5, training_iteration=step)
            for key, sign in (("best", 1), ("worst", -1))
        ]
        for record, key in zip(records, ("best", "worst"), strict=True):
            clip = tm.Video(moving_bar(6 + step // 5, number), fps=FPS, episode=record)
            _, entry = store.registry.register(clip, "evaluation", f"episodes/{key}", step, step)
            store.write(PendingWrite(f"id_{number}", [entry]))
        angles = Series(np.linspace(0, number + 1, 6), 1, 6)
        batch = EpisodeBatch(tuple(EpisodeData(record, {"angle": angles}) for record in records))
        _, entry = store.registry.register(
            batch, "evaluation", "episodes/data", step, step, functools.partial(store.registry.report_path, step)
        )
        store.write(PendingWrite(f"id_{number}", [entry]))
    store.finish()
    return folder


def moving_bar(count: int, number: int = 0) -> np.ndarray:
    """Return frames in which a bar moves to the right; its color tells the trial."""
    frames = np.full((count, 48, 64, 3), 40, np.uint8)
    for index in range(count):
        left = index * 56 // count
        frames[index, :, left : left + 8] = [60 + 40 * (number % 4), 200, 90]
    return frames
