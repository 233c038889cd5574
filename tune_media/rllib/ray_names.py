"""Every name of RLlib's that is not public and that this wing needs; ``tests/rllib/test_ray_names.py`` pins each."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tune_media.values.secrets import error_text

# the attributes that hold the pipelines of an env runner, and the folders of these in a checkpoint
_PIPELINES = {"_env_to_module": "env_to_module_connector", "_module_to_env": "module_to_env_connector"}


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
    """Run ``function(env_runner)`` on an env runner actor; return the reference to the answer.

    RLlib's ``foreach_env_runner`` would count a timeout of ours among its dropped env runners. Ray 2.50's IMPALA takes
    any answer that is ready in the group's own request queue for samples of its own.
    """
    return actor.apply.remote(function)


def finished(references: Mapping[int, Any], timeout: float | None) -> dict[int, Any]:
    """Return the answers within ``timeout`` seconds (None: no limit), or the errors in their place, by key."""
    import ray

    if not references:
        return {}
    ready = ray.wait(list(references.values()), num_returns=len(references), timeout=timeout)[0]
    answers: dict[int, Any] = {}
    for key in (key for key, reference in references.items() if reference in ready):
        try:
            answers[key] = ray.get(references[key])
        except ray.exceptions.RayError as error:
            answers[key] = error
    return answers


def raised_by(error: Exception) -> str | None:
    """Return the exception of a function that an env runner ran; None if the env runner died or is out of reach."""
    import ray

    if not isinstance(error, ray.exceptions.RayTaskError):
        return None
    return error_text(getattr(error, "cause", error))


def is_asynchronous(algorithm: Any) -> bool:
    """Return whether an Algorithm always has sampling under way, so that waiting for its env runners holds it up."""
    from ray.rllib.algorithms.impala import IMPALA  # APPO is one, too

    return isinstance(algorithm, IMPALA)


def evaluates_in_parallel(algorithm: Any) -> bool:
    """Return whether evaluations last as long as the training beside them: samples are under way at their end."""
    return bool(algorithm.config.evaluation_duration == "auto")


def counts_all_evaluation_episodes(algorithm: Any) -> bool:
    """Return whether RLlib counts every episode that ends on its evaluation env runners in an evaluation."""
    # the old API stack and a custom_evaluation_function may count others, such as the lives of an Atari game
    config = algorithm.config
    may = config.enable_env_runner_and_connector_v2 and not config.custom_evaluation_function
    return bool(may and not evaluates_in_parallel(algorithm))


def mixes_evaluations(algorithm: Any) -> bool:
    """Return, when an evaluation begins, whether RLlib will report earlier ones with it.

    If ``evaluate()`` is called by hand, Ray 2.50 reports all evaluations since the last ``train()`` together, and
    counts the episodes that were under way at the end of one in the next.
    """
    if not algorithm.config.enable_env_runner_and_connector_v2:
        return False
    if "latest_merged_only" in inspect.signature(algorithm.metrics.peek).parameters:  # newer releases
        return False
    return bool(algorithm.metrics.peek(("evaluation", "env_runners", "num_episodes"), default=0) > 0)


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
    """Return a function that returns the training iteration that an Algorithm is in; call ``begin`` as each begins.

    RLlib has no hook for that, and counts an iteration when its ``step`` has ended. An evaluation outside of it is one
    that the user called.
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
    """Hand the custom evaluation's result to ``see``; the new API stack reports its MetricsLogger instead."""
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
    """Add JSON data to an Algorithm's checkpoints, which hold no callbacks; ``get`` returns it, ``put`` loads it."""
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


def config_of_env_runner(constructor: Mapping[str, Any]) -> Any:
    """Return the ``AlgorithmConfig`` of an env runner, out of the content of its ``class_and_ctor_args.pkl``."""
    return constructor["ctor_args_and_kwargs"][1]["config"]


def registered(env: Any) -> Any:
    """Return an env as a configuration takes it: a function by its name, as Ray 2.50 takes only names and classes."""
    if not callable(env) or isinstance(env, type):
        return env
    from ray.tune import register_env

    name = f"tune_media {getattr(env, '__module__', '')}.{getattr(env, '__qualname__', type(env).__name__)}"
    register_env(name, env)
    return name


def is_registered(env: str) -> bool:
    """Return whether an env has been registered under this name by ``tune.register_env``."""
    from ray.tune.registry import ENV_CREATOR, _global_registry

    return bool(_global_registry.contains(ENV_CREATOR, env))


def load_policy(env_runner: Any, modules: Path, env_runner_folder: Path) -> None:
    """Give a new API stack's env runner a checkpoint's weights (from ``modules``), and its connectors and counters."""
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule

    is_multi = isinstance(env_runner.module, MultiRLModule)
    env_runner.module.restore_from_path(modules if is_multi else modules / DEFAULT_MODULE_ID)
    for pipeline, folder in _PIPELINES.items():
        if (env_runner_folder / folder).is_dir():
            getattr(env_runner, pipeline).restore_from_path(env_runner_folder / folder)
    state = env_runner_folder / "state.pkl"
    if state.is_file():
        with state.open("rb") as file:
            env_runner.set_state(pickle.load(file))


def frozen_connectors(env_runner: Any) -> dict[str, Any]:
    """Stop the statistics of an env runner's connectors, and return the states of its pipelines."""
    for pipeline in _PIPELINES:
        for connector in getattr(env_runner, pipeline).connectors:
            if hasattr(connector, "_update_stats"):
                connector._update_stats = False
    return {pipeline: getattr(env_runner, pipeline).get_state() for pipeline in _PIPELINES}


def set_connectors(env_runner: Any, states: Mapping[str, Any]) -> None:
    """Give the pipelines of an env runner's connectors the states that they had."""
    for pipeline, state in states.items():
        getattr(env_runner, pipeline).set_state(state)


def sample_episode(env_runner: Any, seed: int) -> None:
    """Play one episode on an env runner of the new API stack, from a reset with this seed."""
    env_runner._seed = seed
    env_runner._needs_initial_reset = True  # only then it passes the seed on
    env_runner.sample(num_episodes=1)


def old_stack_state(checkpoint: Path) -> dict[str, Any]:
    """Return the state that an Algorithm of the old API stack has in a checkpoint, with its policies' states."""
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.utils.checkpoints import get_checkpoint_info

    state: dict[str, Any] = Algorithm._checkpoint_info_to_algorithm_state(get_checkpoint_info(str(checkpoint)))
    return state


def rollout_worker(config: Any, state: Mapping[str, Any]) -> Any:
    """Return a rollout worker that has the policies and the filters of a checkpoint; its filters learn no more."""
    from ray.rllib.evaluation.rollout_worker import RolloutWorker

    algorithm = state["algorithm_class"]
    _, creator = algorithm._get_env_id_and_creator(config.env, config)
    policy_class = algorithm.get_default_policy_class(config)
    worker = RolloutWorker(
        env_creator=creator, config=config, default_policy_class=policy_class, worker_index=0, num_workers=0
    )
    worker.set_state(dict(state["worker"]))
    for policy in worker.policy_map.values():
        if policy.agent_connectors is not None:
            policy.agent_connectors.in_eval()
        # the policies' own configurations are those of the training, whatever evaluation_config says
        frozen = hasattr(policy.config, "is_frozen")
        policy.config = policy.config.copy(copy_frozen=False) if frozen else dict(policy.config)
        policy.config["explore"] = bool(config.explore)
    return worker


def joined_callbacks(callbacks: Any) -> Any:
    """Return several callbacks as one, which is all that the old API stack takes."""
    from ray.rllib.callbacks.utils import _make_multi_callbacks

    return _make_multi_callbacks(list(callbacks))


def takes_previous_actions(env_runner: Any) -> bool:
    """Return whether a connector of RLlib's own gives the policy its previous actions as an input."""
    from ray.rllib.connectors.env_to_module import PrevActionsPrevRewards

    connectors = env_runner._env_to_module.connectors
    return any(isinstance(part, PrevActionsPrevRewards) and part.n_prev_actions > 0 for part in connectors)


def observations_in(state: Any) -> int | None:
    """Return how many observations a connector's state has seen, if it is that of an observation filter."""
    try:
        return max(int(stats["num_pushes"]) for part in state.values() for stats in part["running_stats"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
