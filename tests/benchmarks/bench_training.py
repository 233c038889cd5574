"""What a training run loses by a recorder: python -m tests.benchmarks.bench_training.

PPO with RLlib's defaults, and an evaluation of 10 episodes after each iteration, in Tune: once with Ray's own JSON and
TensorBoard loggers and without media, once with a recorder and our callbacks in their place. The two run in turns, each
for the same number of iterations, which take at least a minute. A ratio is of the time from the first iteration's
begin to the last result; its interval is that of the median over the pairs. The CPU time is what the processes have
used that are there when the last result comes: the driver, Ray's workers (trial, env runners), and those that render.
The seconds of each pair are printed on stderr as it ends.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback
from scipy import stats

import tune_media as tm
from tests.benchmarks.common import cpu_seconds, short

ENVS = ("CartPole-v1", "Pendulum-v1", "HalfCheetah-v5", "ALE/Breakout-v5")
EPISODES = 10  # of an evaluation
TRIED = 3  # iterations of a first run, which says how many a run of the wanted length has
KINDS = ("driver", "workers", "renderer")


class Clock(tune.Callback):
    """Notes how long a trial took, and the CPU seconds of its processes, with its last result."""

    def __init__(self) -> None:
        self.seconds, self.cpu = 0.0, dict.fromkeys(KINDS, 0.0)
        self._began, self._before = 0.0, cpu_by_process()

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
        self._began = self._began or time.perf_counter() - result["time_total_s"]
        self.seconds = time.perf_counter() - self._began
        self.cpu = dict.fromkeys(KINDS, 0.0)
        for (kind, process), seconds in cpu_by_process().items():
            self.cpu[kind] += seconds - self._before.get((kind, process), 0.0)


def cpu_by_process() -> dict[tuple[str, str], float]:
    """Return the CPU seconds of the processes that are there, each with what it is for."""
    seconds = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = folder.joinpath("cmdline").read_bytes()
            kind = "renderer" if b"tune_media.replay.child" in command else "workers" if b"ray::" in command else ""
            if folder.name == str(os.getpid()):
                kind = "driver"
            if kind:
                seconds[kind, folder.name] = cpu_seconds(folder.name)
        except OSError:  # it has just ended
            continue
    return seconds


def config_of(env: str, env_runners: int, *, records: bool) -> PPOConfig:
    """Return RLlib's defaults for an env; an Atari game has the wrappers that RLlib's examples give it."""
    name, env_config = env, {"render_mode": "rgb_array"}
    if env.startswith("ALE/"):
        name = f"wrapped {env}"
        tune.register_env(name, lambda config: _atari(env))
        env_config = {}
    config = PPOConfig().environment(name, env_config=env_config).env_runners(num_env_runners=env_runners)
    config.evaluation(evaluation_interval=1, evaluation_duration=EPISODES, evaluation_num_env_runners=0)
    return config.callbacks(tm.rllib.record_episodes()) if records else config


def _atari(env: str) -> Any:
    import ale_py
    import gymnasium as gym
    from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack

    gym.register_envs(ale_py)
    return wrap_atari_for_new_api_stack(gym.make(env, frameskip=1, render_mode="rgb_array"), dim=64, framestack=4)


def run(env: str, env_runners: int, iterations: int, *, records: bool) -> Clock:
    """Train for some iterations in an empty folder; return what it took."""
    clock = Clock()
    loggers = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]
    callbacks = [*(loggers if records else [JsonLoggerCallback(), TBXLoggerCallback()]), clock]
    with tempfile.TemporaryDirectory() as folder:
        run_config = tune.RunConfig(
            storage_path=folder, callbacks=callbacks, stop={"training_iteration": iterations}, verbose=0
        )
        tuner = tune.Tuner("PPO", param_space=config_of(env, env_runners, records=records), run_config=run_config)
        (result,) = tuner.fit()
    if result.error is not None:
        raise result.error
    return clock


def interval_of_median(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a median that holds whatever the values are distributed like.

    >>> interval_of_median([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    (1.0, 6.0)
    """
    ordered, count = sorted(values), len(values)
    outside = int(stats.binom.ppf((1 - level) / 2, count, 0.5))
    low = max(0, outside - 1) if stats.binom.cdf(outside, count, 0.5) > (1 - level) / 2 else outside
    return ordered[low], ordered[count - 1 - low]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a run, at least")
    parser.add_argument("--envs", nargs="+", default=ENVS)
    parser.add_argument("--env-runners", nargs="+", type=int, default=(0, 2))
    options = parser.parse_args()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    print(
        "\n| env | env runners | iterations | seconds of a run without | ratio, median | its 95 % interval "
        f"| CPU seconds without | with: {' | '.join(KINDS)} | CPU ratio, median |\n{'|---' * 11}|"
    )
    for env in options.envs:
        for env_runners in options.env_runners:
            tried = run(env, env_runners, TRIED, records=False).seconds / TRIED
            iterations = max(TRIED, int(options.seconds / tried) + 1)
            pairs = []
            for number in range(options.pairs):
                order = (False, True) if number % 2 else (True, False)
                taken = {records: run(env, env_runners, iterations, records=records) for records in order}
                pairs.append((taken[False], taken[True]))
                print(f"{env}, {env_runners}: {taken[False].seconds:.2f} {taken[True].seconds:.2f}", file=sys.stderr)
            ratios = [ours.seconds / plain.seconds for plain, ours in pairs]
            low, high = interval_of_median(ratios)
            used = [(sum(plain.cpu.values()), sum(ours.cpu.values())) for plain, ours in pairs]
            cells = [
                env,
                str(env_runners),
                str(iterations),
                short(statistics.median(plain.seconds for plain, _ in pairs)),
                f"{statistics.median(ratios):.3f}",
                f"{low:.3f} to {high:.3f}",
                short(statistics.median(plain for plain, _ in used)),
                *(short(statistics.median(ours.cpu[kind] for _, ours in pairs)) for kind in KINDS),
                f"{statistics.median(ours / plain for plain, ours in used):.3f}",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
