"""Every difference between the Ray versions we support, and every name of Ray's that is not public and that we need.

Supported: Ray 2.50.1 and the newest release (2.60 when this was written). ``tests/test_compat.py`` pins each name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def call_env_runners(group: Any, function: Callable[[Any], Any], timeout_seconds: float | None = None) -> list[Any]:
    """Run ``function(env_runner)`` on every env runner of a group, the local one included; wait for the answers.

    Env runners that are dead or do not answer in time are left out.
    """
    return list(group.foreach_env_runner(function, local_env_runner=True, timeout_seconds=timeout_seconds))


def env_runner_index(env_runner: Any) -> int:
    """Return the index of an env runner (new stack) or rollout worker (old stack) in its group; 0 is the local one."""
    return int(env_runner.worker_index)


def in_evaluation(env_runner: Any) -> bool:
    """Say whether an env runner plays evaluation episodes."""
    return bool(env_runner.config.in_evaluation)


def episode_is_terminated(episode: Any) -> bool:
    """Say whether an env ended its episode, rather than a time limit."""
    return bool(episode.is_terminated)


def last_reward(episode: Any) -> float:
    """Return the reward of an episode's last env step, summed over its agents."""
    reward = episode.get_rewards(-1)
    return float(sum(reward.values())) if isinstance(reward, dict) else float(reward)


def env_steps_lifetime(algorithm: Any) -> int | None:
    """Return how many env steps an Algorithm has sampled for training, or None where it does not tell."""
    steps = algorithm.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"), default=None)
    return None if steps is None else int(steps)


def checkpoint_metrics(trial: Any) -> list[dict[str, Any]]:
    """Return the metrics that Tune keeps with a trial's checkpoints, the live dicts.

    A checkpoint comes with a copy of its result of its own, which ends up in the experiment's state.
    """
    manager = trial.run_metadata.checkpoint_manager
    results = [*manager.best_checkpoint_results, manager.latest_checkpoint_result]
    return [result.metrics for result in results if result is not None and isinstance(result.metrics, dict)]
