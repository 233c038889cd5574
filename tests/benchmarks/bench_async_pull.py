"""Whether collecting clips holds up an asynchronous algorithm: python -m tests.benchmarks.bench_async_pull.

IMPALA on an env whose step takes 20 ms, so that a sample of 10 steps takes 0.2 s. "Waiting" is what a collection that
waits for busy env runners would cost, done by the same code that serves synchronous algorithms.
"""

from __future__ import annotations

import time

import ray
from ray.rllib.algorithms.impala import IMPALAConfig

import tune_media as tm
from tests.benchmarks.common import show
from tests.support.envs import CountingEnv
from tune_media.rllib import ray_names


def iterations(callbacks, seconds: float) -> float:
    """Return how long an iteration takes in the Algorithm, over as many as fit."""
    config = (
        IMPALAConfig()
        .environment(CountingEnv, env_config={"pause": 0.02})
        .env_runners(num_env_runners=2, rollout_fragment_length=10)
        .training(train_batch_size=20)
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=0)
        .rl_module(model_config={"fcnet_hiddens": [8]})
    )
    if callbacks is not None:
        config.callbacks(callbacks)
    algorithm = config.build_algo()
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        algorithm.train()
        count += 1
    algorithm.stop()
    return (time.perf_counter() - started) / count


def main() -> None:
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    recorder = tm.rllib.record_episodes(sections="train", keep="best")
    times = {"no recorder": iterations(None, 10), "tune_media": iterations(recorder, 10)}
    real = ray_names.is_asynchronous
    ray_names.is_asynchronous = lambda algorithm: False
    try:
        times["waiting"] = iterations(recorder, 10)
    finally:
        ray_names.is_asynchronous = real
    show("IMPALA, an iteration", times)
    ray.shutdown()


if __name__ == "__main__":
    main()
