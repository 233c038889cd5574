"""Makes small experiments on disk without Ray: trials with clips, hyperparameters and results."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

import tune_media as tm
from tests.support.stores import StoredTrial
from tests.support.viewing import write_run


def make_trial(
    folder: Path, params: dict[str, Any], returns: dict[int, float], *, frames: int = 4, fps: float = 30
) -> Path:
    """Write a trial with one clip for each step of ``returns``, and a result.json with the same returns.

    The frames of a clip are grey, each a little lighter than the one before.
    """
    store = StoredTrial.in_folder(folder)
    lines = []
    for number, (step, episode_return) in enumerate(returns.items(), 1):
        record = tm.EpisodeRecord("episode", episode_return, frames - 1, metrics={"speed": -episode_return})
        clip = tm.Video.from_encoded(_grey_clip(number, frames, fps), episode=record)
        store.add(clip, step=step, iteration=number)
        lines.append({"training_iteration": number, "env_runners": {"episode_return_mean": episode_return}, "lr": 1})
    write_run(folder, params, *lines)
    store.finish()
    return folder


@functools.cache
def _grey_clip(number: int, frames: int, fps: float) -> tm.Video:
    shades = (min(255, 10 * number + index) for index in range(frames))
    return tm.Video([np.full((32, 48, 3), shade, np.uint8) for shade in shades], fps=fps)


def make_experiment(folder: Path) -> Path:
    """Write an experiment of three trials; the second has the best return, the third has recorded nothing."""
    make_trial(folder / "trial_a", {"lr": 0.1, "gamma": 0.9, "seed": 7}, {10: 1.0, 20: 3.0})
    make_trial(folder / "trial_b", {"lr": 0.2, "gamma": 0.9, "seed": 7}, {10: 2.0, 20: 9.0, 30: 4.0})
    (folder / "trial_c").mkdir()
    (folder / "trial_c" / "params.json").write_text(json.dumps({"lr": 0.3, "gamma": 0.9, "seed": 7}))
    return folder


def make_seeds(folder: Path, returns: dict[Any, list[float]]) -> Path:
    """Write a trial of each return, by its learning rate and its place in the list, which is its seed."""
    for lr, values in returns.items():
        for seed, value in enumerate(values):
            make_trial(folder / f"{lr}_{seed}", {"lr": lr, "seed": seed}, {10: float(value)})
    return folder
