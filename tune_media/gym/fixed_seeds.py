"""The same episodes in every run: each reset gets the next of a list of seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from tune_media.gym.wrapper_arguments import check_is_env
from tune_media.recording.argument_checks import as_seeds
from tune_media.recording.seeding import SeededResets


class FixedSeeds(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Gives each reset of an env the next of its seeds, whatever seed the caller passes.

    Args:
        env: The env.
        seeds: The seeds, used in turn, then from the start again. A number n means 0, ..., n-1.

    Raises:
        ValueError: ``seeds`` is empty or holds something other than non-negative integers.

    Example:
        >>> import gymnasium as gym
        >>> env = FixedSeeds(gym.make("CartPole-v1"), seeds=[7, 11])
        >>> first, second, third = (env.reset()[0].tolist() for _ in range(3))
        >>> first == third, first == second
        (True, False)
    """

    def __init__(self, env: gym.Env[Any, Any], seeds: int | Sequence[int]) -> None:
        if seeds is None:
            raise ValueError("FixedSeeds(env, seeds) takes a positive number or seeds 0, 1, ...; got None.")
        chosen = as_seeds(seeds)
        gym.utils.RecordConstructorArgs.__init__(self, seeds=seeds)
        check_is_env("FixedSeeds", env, gym.Env)
        gym.Wrapper.__init__(self, env)
        self._resets = SeededResets(env, chosen)
