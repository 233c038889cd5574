"""How long logging one result to W&B and to MLflow holds Tune's loop: python -m tests.benchmarks.bench_trackers.

W&B is offline, MLflow on sqlite. A result comes every half second, so that the background is not measured as a queue.
Ray's W&B callback gets the clip as the raw array that it encodes, ours as a finished ``Video``; Ray's MLflow callback
drops clips.

With ``hung`` as argument: how much memory 5,000 results cost the driver while an MLflow server accepts connections and
never answers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import ray
from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.air.integrations.wandb import WandbLoggerCallback

import tune_media as tm
from tests.benchmarks.bench_tune_loop import metrics
from tests.benchmarks.common import compare, memory_kb, show
from tests.support.fake_trial import FakeTrial
from tests.support.faults import server_of_silence
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series

PAUSE = 0.5


def logging(callback, make_result, name):
    """Return what logs one more result, after a pause that is not counted, and the callback with its trial."""
    trial = FakeTrial(Path(tempfile.mkdtemp()), name)
    callback.setup()
    callback.log_trial_start(trial)
    time.sleep(8)  # processes and databases start
    count = 0

    def once() -> None:
        nonlocal count
        count += 1
        callback.log_trial_result(count, trial, make_result(count))

    return once


def hung() -> None:
    """Print the driver's memory as results come for a server that hangs."""
    results = 5000
    series = np.random.default_rng(0).normal(size=(results, 1000))

    def result(step: int) -> dict:
        record = tm.EpisodeRecord(f"e{step}", float(step), 1000)
        batch = EpisodeBatch((EpisodeData(record, {"speed": Series(series[step - 1], 1, 1000)}),))
        return {**metrics(step), "evaluation": {"env_runners": {"episodes": {"data": batch}}}}

    with server_of_silence() as uri:
        options = tm.MediaOptions(flush_seconds=1, max_pending_bytes=16_000_000)
        callback, trial = tm.MLflowMediaLoggerCallback(uri, media=options), FakeTrial(Path(tempfile.mkdtemp()), "hung")
        callback.setup()
        callback.log_trial_start(trial)
        before = memory_kb("VmRSS")
        print("\n5,000 results to an MLflow server that hangs, max_pending_bytes = 16 MB\n")
        print("| results | driver's memory, MB more | ms a result |\n|---|---|---|")
        started = time.perf_counter()
        for step in range(1, results + 1):
            callback.log_trial_result(step, trial, result(step))
            if step % (results // 5) == 0:
                each = 1000 * (time.perf_counter() - started) / step
                print(f"| {step} | {(memory_kb('VmRSS') - before) / 1024:.0f} | {each:.2f} |", flush=True)
    os._exit(0)


def main() -> None:
    os.environ["WANDB_MODE"] = "offline"
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR")
    folder = tempfile.mkdtemp()
    frames = np.random.default_rng(0).integers(0, 255, (60, 100, 150, 3), np.uint8)
    raw = frames.transpose(0, 3, 1, 2)[None]
    clips = iter([tm.Video(frames[:20], fps=20) for _ in range(60)])

    def with_raw(step: int) -> dict:
        return {**metrics(step), "clip": raw}

    def with_clip(step: int) -> dict:
        return {**metrics(step), "clip": next(clips)}

    rays = WandbLoggerCallback(project="p", video_kwargs={"format": "mp4", "fps": 20})
    methods = {
        "Ray's W&B, the clip as an array": logging(rays, with_raw, "rays_wandb"),
        "ours, the clip as a Video": logging(tm.WandbMediaLoggerCallback(project="p"), with_clip, "our_wandb"),
    }
    show("W&B: 200 metrics and one clip a result", compare(methods, rounds=11, pause=PAUSE))
    rays = WandbLoggerCallback(project="p")
    methods = {
        "Ray's W&B, no clip": logging(rays, metrics, "rays_wandb_plain"),
        "ours, no clip": logging(tm.WandbMediaLoggerCallback(project="p"), metrics, "our_wandb_plain"),
    }
    show("W&B: 200 metrics, no clip", compare(methods, rounds=11, pause=PAUSE))
    rays = MLflowLoggerCallback(f"sqlite:///{folder}/rays.db", experiment_name="rays")
    methods = {
        "Ray's MLflow, which drops the clip": logging(rays, metrics, "rays_mlflow"),
        "ours, with the clip": logging(
            tm.MLflowMediaLoggerCallback(f"sqlite:///{folder}/ours.db"), with_clip, "our_mlflow"
        ),
    }
    show("MLflow: 200 metrics and one clip a result", compare(methods, rounds=11, pause=PAUSE))
    os._exit(0)  # Ray's W&B callback waits for its actors when it is collected


if __name__ == "__main__":
    hung() if sys.argv[1:] == ["hung"] else main()
