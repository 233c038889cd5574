"""Watches an env that RLlib steps: the actions as the env got them, the observations as it gave them.

RLlib's episodes hold the policy's actions (before they are unsquashed or clipped) and observations that connectors may
have rewritten. On the new API stack, ``get_rewards(-1)`` also fails after an agent has left alone. So the recorder
watches the env itself: it puts itself in the place of ``step`` and ``reset`` on the env object that RLlib calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from tune_media.recording.rendering import inside, is_actor
from tune_media.replay.batch_taping import BatchTaping
from tune_media.replay.prefix import Prefix
from tune_media.replay.tape_recorder import tape_recorder_of

_KEY = "tune_media_tap"
_ALL_AGENTS = "__all__"
_SAME = (
    gym.wrappers.OrderEnforcing,
    gym.wrappers.PassiveEnvChecker,
    gym.wrappers.RecordEpisodeStatistics,
    gym.wrappers.TimeLimit,
)
_NEXT_STEP = "NEXT_STEP"  # how Gymnasium names that a sub-env is reset by the step after its episode's last one


class Transition(NamedTuple):  # one is made at each step, in a third of a frozen dataclass's time
    """The last step (or reset) of an env, in the env's own terms. With several agents, fields are dicts by agent."""

    observation: Any = None
    action: Any = None  # as the env was given it; None after a reset
    reward: Any = 0.0  # 0 after a reset
    terminated: Any = False  # with several agents, ``__all__`` of their dict
    info: Any = None
    truncated: Any = False  # in the same way

    @property
    def total_reward(self) -> float:
        """The reward, summed over agents."""
        return float(sum(self.reward.values()) if isinstance(self.reward, dict) else self.reward)

    @property
    def is_terminated(self) -> bool:
        """Whether the env ended the episode."""
        return _says_all(self.terminated)

    @property
    def is_over(self) -> bool:
        """Whether the episode ended with it."""
        return _says_all(self.terminated) or _says_all(self.truncated)

    def of_sub_env(self, index: int, *, whole: bool = True, space: gym.Space[Any] | None = None) -> Transition:
        """Return the step of one sub-env of a vector env; not ``whole``: only its reward and info, in half the time.

        Without ``space``, the observation space of a sub-env, tuples are taken for those of a ``Tuple`` space.
        """
        if not whole:
            return Transition(reward=_item(self.reward, index), info=_item(self.info, index))
        values = (self.action, self.reward, self.terminated, self.info, self.truncated)
        return Transition(_item(self.observation, index, space), *(_item(value, index) for value in values))


class EnvTap:
    """Keeps the last transition of an env, as RLlib does, and hands everything on unchanged, in the sampling thread.

    The env is the object whose ``step`` and ``reset`` RLlib calls: a vector env, or a sub-env on the old API stack.
    """

    def __init__(self, env: Any) -> None:
        self.last: Transition | None = None  # None before the first reset
        self.is_batched = not isinstance(env, gym.Env)  # a vector env, so that transitions have a part for each sub-env
        self.seed: Any = None  # of the last reset, or None if it was given none
        # the observation space of a sub-env, of a vector env of Gymnasium's
        self.space = getattr(env, "single_observation_space", None)
        # puts the steps of all sub-envs on their tapes; None: their tape recorders do
        self.batch: BatchTaping | None = None
        self.prefix: Prefix | None = None  # gives the only sub-env other actions than the policy's
        self._step, self._reset = env.step, env.reset
        env.step, env.reset = self.step, self.reset
        env.__dict__[_KEY] = self

    def step(self, action: Any) -> Any:
        """Step the env."""
        result = self._step(action) if self.batch is None else self.batch.step(self._step, action)
        observation, reward, terminated, truncated, info = result
        if self.prefix is not None:
            action = [self.prefix.action] if self.is_batched else self.prefix.action
        self.last = Transition(observation, action, reward, terminated, info, truncated)
        return result

    def put_on_tape(self, env: Any) -> None:
        """Put the steps of a synchronous vector env's sub-envs on their tapes together, if they have any."""
        inner = env.env if type(env) is gym.wrappers.vector.DictInfoToList else env
        mode = getattr(getattr(inner, "autoreset_mode", None), "name", _NEXT_STEP)
        if type(inner) is not gym.vector.SyncVectorEnv or mode != _NEXT_STEP:
            return
        recorders = {
            index: recorder
            for index, sub_env in enumerate(inner.envs)
            if _returns_all(sub_env) and (recorder := tape_recorder_of(sub_env)) is not None
        }
        if self.batch is not None:
            self.batch.include(recorders)
        elif recorders:
            self.batch = BatchTaping(recorders)

    def plain_reward(self, index: int, has_more: Callable[[Any], bool]) -> float | None:
        """Return the last reward of a sub-env; None if ``has_more`` finds more to see in the info of its last step."""
        last = self.last
        if last is None or type(last.reward) is not np.ndarray or type(last.info) is not list:
            return None  # those of a single env, of several agents, or of a vector env without RLlib's wrapper
        info = last.info[index]
        return None if info and has_more(info) else float(last.reward[index])

    def info(self, index: int) -> Any:
        """Return the info of the last step of a sub-env, of which ``plain_reward`` is not None."""
        assert self.last is not None
        return self.last.info[index]

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Reset the env."""
        result = self._reset(*args, **kwargs)
        self.seed = kwargs.get("seed")
        observation, info = result
        self.last = Transition(observation, info=info)
        return result


def tapped(env: Any) -> EnvTap | None:
    """Return the tap of an env; a new one if it has none, and None if it is not stepped here (``ExternalEnv``)."""
    if is_actor(env) or not (hasattr(env, "step") and hasattr(env, "reset") and hasattr(env, "__dict__")):
        return None
    tap: EnvTap | None = env.__dict__.get(_KEY)
    return EnvTap(env) if tap is None else tap


def tap_of(env: Any) -> EnvTap | None:
    """Return the tap of an env, or None if it has none."""
    tap: EnvTap | None = getattr(env, "__dict__", {}).get(_KEY)
    return tap


def _returns_all(env: Any) -> bool:
    """Return whether the wrappers of an env return the observation and the reward of the env inside them."""
    layers = list(inside(env))[:-1]
    return all(
        type(layer) in _SAME
        or (type(layer).reset is gym.Wrapper.reset and type(layer).step in (gym.Wrapper.step, gym.ActionWrapper.step))
        for layer in layers
    )


def _says_all(flags: Any) -> bool:
    return bool(flags.get(_ALL_AGENTS, False) if isinstance(flags, Mapping) else flags)


def _item(batch: Any, index: int, space: gym.Space[Any] | None = None) -> Any:
    """Return the part of a batched value that belongs to one sub-env, which has this space if it is known."""
    if isinstance(batch, (list, np.ndarray)):  # by far the most; an instance check of Mapping takes a microsecond
        return batch[index]
    if isinstance(batch, Mapping):  # one array for each key of a Dict space
        spaces: Any = space.spaces if isinstance(space, gym.spaces.Dict) else {}
        return {key: _item(value, index, spaces.get(key)) for key, value in batch.items()}
    if isinstance(batch, tuple):
        if isinstance(space, gym.spaces.Tuple):
            return tuple(_item(value, index, inner) for value, inner in zip(batch, space.spaces, strict=True))
        if space is None:
            return tuple(_item(value, index) for value in batch)
        return batch[index]  # Gymnasium stacks no values of other spaces: texts, sequences, graphs
    return batch
