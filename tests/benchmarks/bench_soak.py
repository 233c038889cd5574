"""What the driver holds in a sweep of many short trials: python -m tests.benchmarks.bench_soak soak.png --trials 1000.

Two sweeps, each in a process of its own: our JSON and TensorBoard callbacks with a clip, a histogram and two episodes
in each result, and Ray's own JSON and TBX loggers with numbers only. ``--all`` adds our W&B (offline) and MLflow
(sqlite) callbacks. Memory is what is resident, the pages that the driver shares with Ray's object store included.

Trials that do nothing but report come faster than the background thread makes GIFs, and the event files that wait for
it are open. ``--pause`` makes trials as slow as they are elsewhere; what still grows then is kept for good.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import ray
from ray import tune
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback

import tune_media as tm
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series

EVERY = 10  # trials
RESULTS = 2
RAYS, OURS = "Ray's, numbers only", "ours"
PANELS = {"rss": "resident memory, MB", "threads": "threads", "files": "open files"}


class Sampler(tune.Callback):
    """Write a line for each ten trials that are over: what the driver's process has."""

    def __init__(self, path: str) -> None:
        self.path, self.trials, self.started = path, 0, time.monotonic()

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        self.trials += 1
        if self.trials % EVERY:
            return
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        sample = {
            "trials": self.trials,
            "seconds": round(time.monotonic() - self.started, 1),
            "rss": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
            "threads": len(list(Path("/proc/self/task").iterdir())),
            "python_threads": threading.active_count(),
            "files": len(list(Path("/proc/self/fd").iterdir())),
        }
        with Path(self.path).open("a") as file:
            file.write(json.dumps(sample) + "\n")


def round_of(step: int) -> EpisodeBatch:
    speeds = [np.full(20, float(step)), np.arange(30.0)]
    return EpisodeBatch(
        tuple(
            EpisodeData(
                tm.EpisodeRecord(f"e{step}-{index}", float(step), len(values), metrics={"speed_avg": values.mean()}),
                {"speed": Series(values, 1, len(values))},
            )
            for index, values in enumerate(speeds)
        )
    )


def train(config) -> None:
    time.sleep(config["pause"])
    for step in range(1, RESULTS + 1):
        result = {"score": config["index"] + step, **{f"m{index}": float(index) for index in range(20)}}
        if config["media"]:
            clip = (np.full((32, 48, 3), 20 * index + step, np.uint8) for index in range(6))
            episodes = {"best": tm.Video(clip, fps=10), "data": round_of(step)}
            result["evaluation"] = {"env_runners": {"episodes": episodes}}
            result["weights"] = tm.Histogram(np.arange(100.0) * step)
        tune.report(result)


def callbacks_of(method: str, folder: str) -> list[tune.Callback]:
    if method == RAYS:
        return [JsonLoggerCallback(), TBXLoggerCallback()]
    callbacks = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]
    if method != OURS:
        callbacks.append(tm.WandbMediaLoggerCallback(project="soak", mode="offline"))
        callbacks.append(
            tm.MLflowMediaLoggerCallback(
                tracking_uri=f"sqlite:///{folder}/mlflow.db", artifact_location=f"file://{folder}/mlruns"
            )
        )
    return callbacks


def sweep(method: str, trials: int, pause: float, samples: str) -> None:
    """Run one sweep in this process."""
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    with tempfile.TemporaryDirectory() as folder:
        results = tune.Tuner(
            train,
            param_space={"index": tune.grid_search(list(range(trials))), "media": method != RAYS, "pause": pause},
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(
                name="soak",
                storage_path=f"{folder}/storage",
                callbacks=[*callbacks_of(method, folder), Sampler(samples)],
                verbose=0,
            ),
        ).fit()
        assert not results.errors
    ray.shutdown()


def sampled(method: str, trials: int, pause: float) -> list[dict[str, float]]:
    """Run one sweep in a process of its own; return what was sampled."""
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples"
        command = [sys.executable, "-m", "tests.benchmarks.bench_soak", str(samples), "--trials", str(trials)]
        environment = os.environ | {"RAY_AIR_NEW_OUTPUT": "0"}
        subprocess.run([*command, "--pause", str(pause), "--only", method], check=True, env=environment)
        return [json.loads(line) for line in samples.read_text().splitlines()]


def plot(curves: dict[str, list[dict[str, float]]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(len(PANELS), 1, sharex=True, figsize=(8, 9), layout="constrained")
    for panel, (name, label) in zip(panels, PANELS.items(), strict=True):
        for method, samples in curves.items():
            panel.plot([sample["trials"] for sample in samples], [sample[name] for sample in samples], label=method)
        panel.set_ylabel(label)
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    panels[0].legend()
    panels[0].set_title("The driver of a sweep of short trials, reuse_actors=True")
    panels[-1].set_xlabel("trials that are over")
    figure.savefig(path, dpi=100)


def show(curves: dict[str, list[dict[str, float]]], trials: int) -> None:
    print(f"\n{trials} trials of {RESULTS} results; medians of the second tenth of the trials and of the last\n")
    print("| method | what | second tenth | last tenth | ratio | most | minutes |\n|---|---|---|---|---|---|---|")
    for method, samples in curves.items():
        minutes = f"{samples[-1]['seconds'] / 60:.1f}"
        for name in ("rss", "threads", "python_threads", "files"):
            early = statistics.median(s[name] for s in samples if trials * 0.1 < s["trials"] <= trials * 0.2)
            late = statistics.median(s[name] for s in samples if s["trials"] > trials * 0.9)
            most = max(s[name] for s in samples)
            label = PANELS.get(name, "Python's threads")
            print(f"| {method} | {label} | {early:.4g} | {late:.4g} | {late / early:.3g} | {most:.4g} | {minutes} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", help="the plot, a PNG")
    parser.add_argument("--trials", type=int, default=1000, help="at least 100")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a trial waits before its results")
    parser.add_argument("--all", action="store_true", help="all four of our callbacks")
    parser.add_argument("--only", help=argparse.SUPPRESS)  # what a process of its own is told
    options = parser.parse_args()
    if options.only:
        sweep(options.only, options.trials, options.pause, options.output)
        return
    ours = f"{OURS}, all four" if options.all else OURS
    curves = {method: sampled(method, options.trials, options.pause) for method in (RAYS, ours)}
    plot(curves, options.output)
    show(curves, options.trials)


if __name__ == "__main__":
    main()
