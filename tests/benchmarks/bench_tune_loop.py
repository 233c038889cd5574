"""How long logging one result holds Tune's loop: python -m tests.benchmarks.bench_tune_loop.

Without moviepy installed, which is how these were run, tensorboardX leaves raw clips out, and Ray's time is that of its
JSON logger alone.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow.fs
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback

import tune_media as tm
from tests.benchmarks.common import compare, show


class Storage:
    def __init__(self, folder: Path) -> None:
        self.storage_filesystem = pyarrow.fs.LocalFileSystem()
        self.experiment_fs_path = str(folder / "storage")
        self.trial_fs_path = str(folder / "storage" / "trial")
        self.experiment_driver_staging_path = str(folder / "staging")


class Trial:
    """As much of a trial as loggers ask for; a real one needs a running experiment."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp())
        self.storage = Storage(folder)
        self.trial_id, self.config, self.evaluated_params, self.checkpoint = "trial", {}, {}, None
        self.local_path = str(folder / "staging" / "trial")
        self.init_local_path()

    def init_local_path(self) -> None:
        Path(self.local_path).mkdir(parents=True, exist_ok=True)


def logging(callbacks, make_result):
    """Return what logs one more result with these callbacks."""
    trial = Trial()
    count = 0
    for callback in callbacks:
        callback.log_trial_start(trial)

    def once() -> None:
        nonlocal count
        count += 1
        result = make_result(count)
        for callback in callbacks:
            callback.log_trial_result(count, trial, result)

    return once


def metrics(step: int) -> dict:
    return {"training_iteration": step, **{f"group_{i}": {f"m{j}": float(i * j) for j in range(20)} for i in range(10)}}


def main() -> None:
    frames = np.random.default_rng(0).integers(0, 255, (60, 100, 150, 3), np.uint8)
    raw = frames.transpose(0, 3, 1, 2)[None]

    def with_raw(step: int) -> dict:
        return {**metrics(step), "evaluation": {"num_healthy_workers": 1, "env_runners": {"clip": raw.copy()}}}

    def rays():
        return [JsonLoggerCallback(), TBXLoggerCallback()]

    def ours():
        return [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]

    show(
        "200 metrics, no clip",
        compare({"Ray's JSON and TBX": logging(rays(), metrics), "ours": logging(ours(), metrics)}, rounds=41),
    )
    show(
        "200 metrics and a raw clip of 60 frames, 100x150",
        compare({"Ray's JSON and TBX": logging(rays(), with_raw), "ours": logging(ours(), with_raw)}, rounds=3),
    )
    # Made beforehand, as recorders do in their own processes.
    clips = iter([tm.Video(frames[:20], fps=20) for _ in range(60)])
    show(
        "200 metrics and a tune_media.Video",
        compare(
            {
                "Ray's JSON and TBX, no clip": logging(rays(), metrics),
                "ours, with the clip": logging(ours(), lambda step: {**metrics(step), "clip": next(clips)}),
            },
            rounds=41,
        ),
    )


if __name__ == "__main__":
    main()
