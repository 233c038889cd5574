"""How long logging one result holds Tune's loop: python -m tests.benchmarks.bench_tune_loop.

The peer is Ray's JSON and TensorBoard loggers, in turns with ours, and without any clip: that is the price of logging
the numbers. W&B is offline, MLflow on sqlite. Each time is that of all callbacks for one result. On a busy machine the
wall clock counts what other programs do; the CPU time of the loop's thread does not.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback

import tune_media as tm
from tests.support.fake_trial import FakeTrial

RESULTS, RAW_RESULTS = 201, 11
PAUSE = 0.05  # between two results, so that the background's backlog is not measured
RAYS = "Ray's JSON and TBX, no media"


def metrics(step: int) -> dict[str, Any]:
    return {"training_iteration": step, **{f"group_{i}": {f"m{j}": float(i * j) for j in range(20)} for i in range(10)}}


class Method:
    """One experiment of one trial, whose results are timed."""

    def __init__(self, callbacks: list[Any], make_result: Callable[[int], dict[str, Any]], folder: str) -> None:
        self._callbacks, self._make_result = callbacks, make_result
        self._trial = FakeTrial(Path(tempfile.mkdtemp(dir=folder)), Path(tempfile.mkdtemp(dir=folder)).name)
        self.wall: list[float] = []
        self.cpu: list[float] = []
        for callback in callbacks:
            callback.setup()
            callback.log_trial_start(self._trial)

    def log(self, step: int) -> None:
        result = self._make_result(step)
        wall, cpu = time.perf_counter(), time.thread_time()
        for callback in self._callbacks:
            callback.log_trial_result(step, self._trial, result)
        self.wall.append(1e3 * (time.perf_counter() - wall))
        self.cpu.append(1e3 * (time.thread_time() - cpu))

    def end(self) -> None:
        for callback in self._callbacks:
            callback.log_trial_end(self._trial)
            callback.on_experiment_end([self._trial])


def two() -> list[Any]:
    return [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]


def four(folder: str) -> list[Any]:
    uri = f"sqlite:///{tempfile.mkdtemp(dir=folder)}/mlflow.db"
    mlflow = tm.MLflowMediaLoggerCallback(uri, artifact_location=f"file://{folder}/mlruns")
    return [*two(), tm.WandbMediaLoggerCallback(project="p", mode="offline"), mlflow]


def with_clip() -> Callable[[int], dict[str, Any]]:
    frames = np.random.default_rng(0).integers(0, 255, (10, 64, 96, 3), np.uint8)
    clips: Iterator[tm.Video] = iter([tm.Video(frames, fps=20) for _ in range(RESULTS + 10)])
    return lambda step: {**metrics(step), "clip": next(clips)}


def with_raw(step: int) -> dict[str, Any]:
    """Return a result of RLlib that holds a clip of 200 frames, as its documentation's example reports it."""
    frames = np.zeros((1, 200, 3, 400, 600), np.uint8)
    frames[:, :, :, step : step + 20] = 200
    evaluation = {"num_healthy_workers": 1, "env_runners": {"clip": frames}}
    return {**metrics(step), "evaluation": evaluation}


def compare(title: str, methods: dict[str, Method], results: int, pause: float = PAUSE) -> list[dict[str, Any]]:
    """Log results in turns; return a row for each method, milliseconds a result."""
    for step in range(1, results + 6):
        for method in methods.values():
            time.sleep(pause)
            method.log(step)
    rows = []
    for name, method in methods.items():
        low, median, high, late = np.percentile(method.wall[5:], (25, 50, 75, 99))
        cpu, late_cpu = np.percentile(method.cpu[5:], (50, 99))
        row = {"what": title, "method": name, "median": median, "low": low, "high": high, "p99": late}
        rows.append({**row, "cpu": cpu, "cpu_p99": late_cpu})
    for row in rows:
        row["ratio"] = row["cpu"] / rows[0]["cpu"]
    for method in methods.values():
        method.end()
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print("| what | method | wall, ms: median | 25 to 75 % | p99 | CPU, ms: median | p99 | CPU ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        spread = f"{row['low']:.2f} to {row['high']:.2f} | {row['p99']:.1f}"
        cpu = f"{row['cpu']:.2f} | {row['cpu_p99']:.2f} | {row['ratio']:.2f}"
        print(f"| {row['what']} | {row['method']} | {row['median']:.2f} | {spread} | {cpu} |")


def main() -> None:
    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:

        def rays() -> Method:
            return Method([JsonLoggerCallback(), TBXLoggerCallback()], metrics, folder)

        methods = {RAYS: rays(), "ours: JSON, TensorBoard": Method(two(), metrics, folder)}
        rows = compare("200 metrics", methods, RESULTS)
        methods = {RAYS: rays(), "ours: JSON": Method([tm.JsonMediaLoggerCallback()], with_raw, folder)}
        rows += compare("200 metrics and a raw clip, 200 x 400 x 600", methods, RAW_RESULTS, pause=1.0)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")  # W&B's helper
        methods = {
            RAYS: rays(),
            "ours: JSON, TensorBoard": Method(two(), with_clip(), folder),
            "ours: all four": Method(four(folder), with_clip(), folder),
        }
        rows += compare("200 metrics and a Video", methods, RESULTS)
        ray.shutdown()
    show(rows)


if __name__ == "__main__":
    main()
