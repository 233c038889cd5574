"""RLlib configs that are quick to build and to train, and the files that the tests' envs write."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ray

from tests.support.envs import CountingEnv

STACK = {"old_stack": True}


def small(algorithm: Any, learn: dict, env: Any, *, old_stack: bool = False, **settings: Any) -> Callable[[dict], Any]:
    """Return a maker of a config that is quick to build and to train."""

    def make(env_config: dict) -> Any:
        config = algorithm().environment(env, env_config=env_config).training(**learn)
        config.env_runners(num_env_runners=0)
        if old_stack:
            on_old_stack(config)
        else:
            config.rl_module(model_config={"fcnet_hiddens": [8], "head_fcnet_hiddens": [8]})
        for part, values in settings.items():
            getattr(config, part)(**values)
        return config

    return make


def ppo(callbacks: Any = None, env_config: dict | None = None, **evaluation: Any) -> Any:
    """Return PPO on the counting env, small, with these callbacks and this evaluation if they are given."""
    from ray.rllib.algorithms.ppo import PPOConfig

    config = (
        PPOConfig()
        .environment(CountingEnv, env_config=env_config or {})
        .env_runners(num_env_runners=0)
        .training(train_batch_size=64, minibatch_size=64, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
    )
    if evaluation:
        config.evaluation(**evaluation)
    return config.callbacks(callbacks) if callbacks is not None else config


def for_env_runner(
    env: Any, env_config: dict, callbacks: Any, *, sub_envs: int = 1, evaluation: bool = False, **settings: Any
) -> Any:
    """Return the config of an env runner that is built without Ray."""
    from ray.rllib.algorithms.ppo import PPOConfig

    config = PPOConfig().environment(env, env_config=env_config).callbacks(callbacks)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=sub_envs, **settings)
    config.in_evaluation = evaluation
    return config.rl_module(model_config={"fcnet_hiddens": [8]})


def env_runner_of(config: Any) -> Any:
    """Return a local env runner of the new API stack."""
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    return (MultiAgentEnvRunner if config.is_multi_agent else SingleAgentEnvRunner)(config=config, worker_index=0)


def on_old_stack(config: Any) -> Any:
    """Put a small config on the old API stack, and return it."""
    config.api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    return config.rl_module(model_config={}).training(model={"fcnet_hiddens": [8]})


@contextlib.contextmanager
def built(config: Any) -> Iterator[Any]:
    """Build the algorithm of a config, and stop it in the end."""
    algorithm = config.build_algo()
    try:
        yield algorithm
    finally:
        algorithm.stop()


def evaluation(runners: int = 1, duration: Any = 4, **more: Any) -> dict:
    return {
        "evaluation_interval": 1,
        "evaluation_num_env_runners": runners,
        "evaluation_duration": duration,
        **more,
    }


def multi_agent() -> dict:
    return {"policies": {"p"}, "policy_mapping_fn": lambda *args, **kwargs: "p"}


def own_env(name: str) -> Any:
    """Register an env with agents. A process that renders imports its module, and RLlib, once for all tapes."""
    from tests.support.envs.multi_agent import made

    ray.tune.register_env(name, functools.partial(made, name))
    return name


def written_by_the_env(folder: Path) -> dict[tuple[int, int], dict]:
    """Return what the envs wrote of their finished episodes, by env and episode."""
    lines = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return {(line["env"], line["episode"]): line for line in lines}
