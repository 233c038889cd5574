"""Start-up, CPU time and memory of one evaluation, beside RLlib's ``Algorithm.from_checkpoint(...).evaluate()``.

Each round is a process of its own: from its start, imports included, to the end of the first episode. The memory is
that of the process and of all that it has started (the proportional set size, so shared pages count once).

Run it with ``python -m tests.benchmarks.bench_evaluation``.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.common import Timing, family, show

ROUNDS = 3
ENV_RUNNERS = (1, 8)
EPISODES = 1


def train(folder: str, env_runners: int) -> None:
    """Save a checkpoint of a PPO with so many env runners."""
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig

    ray.init(num_cpus=env_runners + 1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=env_runners)
    config.evaluation(evaluation_interval=1, evaluation_num_env_runners=0, evaluation_duration=EPISODES)
    algorithm = config.build_algo()
    algorithm.save_to_path(folder)
    algorithm.stop()


def by_rllib(folder: str, env_runners: int) -> int:
    """Evaluate a checkpoint as RLlib does it; return the CPUs that it reserves."""
    import ray
    from ray.rllib.algorithms.algorithm import Algorithm

    ray.init(num_cpus=env_runners + 1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    algorithm = Algorithm.from_checkpoint(folder)
    algorithm.evaluate()
    return env_runners + 1


def by_us(folder: str, env_runners: int) -> int:
    """Evaluate a checkpoint in an env runner of this process; return the CPUs that it reserves."""
    from tune_media.replay.playing import PlayerSettings, same_process_state
    from tune_media.rllib.checkpoint_player import player_of

    with same_process_state():
        player_of(Path(folder), PlayerSettings(), range(EPISODES)).play(0)
    return 0


def memory() -> int:
    """Return the proportional set size of this process and its descendants, bytes."""
    found = 0
    for process in family():
        with contextlib.suppress(OSError):  # it has just ended
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            found += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found


METHODS = {"RLlib: Algorithm.from_checkpoint(...).evaluate()": by_rllib, "tune_media": by_us}


def measured(method: str, folder: str, env_runners: int) -> dict[str, float]:
    """Return seconds, CPU seconds, bytes and reserved CPUs of a method in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_evaluation", method, folder, str(env_runners)]
    started = time.time()
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"}
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found | {"seconds": found["at"] - started}


def main() -> None:
    for env_runners in ENV_RUNNERS:
        with tempfile.TemporaryDirectory(prefix="tune_media-bench-") as folder:
            command = [sys.executable, "-m", "tests.benchmarks.bench_evaluation", "train", folder, str(env_runners)]
            subprocess.run(command, check=True, capture_output=True)
            rounds: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
            for _ in range(ROUNDS):
                for method, taken in rounds.items():
                    taken.append(measured(method, folder, env_runners))
        seconds = {
            method: Timing.of([one["seconds"] for one in taken], [one["cpu"] for one in taken])
            for method, taken in rounds.items()
        }
        memories = {method: statistics.median(one["memory"] for one in taken) for method, taken in rounds.items()}
        first = next(iter(memories.values()))
        more = {
            "MB": {method: f"{value / 1e6:.0f}" for method, value in memories.items()},
            "MB ratio": {method: f"{value / first:.2f}" for method, value in memories.items()},
            "reserved CPUs": {method: f"{taken[0]['reserved']:.0f}" for method, taken in rounds.items()},
        }
        show(f"One episode of a checkpoint of a training with {env_runners} env runners", seconds, 1.0, "s", more)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "train":
        train(sys.argv[2], int(sys.argv[3]))
    else:
        reserved = METHODS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
        times = os.times()
        cpu = times.user + times.system + times.children_user + times.children_system
        print(json.dumps({"at": time.time(), "cpu": cpu, "memory": memory(), "reserved": reserved}), flush=True)
        os._exit(0)  # Ray's end is no part of it
