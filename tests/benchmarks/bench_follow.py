"""What ``tune-media evaluate --follow`` beside a sweep costs its training: python -m tests.benchmarks.bench_follow.

A sweep of PPO on CartPole, 4 trials with 10 checkpoints each, two at a time, runs alone, with a follower, and beside a
process that only counts, at the same low priority: the least that anything beside costs. The time is that of ``fit()``,
and the follower is ended with it: it would go on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tests.benchmarks.common import show

TRIALS, CHECKPOINTS, EVERY = 4, 10, 2
ALONE, FOLLOWED, COUNTS = "alone", "evaluate --follow beside it", "a loop that counts, nice 19"


def sweep(storage: Path, name: str) -> None:
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .training(lr=tune.grid_search([1e-4, 3e-4, 1e-3, 3e-3]), train_batch_size=1000, minibatch_size=250)
        .training(num_epochs=5)
        .debugging(seed=1)
    )
    results = tune.Tuner(
        "PPO",
        param_space=config,
        tune_config=tune.TuneConfig(max_concurrent_trials=2),
        run_config=tune.RunConfig(
            name=name,
            storage_path=str(storage),
            stop={"training_iteration": CHECKPOINTS * EVERY},
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=EVERY),
            callbacks=[tm.JsonMediaLoggerCallback()],
            verbose=0,
        ),
    ).fit()
    assert not results.errors
    found = len(list((storage / name).glob("*/checkpoint_*")))
    assert found == TRIALS * CHECKPOINTS, found


@contextlib.contextmanager
def beside(*commands: list[str]) -> Iterator[None]:
    """Run programs, and end them."""
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(tempfile.TemporaryFile())
        programs = [subprocess.Popen(command, stdout=output, stderr=output) for command in commands]
        try:
            yield
            assert all(program.poll() is None for program in programs), "a program has ended before the sweep"
        finally:
            for program in programs:
                program.terminate()
                program.wait()


def run(how: str, storage: Path, name: str) -> int:
    """Return how many checkpoints the follower played before the sweep's end."""
    (storage / name).mkdir()
    follow = [sys.executable, "-m", "tune_media", "evaluate", str(storage / name), "--follow"]
    counts = ["nice", "-n", "19", sys.executable, "-c", "while True: pass"]
    with beside(*{ALONE: [], FOLLOWED: [follow], COUNTS: [counts]}[how]):
        sweep(storage, name)
    return len(list((storage / name).glob("evaluations/*/*/result.json")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    seconds: dict[str, list[float]] = {ALONE: [], FOLLOWED: [], COUNTS: []}
    with tempfile.TemporaryDirectory() as folder:
        sweep(Path(folder), "warm")
        for number, how in enumerate(how for _ in range(rounds) for how in seconds):
            began = time.perf_counter()
            played = run(how, Path(folder), f"sweep_{number}")
            seconds[how].append(time.perf_counter() - began)
            print(f"{how}: {seconds[how][-1]:.1f} s", f"{played=}" if how == FOLLOWED else "", file=sys.stderr)
    spread = {"least to most": {how: f"{min(all_):.1f} to {max(all_):.1f}" for how, all_ in seconds.items()}}
    medians = {how: statistics.median(all_) for how, all_ in seconds.items()}
    show("`fit()` of a sweep beside a follower", medians, 1, "s", spread)


if __name__ == "__main__":
    main()
