"""Notes how an env runner makes its envs, so that another process can make one like them."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

from tune_media.recording.rendering import RLLIB_EXAMPLE, FrameSource, sub_env
from tune_media.replay.prefix import EnvOfTape
from tune_media.replay.recipe import Creator, FromKeywords, LoadedRecipe, Recipe
from tune_media.values.options import VideoOptions


def env_runner_recipe(
    env_runner: Any, env: Any, frame: FrameSource = None, video: VideoOptions | None = None
) -> Recipe | None:
    """Return how the envs of an env runner are made; None if RLlib makes them as a batch.

    ``env`` is its vector env, or one of its sub-envs. Raises ValueError for a large recipe, or what pickling raises.
    """
    config, creator = env_runner.config, _creator(env_runner)
    if isinstance(creator, EnvOfTape):  # another episode is continued in it
        of_episode = LoadedRecipe.of(creator.recipe.content)
        frame, video = of_episode.frame, of_episode.video
    if creator is None:
        return None
    env_config = env_runner.env_context if hasattr(env_runner, "env_creator") else config.env_config
    workers = config.num_env_runners or 0
    how: dict[str, Any] = {"frame": frame, "video": video, "example": RLLIB_EXAMPLE}
    return Recipe.of(creator, env_config, sub_env(env, 0), num_workers=workers, **how)


def _creator(env_runner: Any) -> Creator | None:
    """Return the function that makes an env from an ``env_config``; it needs RLlib only if the user's does."""
    from ray.tune.registry import ENV_CREATOR, _global_registry

    config = env_runner.config
    if hasattr(env_runner, "env_creator"):  # the old API stack
        if config.preprocessor_pref == "deepmind":
            model = {name: config.model.get(name) for name in ("dim", "framestack")}
            needed = SimpleNamespace(model=model, env_config={"frameskip": config.env_config.get("frameskip", 0)})
            return functools.partial(_made_by_old_stack, env_runner.env_creator, needed)
        if isinstance(config.env, str) and not _global_registry.contains(ENV_CREATOR, config.env):
            return _by_id(config.env)
        creator: Creator = env_runner.env_creator
        return creator
    if "vector_entry_point" in str(config.gym_env_vectorize_mode).lower():
        return None
    if isinstance(config.env, str) and _global_registry.contains(ENV_CREATOR, config.env):
        registered: Creator = _global_registry.get(ENV_CREATOR, config.env)
        return registered
    return _by_id(config.env) if isinstance(config.env, str) else config.env


def _by_id(id: str) -> Creator:
    """Return the function that makes an env of Gymnasium's; its spec goes along, which only a script may register."""
    import gymnasium as gym

    try:
        return FromKeywords(gym.make, gym.spec(id.rpartition(":")[2]))
    except gym.error.Error:
        return FromKeywords(gym.make, id)


def _made_by_old_stack(creator: Creator, config: Any, context: Any) -> Any:
    """Return an env of the old API stack with the wrappers for Atari games that its rollout worker would add."""
    from ray.rllib.env.wrappers.atari_wrappers import is_atari, wrap_deepmind

    env = creator(context)
    if not is_atari(env):
        return env
    stacks, skips_none = config.model.get("framestack") is True, config.env_config.get("frameskip", 0) == 1
    return wrap_deepmind(env, dim=config.model.get("dim"), framestack=stacks, noframeskip=skips_none)


def is_nondeterministic(id: str) -> bool:
    """Return whether the spec of one of Gymnasium's envs says that it does not repeat its episodes."""
    import gymnasium as gym

    try:
        return bool(gym.spec(id.rpartition(":")[2]).nondeterministic)
    except gym.error.Error:
        return False
