"""Every name of RLlib's that is not public and that this wing needs; ``tests/rllib/test_ray_names.py`` pins each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tune_media.values.secrets import error_text


def local_env_runner(group: Any) -> Any:
    """Return a group's env runner in the Algorithm's own process, or None if it has none."""
    return group.local_env_runner


def remote_env_runners(group: Any) -> dict[int, Any]:
    """Return the handles of a group's env runner actors, by their index."""
    return dict(group._worker_manager.actors())


def healthy_env_runners(group: Any) -> dict[int, Any]:
    """Return the handles of the env runner actors that RLlib does not know to be dead, by their index."""
    actors = remote_env_runners(group)
    return {index: actors[index] for index in group._worker_manager.healthy_actor_ids()}


def send(actor: Any, function: Callable[[Any], Any]) -> Any:
    """Have an env runner actor run ``function(env_runner)``; return the reference to the answer.

    RLlib's ``foreach_env_runner`` would count a timeout of ours among its dropped env runners. Ray 2.50's IMPALA takes
    any answer that is ready in the group's own request queue for samples of its own.
    """
    return actor.apply.remote(function)


def finished(references: Mapping[int, Any], timeout: float | None) -> dict[int, Any]:
    """Return the answers that have arrived, or the errors in their place, by the keys of their references.

    Args:
        references: The references.
        timeout: How long to wait for them, seconds. None: as long as it takes.
    """
    import ray

    if not references:
        return {}
    ready = ray.wait(list(references.values()), num_returns=len(references), timeout=timeout)[0]
    return {key: _answer_or_error(reference) for key, reference in references.items() if reference in ready}


def _answer_or_error(reference: Any) -> Any:
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return error


def raised_by(error: Exception) -> str | None:
    """Return the exception of a function that an env runner ran; None if the env runner died or is out of reach."""
    import ray

    if not isinstance(error, ray.exceptions.RayTaskError):
        return None
    cause = getattr(error, "cause", error)
    return error_text(cause)


def is_asynchronous(algorithm: Any) -> bool:
    """Say whether an Algorithm always has sampling under way, so that waiting for its env runners holds it up."""
    from ray.rllib.algorithms.impala import IMPALA  # APPO is one, too

    return isinstance(algorithm, IMPALA)


def evaluates_in_parallel(algorithm: Any) -> bool:
    """Say whether evaluations last as long as the training beside them, so that samples are under way at their end."""
    return bool(algorithm.config.evaluation_duration == "auto")


def counts_all_evaluation_episodes(algorithm: Any) -> bool:
    """Say whether RLlib counts every episode that ends on its evaluation env runners in an evaluation.

    The old API stack and a ``custom_evaluation_function`` may count others, such as the lives of an Atari game.
    """
    config = algorithm.config
    return bool(
        config.enable_env_runner_and_connector_v2
        and not config.custom_evaluation_function
        and not evaluates_in_parallel(algorithm)
    )


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


def watch_steps(algorithm: Any, begin: Callable[[], None]) -> Callable[[], int]:
    """Return a function that returns the training iteration that an Algorithm is in.

    RLlib counts an iteration when its ``step`` has ended. An evaluation outside of it is one that the user called.

    Args:
        algorithm: The Algorithm.
        begin: Called when an iteration begins, for which RLlib has no hook.
    """
    step, under_way = algorithm.step, []

    def watched(*args: Any, **kwargs: Any) -> Any:
        begin()
        under_way.append(True)
        try:
            return step(*args, **kwargs)
        finally:
            under_way.pop()

    algorithm.step = watched
    return lambda: int(algorithm.iteration) + len(under_way)


def watch_samples(env_runner: Any, begin: Callable[[], None]) -> None:
    """Call ``begin`` whenever an env runner is asked for a sample: RLlib has a hook only for the end of one."""
    sample = env_runner.sample

    def watched(*args: Any, **kwargs: Any) -> Any:
        begin()
        return sample(*args, **kwargs)

    env_runner.sample = watched


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
