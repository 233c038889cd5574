"""Adding the recorder changes no number that RLlib or the user reports; its own are of the same episodes."""

import math

import pytest
import ray
from ray.rllib.algorithms.callbacks import DefaultCallbacks, make_multi_callbacks
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.rllib_configs import STACK, evaluation, small

LEARN = {"train_batch_size": 64, "minibatch_size": 64, "num_epochs": 1}
ITERATIONS = 2
TAKES_TIME = ("time", "timer", "sec", "_ms", "perf", "throughput", "env_step")


class OwnOld(DefaultCallbacks):
    def on_episode_end(self, *, episode, **kwargs):
        episode.custom_metrics["pos"] = episode.total_reward


class OwnNew(RLlibCallback):
    def on_episode_end(self, *, episode, metrics_logger, **kwargs):
        metrics_logger.log_value("pos", episode.get_return())


def run(stack, recorder, runners, sub_envs=1):
    """Return the results of a seeded run."""
    config = small(
        PPOConfig,
        LEARN,
        CountingEnv,
        evaluation=evaluation(runners, 3),
        debugging={"seed": 7},
        env_runners={"num_envs_per_env_runner": sub_envs},
        **(STACK if stack == "old" else {}),
    )({})
    own = OwnOld if stack == "old" else OwnNew
    both = [recorder, own] if recorder else [own]
    config.callbacks(make_multi_callbacks(both) if stack == "old" else both)
    algorithm = config.build_algo()
    try:
        return [algorithm.train() for _ in range(ITERATIONS)]
    finally:
        algorithm.stop()


def numbers(result):
    """Return the numbers of a result, but for those that measure time, by path."""
    found = {}
    sections = {"train": result["env_runners"], "evaluation": result["evaluation"]["env_runners"]}
    todo: list = list(sections.items())
    while todo:
        path, value = todo.pop()
        if any(word in path for word in TAKES_TIME) or path.endswith("/sample"):
            continue
        if isinstance(value, dict):
            todo += [(f"{path}/{key}", item) for key, item in value.items()]
        elif isinstance(value, (list, tuple)):
            todo += [(f"{path}/{index}", item) for index, item in enumerate(value)]
        elif isinstance(value, (int, float)) or getattr(value, "shape", None) == ():
            found[path] = float(value)
    return found


def recorder(render="direct"):
    return tm.rllib.record_episodes(
        sections=("train", "evaluation"),
        keep=("best", "worst"),
        collect=lambda step: {"r": step.reward},
        strict=True,
        render=render,
    )


def reported_by_rllib(metrics):
    """Return the number of episodes of an evaluation, and the least and largest return, as RLlib reports them."""
    if "hist_stats" in metrics:
        returns = metrics["hist_stats"]["episode_reward"]
        return len(returns), min(returns), max(returns)
    return metrics["num_episodes"], metrics["episode_return_min"], metrics["episode_return_max"]


def assert_of_the_counted_episodes(results, stack):
    """Assert that the clips and metrics of each evaluation are of the episodes that RLlib counts in it."""
    for result in results:
        metrics = result["evaluation"]["env_runners"]
        count, least, largest = reported_by_rllib(metrics)
        counted = [episode.record.episode_return for episode in metrics["episodes"]["data"].counted()]
        assert len(counted) == count
        assert metrics["episodes"]["best"].episode.episode_return == pytest.approx(max(counted))
        assert metrics["episodes"]["worst"].episode.episode_return == pytest.approx(min(counted))
        assert metrics["custom_metrics"]["r_sum_max"] == pytest.approx(max(counted))
        if stack == "old" or ray.__version__ != "2.50.1":  # whose extremes are over several evaluations
            assert (min(counted), max(counted)) == pytest.approx((least, largest))
        else:
            assert least - 1e-6 <= min(counted) and max(counted) <= largest + 1e-6


# The old API stack with env runners in processes of their own: below.
@pytest.mark.parametrize(("stack", "runners", "sub_envs"), [("new", 1, 1), ("new", 0, 2), ("old", 0, 2)])
def test_rllibs_and_the_users_numbers_stay_the_same(ray_session, stack, runners, sub_envs):
    own = recorder("direct" if sub_envs == 1 else "auto")
    without, with_it = run(stack, None, runners, sub_envs), run(stack, own, runners, sub_envs)
    assert_of_the_counted_episodes(with_it, stack)
    for plain, recorded in zip(without, with_it, strict=True):
        expected, found = numbers(plain), numbers(recorded)
        assert any("pos" in path for path in expected)
        assert found.items() >= {path: value for path, value in expected.items() if not math.isnan(value)}.items()


@pytest.mark.parametrize("stack", ["new", "old"])
def test_the_clips_of_two_env_runners_are_of_the_episodes_that_rllib_counts(ray_session, stack):
    assert_of_the_counted_episodes(run(stack, recorder(), 2), stack)
