"""What a training run loses by a recorder: python -m tests.benchmarks.bench_training.

PPO with RLlib's defaults, and an evaluation of 10 episodes after each iteration, in Tune: once with Ray's own JSON and
TensorBoard loggers and without media, once with a recorder and our callbacks in their place. Both runs of a pair have
the same seed and number of iterations, so that they play the same episodes. They run in turns of a quarter of a second:
while one runs, all processes of the other, which has a Ray of its own, are stopped, because the speed of a virtual
machine changes from second to second by more than a recorder costs. A run's time is the sum of its turns from the begin
of its first iteration to its last result, at least a minute; the interval is that of the median over the pairs. In the
first run of a Ray job, which has three iterations and is not one of the pairs, a recorder proves that the env repeats
its episodes; what this run takes longer is in the column «first run». The CPU time is what the processes have used that
are there when the last result comes: the driver, Ray's workers (trial, env runners), and those that render. The seconds
of each pair are printed on stderr as it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback
from scipy import stats

import tune_media as tm
from tests.benchmarks.common import cpu_seconds, family, short

ENVS = ("CartPole-v1", "Pendulum-v1", "HalfCheetah-v5", "ALE/Breakout-v5")
EPISODES = 10  # of an evaluation
FIRST = 3  # iterations of the first run, which says how many a run of the wanted length has
KINDS = ("driver", "workers", "renderer")
TURN = 0.25  # seconds


@dataclass(frozen=True)
class Run:
    """The training run of one kind: where in time it was, by the system's monotonic clock, and what it used."""

    began: float  # its first iteration
    ended: float  # with its last result
    cpu: dict[str, float]  # seconds, by the kind of process
    returns: list[float]  # the mean of each evaluation


@dataclass(frozen=True)
class Pair:
    """A run without a recorder, and one with it."""

    plain: float  # seconds
    of_plain: Run
    ours: float
    of_ours: Run

    @property
    def ratio(self) -> float:
        """The seconds with a recorder by those without."""
        return self.ours / self.plain

    @property
    def is_equal(self) -> bool:
        """Whether both played the same evaluations."""
        return self.of_plain.returns == self.of_ours.returns

    @property
    def cpu_ratio(self) -> float:
        """The CPU seconds with a recorder by those without."""
        return sum(self.of_ours.cpu.values()) / sum(self.of_plain.cpu.values())


class Clock(tune.Callback):
    """Notes how long a trial took, and the CPU seconds of its processes, with its last result."""

    def __init__(self) -> None:
        self._began, self._before = 0.0, cpu_by_process()
        self._returns: list[float] = []
        self.run: Run | None = None

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
        now = time.perf_counter()
        self._began = self._began or now - result["time_total_s"]
        self._returns.append(float(result["evaluation"]["env_runners"]["episode_return_mean"]))
        cpu = dict.fromkeys(KINDS, 0.0)
        for (kind, process), seconds in cpu_by_process().items():
            cpu[kind] += seconds - self._before.get((kind, process), 0.0)
        self.run = Run(self._began, now, cpu, self._returns)


def cpu_by_process() -> dict[tuple[str, int], float]:
    """Return the CPU seconds of this process and those below it that train or render, each with what it is for."""
    seconds = {}
    for process in family():
        try:
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            kind = "renderer" if b"tune_media.replay.child" in command else "workers" if b"ray::" in command else ""
            if process == os.getpid():
                kind = "driver"
            if kind:
                seconds[kind, process] = cpu_seconds(process)
        except OSError:  # it has just ended
            continue
    return seconds


def config_of(env: str, env_runners: int, seed: int, *, records: bool) -> PPOConfig:
    """Return RLlib's defaults for an env; an Atari game has the wrappers that RLlib's examples give it."""
    name, env_config = env, {"render_mode": "rgb_array"}
    if env.startswith("ALE/"):
        name = f"wrapped {env}"
        tune.register_env(name, lambda config: _atari(env))
        env_config = {}
    config = PPOConfig().environment(name, env_config=env_config).env_runners(num_env_runners=env_runners)
    config.evaluation(evaluation_interval=1, evaluation_duration=EPISODES, evaluation_num_env_runners=0)
    config.debugging(seed=seed)
    return config.callbacks(tm.rllib.record_episodes()) if records else config


def _atari(env: str) -> Any:
    import ale_py
    import gymnasium as gym
    from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack

    gym.register_envs(ale_py)
    return wrap_atari_for_new_api_stack(gym.make(env, frameskip=1, render_mode="rgb_array"), dim=64, framestack=4)


def train(env: str, env_runners: int, iterations: int, seed: int, *, records: bool) -> Run:
    """Train for some iterations in an empty folder, in this process; return what it took."""
    clock = Clock()
    loggers = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]
    callbacks = [*(loggers if records else [JsonLoggerCallback(), TBXLoggerCallback()]), clock]
    with tempfile.TemporaryDirectory() as folder:
        run_config = tune.RunConfig(
            storage_path=folder, callbacks=callbacks, stop={"training_iteration": iterations}, verbose=0
        )
        tuner = tune.Tuner("PPO", param_space=config_of(env, env_runners, seed, records=records), run_config=run_config)
        (result,) = tuner.fit()
    if result.error is not None:
        raise result.error
    assert clock.run is not None
    return clock.run


def train_each(folder: Path, options: Iterable[str]) -> None:
    """Train as each line of options says, in one Ray job; write a file for each run."""
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    for number, line in enumerate(options):
        run = train(**json.loads(line))
        part = folder / f"{number}.part"
        part.write_text(json.dumps(asdict(run)))
        part.rename(part.with_suffix(".json"))


class Trainer:
    """A process that trains again and again, with a recorder or without, and runs in turns."""

    def __init__(self, folder: Path, env: str, env_runners: int, *, records: bool) -> None:
        self._options = {"env": env, "env_runners": env_runners, "records": records}
        self._folder, self._number = folder, -1
        folder.mkdir()
        command = [sys.executable, "-m", __spec__.name, "--train", str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self._signal(signal.SIGSTOP)
        self._turns: list[tuple[float, float]] = []

    def begin(self, iterations: int, seed: int) -> None:
        """Ask for another run."""
        assert self._process.stdin is not None
        print(
            json.dumps({**self._options, "iterations": iterations, "seed": seed}), file=self._process.stdin, flush=True
        )
        self._number += 1

    def take_turn(self) -> None:
        """Let its processes run for a moment, unless the run has its last result."""
        if self.is_done:
            return
        if self._process.poll() is not None:
            raise RuntimeError(f"training failed: {self._options}")
        self._signal(signal.SIGCONT)
        began = time.perf_counter()
        time.sleep(TURN)
        self._turns.append((began, time.perf_counter()))
        self._signal(signal.SIGSTOP)

    @property
    def is_done(self) -> bool:
        """Whether the run is over."""
        return self._file.exists()

    def result(self) -> tuple[float, Run]:
        """Return the seconds that the last run had, and the run."""
        run = Run(**json.loads(self._file.read_text()))
        return sum(max(0.0, min(end, run.ended) - max(begin, run.began)) for begin, end in self._turns), run

    def end(self) -> None:
        """Let its processes end."""
        self._signal(signal.SIGCONT)
        self._process.communicate()

    @property
    def _file(self) -> Path:
        return self._folder / f"{self._number}.json"

    def _signal(self, number: int) -> None:
        done: set[int] = set()
        while more := family(self._process.pid) - done:  # those that were started meanwhile, too
            for process in more:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(process, number)
            done |= more


def train_in_turns(plain: Trainer, ours: Trainer, iterations: int, seed: int) -> Pair:
    """Let both train alike; the first turn alternates from seed to seed."""
    trainers = (plain, ours) if seed % 2 else (ours, plain)
    for trainer in trainers:
        trainer.begin(iterations, seed)
    while not (plain.is_done and ours.is_done):
        for trainer in trainers:
            trainer.take_turn()
    return Pair(*plain.result(), *ours.result())


def interval_of_median(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a median that holds whatever the values are distributed like.

    >>> interval_of_median([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    (1.0, 6.0)
    """
    ordered, count = sorted(values), len(values)
    outside = int(stats.binom.ppf((1 - level) / 2, count, 0.5))
    low = max(0, outside - 1) if stats.binom.cdf(outside, count, 0.5) > (1 - level) / 2 else outside
    return ordered[low], ordered[count - 1 - low]


def measure(env: str, env_runners: int, pairs: int, seconds: float) -> tuple[Pair, list[Pair]]:
    """Return the first runs of two Ray jobs, and pairs of runs that take some seconds at least."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        plain, ours = (Trainer(Path(folder, str(kind)), env, env_runners, records=kind) for kind in (False, True))
        for trainer in (plain, ours):
            stack.callback(trainer.end)
        first = train_in_turns(plain, ours, FIRST, pairs)
        iterations, measured = max(FIRST, int(seconds / first.plain * FIRST) + 1), []
        for number in range(pairs):
            measured.append(pair := train_in_turns(plain, ours, iterations, number))
            equal = "equal" if pair.is_equal else "different"
            print(f"{env}, {env_runners}: {pair.plain:.2f} {pair.ours:.2f} s, {equal} returns", file=sys.stderr)
    return first, measured


def lines_of(env: str, env_runners: int, first: Pair, pairs: Sequence[Pair]) -> list[str]:
    """Return the lines of a table, without a recorder and with it."""
    ratios = [pair.ratio for pair in pairs]
    low, high = interval_of_median(ratios)
    ratio = f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})"
    cpu_ratio = f"{statistics.median(pair.cpu_ratio for pair in pairs):.3f}"
    first_run, iterations = f"{first.ours - first.plain:+.1f}", str(len(pairs[0].of_plain.returns))
    equal = f"{sum(pair.is_equal for pair in pairs)} of {len(pairs)}"
    lines = []
    for method, times, runs, compared in (
        ("Ray's JSON and TBX, no media", [pair.plain for pair in pairs], [pair.of_plain for pair in pairs], ("1", "1")),
        (
            "ours: JSON, TensorBoard",
            [pair.ours for pair in pairs],
            [pair.of_ours for pair in pairs],
            (ratio, cpu_ratio),
        ),
    ):
        is_ours = method.startswith("ours")
        cpu = [short(statistics.median(run.cpu[kind] for run in runs)) for kind in KINDS]
        cells = [env, str(env_runners), method, iterations, short(statistics.median(times)), compared[0]]
        cells += [equal if is_ours else "", first_run if is_ours else "", *cpu, compared[1]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a run, at least")
    parser.add_argument("--envs", nargs="+", default=ENVS)
    parser.add_argument("--env-runners", nargs="+", type=int, default=(0, 2))
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train_each(options.train, sys.stdin)
        return
    print(
        "\n| env | env runners | method | iterations | seconds | ratio (95 % interval) | pairs with equal returns "
        f"| first run, s | CPU s: {' | '.join(KINDS)} | CPU ratio |\n{'|---' * 12}|"
    )
    for env in options.envs:
        for env_runners in options.env_runners:
            measured = measure(env, env_runners, options.pairs, options.seconds)
            print(*lines_of(env, env_runners, *measured), sep="\n", flush=True)


if __name__ == "__main__":
    main()
