"""Isaac Lab, or any training with rsl_rl, under Tune: each trial is a process, whose results and clips it reports.

Here, rsl_rl_stand_in.py trains, without a GPU. For Isaac Lab, see docs/howto/rsl-rl.md.
"""

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ray import tune
from ray.tune.schedulers import ASHAScheduler

import tune_media as tm

STAND_IN = [sys.executable, str(Path(__file__).with_name("rsl_rl_stand_in.py"))]
OF_THE_RUN = ("trial_id", "timestamp", "iterations_since_restore", "done", "checkpoint_dir_name")  # Tune has its own


def train(config):
    """Start a training with a log folder of its own, and report what its log writer writes there."""
    Path(config["logs"]).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=config["logs"], prefix=f"{tune.get_context().get_trial_id()}_"))
    settings = [f"{name}={value}" for name, value in config.items() if name.startswith("agent.")]
    with (folder / "result.json").open("a+") as file, (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            [*shlex.split(config["command"]), *settings],
            env={**os.environ, "LOG_DIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        # It kills the process and all that it started when its own input ends: when Tune ends this trial, in any way.
        # "--fork", since Ray kills the children of a worker that ends, and no grandchildren.
        kill = ["setsid", "--fork", "sh", "-c", f"cat; kill -9 -{process.pid} 2>/dev/null"]
        with subprocess.Popen(kill, stdin=subprocess.PIPE):
            result, reported = {}, set()
            for result in results_of(process, file):
                rows = [row for row in tm.load(folder) if row["id"] not in reported]
                rows = [row for row in rows if row["step"] <= result["training_iteration"]]
                reported.update(row["id"] for row in rows)
                clips = [tm.Video.from_file(folder / row["path"], note=f"iteration {row['step']}") for row in rows]
                metrics = {name: value for name, value in result.items() if name not in OF_THE_RUN}
                tune.report({**metrics, "clips": clips} if clips else metrics)
            if not result.get("done"):
                last_lines = (folder / "output.txt").read_text(errors="replace").splitlines()[-20:]
                raise RuntimeError("\n".join([f"The training ended with exit code {process.wait()}:", *last_lines]))
            with contextlib.suppress(subprocess.TimeoutExpired):  # a simulator may hang when it closes
                process.wait(30)


def results_of(process, file):
    """Yield the result of each iteration once, when it is whole."""
    line, result, has_ended = "", {}, False
    while not has_ended:
        has_ended = process.poll() is not None  # asked before the last lines are read
        while (line := line + file.readline()).endswith("\n"):
            newer, line = json.loads(line), ""
            if result and newer["training_iteration"] != result["training_iteration"]:
                yield result
            result = newer
        has_ended = has_ended or result.get("done", False)
        time.sleep(0 if has_ended else 0.5)
    if result:
        yield result


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    parser.add_argument("--logs", default="logs/rsl_rl", help="folder for the log folders of all trainings")
    parser.add_argument("--command", default=shlex.join(STAND_IN), help="what trains; settings are added to it")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of a trial")
    args = parser.parse_args()
    os.environ["TUNE_DISABLE_STRICT_METRIC_CHECKING"] = "1"  # there is no return before the first episodes end
    results = tune.Tuner(
        tune.with_resources(train, {"cpu": 1, "gpu": args.gpus}),
        param_space={
            "agent.algorithm.learning_rate": tune.grid_search([1e-3, 1e-5, 1e-1]),
            "agent.seed": 1,
            "agent.max_iterations": args.iterations,
            "command": args.command,
            "logs": str(Path(args.logs).absolute()),
        },
        tune_config=tune.TuneConfig(
            metric="episode_return_mean",
            mode="max",
            max_concurrent_trials=1,
            scheduler=ASHAScheduler(max_t=args.iterations, grace_period=3),
        ),
        run_config=tune.RunConfig(
            name="isaac_lab_under_tune",
            storage_path=args.storage,
            callbacks=[tm.JsonMediaLoggerCallback()],
        ),
    ).fit()
    for row in tm.load(results.experiment_path):
        print(row["trial"], row["step"], row["note"], row["path"])
