"""Results per second of a real sweep, with a clip in each result: python -m tests.benchmarks.bench_sweep.

Trials report as fast as they can, four at a time. Our JSON and TensorBoard callbacks get 20 metrics and a clip in each
result; Ray's own JSON and TBX loggers, in turns with ours, get the metrics alone. The clips are encoded before the
first result: what remains is the driver's work, which is to store each clip and to make a GIF of it. The CPU time is
that until the last result.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import ray
from ray import tune
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback

import tune_media as tm
from tests.benchmarks.common import copy_of, cpu_seconds

SIZES = ((10, 60, 3), (200, 4, 3), (1000, 1, 1))  # trials, results of each, rounds
RAYS, OURS, JSON = "Ray's JSON and TBX, no clips", "ours: JSON, TensorBoard", "ours: JSON"
METHODS = {
    RAYS: lambda: [JsonLoggerCallback(), TBXLoggerCallback()],
    OURS: lambda: [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
    JSON: lambda: [tm.JsonMediaLoggerCallback()],
}


class Clock(tune.Callback):
    """Notes when each result comes, and how much the driver's threads have worked until the last one."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.cpu = cpu_by_thread()

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        self.times.append(time.perf_counter())

    def on_experiment_end(self, trials, **info) -> None:
        before, now = self.cpu, cpu_by_thread()
        self.cpu = {"loop": now["loop"] - before["loop"], "ours": now["ours"]}  # ours are new in each sweep


def cpu_by_thread() -> dict[str, float]:
    """Return the CPU seconds of Tune's loop, and of our threads."""
    seconds = {"loop": 0.0, "ours": 0.0}
    for thread in threading.enumerate():
        kind = "loop" if thread.name == "MainThread" else "ours" if thread.name.startswith("tune_media") else None
        with contextlib.suppress(OSError):  # it has just ended
            if kind:
                seconds[kind] += cpu_seconds(f"self/task/{thread.native_id}")
    return seconds


def train(config) -> None:
    rng = np.random.default_rng(config["index"])
    frames = np.zeros((20, 64, 96, 3), np.uint8)
    for index, frame in enumerate(frames):
        frame[20:40, 3 * index : 3 * index + 20] = rng.integers(100, 255, 3)
    clip = tm.Video(frames, fps=20) if config["media"] else None
    for step in range(1, config["results"] + 1):
        result = {"score": step, **{f"m{index}": float(index) for index in range(20)}}
        if clip is not None:
            result["evaluation"] = {"clip": copy_of(clip)}
        tune.report(result)


def sweep(method: str, trials: int, results: int, folder: str) -> dict[str, float]:
    """Run one sweep in an empty folder; return what it took."""
    clock = Clock()
    grid = tune.Tuner(
        train,
        param_space={"index": tune.grid_search(list(range(trials))), "media": method != RAYS, "results": results},
        tune_config=tune.TuneConfig(reuse_actors=True),
        run_config=tune.RunConfig(
            name="sweep", storage_path=f"{folder}/storage", callbacks=[clock, *METHODS[method]()], verbose=0
        ),
    ).fit()
    ended = time.perf_counter()
    assert not grid.errors
    assert len(clock.times) == trials * results
    clips = len(list(Path(folder).rglob("*.mp4")))
    assert clips == (0 if method == RAYS else trials * results)
    gaps = np.diff(clock.times)
    rate, left = len(gaps) / (clock.times[-1] - clock.times[0]), ended - clock.times[-1]
    return {"rate": rate, "gap": float(gaps.max()), "left": left, **clock.cpu}


def compare(methods: list[str], trials: int, results: int, rounds: int) -> None:
    """Run the sweeps in turns and print a table.

    Their files are deleted after the last one: ext4 without a journal takes up to 0.5 ms to create a file in the minute
    after hundreds were deleted, and only our callbacks create files at each result.
    """
    rows: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for method in methods:
                rows[method].append(sweep(method, trials, results, tempfile.mkdtemp(dir=folder)))
    print(f"\n{trials} trials of {results} results, {rounds} round(s)\n")
    print("| method | results/s | ratio | longest gap, s | left at the end, s | CPU s: loop | our threads |")
    print("|---|---|---|---|---|---|---|")
    for method, found in rows.items():
        median = {name: statistics.median(row[name] for row in found) for name in found[0]}
        ratio = statistics.median(own["rate"] / rays["rate"] for own, rays in zip(found, rows[RAYS], strict=True))
        times = f"{median['gap']:.2f} | {median['left']:.1f} | {median['loop']:.1f} | {median['ours']:.1f}"
        print(f"| {method} | {median['rate']:.0f} | {ratio:.2f} | {times} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, help="only this number of trials")
    parser.add_argument("--results", type=int, default=50, help="results of each of these trials")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    with tempfile.TemporaryDirectory() as folder:
        sweep(RAYS, 4, 5, folder)  # warm
    sizes = ((options.trials, options.results, options.rounds),) if options.trials else SIZES
    for trials, results, rounds in sizes:
        compare(list(METHODS) if rounds > 1 else [RAYS, OURS], trials, results, rounds)
    ray.shutdown()


if __name__ == "__main__":
    main()
