"""Makes another env like an env runner's, beside it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any


def env_maker(env_runner: Any, index: int = 0) -> Callable[[], Any] | None:
    """Return a function that makes an env as RLlib made those of an env runner; None if RLlib makes them as a batch.

    Args:
        env_runner: The env runner, or the rollout worker of the old API stack.
        index: The index of the sub-env, which the old API stack tells each of them.
    """
    if hasattr(env_runner, "env_creator"):  # the old API stack
        of_sub_env = copy.deepcopy(env_runner.env_context)
        if hasattr(of_sub_env, "vector_index"):
            of_sub_env.vector_index = index
        return lambda: _with_rllibs_wrappers(env_runner.env_creator(copy.deepcopy(of_sub_env)), env_runner.config)
    from ray.rllib.env.env_context import EnvContext
    from ray.rllib.env.utils import _gym_env_creator
    from ray.tune.registry import ENV_CREATOR, _global_registry

    config = env_runner.config
    if "vector_entry_point" in str(config.gym_env_vectorize_mode).lower():
        return None
    context = config.env_config
    if not isinstance(context, EnvContext):
        context = EnvContext(context, worker_index=env_runner.worker_index, num_workers=config.num_env_runners)
    if isinstance(config.env, str) and _global_registry.contains(ENV_CREATOR, config.env):
        creator = _global_registry.get(ENV_CREATOR, config.env)
        return lambda: creator(copy.deepcopy(context))
    return lambda: _gym_env_creator(copy.deepcopy(context), config.env)


def _with_rllibs_wrappers(env: Any, config: Any) -> Any:
    """Return an env of the old API stack with the wrappers for Atari games that its rollout worker would add."""
    from ray.rllib.env.wrappers.atari_wrappers import is_atari, wrap_deepmind

    if config.preprocessor_pref != "deepmind" or not is_atari(env):
        return env
    return wrap_deepmind(
        env,
        dim=config.model.get("dim"),
        framestack=config.model.get("framestack") is True,
        noframeskip=config.env_config.get("frameskip", 0) == 1,
    )
