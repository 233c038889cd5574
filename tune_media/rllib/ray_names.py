"""Every name of RLlib's that is not public and that this wing needs; ``tests/rllib/test_ray_names.py`` pins each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def call_env_runners(group: Any, function: Callable[[Any], Any], timeout_seconds: float | None = None) -> list[Any]:
    """Run ``function(env_runner)`` on every env runner of a group, the local one included; wait for the answers.

    Env runners that are dead or do not answer in time are left out.
    """
    return list(group.foreach_env_runner(function, local_env_runner=True, timeout_seconds=timeout_seconds))


def remote_env_runners(group: Any) -> dict[int, Any]:
    """Return the handles of a group's env runner actors, by their index.

    Ray 2.50's IMPALA takes any answer that is ready in the group's own request queue for samples of its own, so
    requests of others must not go through it.
    """
    return dict(group._worker_manager.actors())


def is_asynchronous(algorithm: Any) -> bool:
    """Say whether an Algorithm always has sampling under way, so that waiting for its env runners holds it up."""
    from ray.rllib.algorithms.impala import IMPALA  # APPO is one, too

    return isinstance(algorithm, IMPALA)


def weights_version(env_runner: Any) -> int | None:
    """Return the sequence number of an env runner's weights, or None if it has none."""
    version = getattr(env_runner, "_weights_seq_no", None)
    return None if version is None else int(version)


def env_steps_lifetime(algorithm: Any) -> int | None:
    """Return how many env steps an Algorithm has sampled for training, or None if it does not say."""
    if not algorithm.config.enable_env_runner_and_connector_v2:
        return int(algorithm._counters["num_env_steps_sampled"])
    try:
        return int(algorithm.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime")))
    except KeyError:  # nothing has been sampled yet
        return None


def watch_custom_evaluation(algorithm: Any, see: Callable[[dict[str, Any]], None]) -> None:
    """Hand the result of an Algorithm's ``custom_evaluation_function`` to ``see``.

    On the new API stack RLlib calls it, and then reports the content of its MetricsLogger instead.
    """
    config = algorithm.config
    if not config.custom_evaluation_function or not config.enable_env_runner_and_connector_v2:
        return
    evaluate = algorithm._evaluate_with_custom_eval_function

    def watched() -> Any:
        returned = evaluate()
        see(returned[0])
        return returned

    algorithm._evaluate_with_custom_eval_function = watched


def keep_in_checkpoints(
    algorithm: Any, key: str, get: Callable[[], dict[str, Any]], put: Callable[[dict[str, Any]], None]
) -> None:
    """Add a dict to the state that an Algorithm's checkpoints hold.

    Callbacks have no state of their own in RLlib's checkpoints. The new API stack saves ``get_state()``, the old one
    ``__getstate__()``; both hand the state to their counterpart when they load it.

    Args:
        algorithm: The Algorithm.
        key: The name of the dict in the state.
        get: Returns the dict; numbers, strings, lists and dicts of these.
        put: Takes the dict of a checkpoint that is loaded.
    """
    new_stack = algorithm.config.enable_env_runner_and_connector_v2
    save_name, load_name = ("get_state", "set_state") if new_stack else ("__getstate__", "__setstate__")
    save, load = getattr(algorithm, save_name), getattr(algorithm, load_name)

    def save_more(*args: Any, **kwargs: Any) -> Any:
        state = save(*args, **kwargs)
        state[key] = get()
        return state

    def load_more(state: Any, *args: Any, **kwargs: Any) -> Any:
        loaded = load(state, *args, **kwargs)
        if key in state:
            put(state[key])
        return loaded

    setattr(algorithm, save_name, save_more)
    setattr(algorithm, load_name, load_more)
