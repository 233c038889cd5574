"""An episode and its env runner on RLlib's two API stacks: everything in which these differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from tune_media.recording.rendering import inside, reset_seed, sub_env
from tune_media.rllib import ray_names
from tune_media.rllib.env_tap import EnvTap, Transition, tap_of, tapped
from tune_media.values.sections import EVALUATION, TRAIN

MAX_AGENTS = 64  # whose returns are kept: each becomes a number of every episode
_ONLY_AGENT = "agent0"  # the old API stack's name of a single-agent env's agent


@dataclass(frozen=True)
class EpisodeFields:
    """The fields of an episode that users' hooks write to: live dicts, which may still grow."""

    free: dict[str, Any]  # a dict for anything: ``custom_data``, or ``user_data`` on the old API stack
    custom_metrics: Mapping[str, Any] = field(default_factory=dict)  # numbers; old API stack only, as are the following
    hist_data: Mapping[str, Any] = field(default_factory=dict)  # lists of numbers
    media: Mapping[str, Any] = field(default_factory=dict)  # values of any kind


class _Episode:
    """A running episode."""

    def __init__(self, episode: Any, env_runner: Any, env: Any, index: int) -> None:
        self._episode, self._env_runner, self._env, self._index = episode, env_runner, env, index

    @staticmethod
    def put_on_tape(env_runner: Any) -> None:
        """Put the steps of a vector env on tape together, if its sub-envs are taped and stepped together."""

    @staticmethod
    def tap_of_all(env_runner: Any) -> EnvTap | None:
        """Return the tap of a vector env; None if it has none, or its sub-envs are stepped one by one."""
        return None


class NewStackEpisode(_Episode):
    """A running episode of the new API stack."""

    @staticmethod
    def tap(env_runner: Any, env: Any) -> None:
        """Begin to watch the steps of a vector env that was just made."""
        tapped(_stepped_env(env_runner, env))

    @staticmethod
    @override
    def put_on_tape(env_runner: Any) -> None:
        tap = NewStackEpisode.tap_of_all(env_runner)
        if tap is not None and tap.is_batched:
            tap.put_on_tape(env_runner.env)

    @property
    def id(self) -> str:
        """Its id."""
        return str(self._episode.id_)

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of its agents, those that may still join included; empty for a single-agent env."""
        if not hasattr(self._episode, "agent_episodes"):
            return ()
        return _agents(self._env, self._index, self._episode.agent_ids)

    def own_seed(self) -> tuple[int | None, bool]:
        """Return the seed of its reset, and whether that is known."""
        return reset_seed(sub_env(self._env, self._index)), False

    def transition(self, return_so_far: float, *, whole: bool = True) -> Transition:
        """Return its last step, or its reset; not ``whole``: only its reward and its info are needed."""
        tap = tap_of(_stepped_env(self._env_runner, self._env))
        if tap is not None and tap.last is not None:
            last = tap.last
            return last.of_sub_env(self._index, whole=whole, space=tap.space) if tap.is_batched else last
        episode = self._episode  # an env runner that steps its env in another way
        return Transition(
            episode.get_observations(-1), episode.get_actions(-1), episode.get_rewards(-1), False, episode.get_infos(-1)
        )

    def reset_info(self) -> Any:
        """Return the info of its reset, which was the last call of its env; None if that is out of reach."""
        tap = tap_of(_stepped_env(self._env_runner, self._env))
        return None if tap is None else self.transition(0.0, whole=False).info

    @staticmethod
    @override
    def tap_of_all(env_runner: Any) -> EnvTap | None:
        return tap_of(getattr(env_runner, "env", None))

    @staticmethod
    def is_over(env_runner: Any, index: int) -> bool:
        """Return whether the last step of a sub-env is known to have ended its episode."""
        tap = NewStackEpisode.tap_of_all(env_runner)
        return tap is not None and tap.last is not None and tap.is_batched and tap.last.of_sub_env(index).is_over

    def end_facts(self) -> dict[str, Any]:
        """Return the fields of its record that are known when it has ended."""
        terminated = bool(self._episode.is_terminated)
        if terminated and self._episode.is_truncated:  # RLlib says both if the agents have flags of their own
            terminated = self.transition(0.0).is_terminated
        return {"terminated": terminated, "weights_version": ray_names.weights_version(self._env_runner)}


class OldStackEpisode(_Episode):
    """A running episode of the old API stack, whose envs are stepped one by one; members as of ``NewStackEpisode``."""

    @staticmethod
    def tap(env_runner: Any, env: Any) -> None:
        """Begin to watch the steps of a sub-env that was just made."""
        tapped(env)

    @property
    def id(self) -> str:
        """Its id."""
        return str(self._episode.episode_id)

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of its agents; empty for a single-agent env."""
        return _agents(self._env, self._index, set(self._episode.get_agents()) - {_ONLY_AGENT})

    def own_seed(self) -> tuple[int | None, bool]:
        """Return the seed of its reset, and whether it is known: RLlib resets a new sub-env again, without its seed."""
        env = sub_env(self._env, self._index)
        tap = tap_of(env)
        return (reset_seed(env), False) if tap is None or tap.last is None else (tap.seed, True)

    def transition(self, return_so_far: float, *, whole: bool = True) -> Transition:
        """Return its last step, or its reset; in another process, by its return before this step."""
        tap = tap_of(sub_env(self._env, self._index))
        if tap is not None and tap.last is not None:
            return tap.last
        reward = float(self._episode.total_reward) - return_so_far
        return Transition(reward=reward, info=self._episode.last_info_for() or {})

    def reset_info(self) -> Any:
        """Return the info of its reset, as of ``NewStackEpisode``."""
        tap = tap_of(sub_env(self._env, self._index))
        return None if tap is None else self.transition(0.0).info

    def end_facts(self) -> dict[str, Any]:
        """Return the fields of its record that are known when it has ended."""
        tap = tap_of(sub_env(self._env, self._index))
        facts = {"episode_return": float(self._episode.total_reward), "weights_version": None}
        return facts if tap is None or tap.last is None else {**facts, "terminated": tap.last.is_terminated}


StackEpisode = NewStackEpisode | OldStackEpisode


def stack_of(config: Any) -> type[NewStackEpisode] | type[OldStackEpisode]:
    """Return the class for the episodes of an ``AlgorithmConfig``'s API stack."""
    return NewStackEpisode if config.enable_env_runner_and_connector_v2 else OldStackEpisode


def fields_of(episode: Any) -> EpisodeFields:
    """Return the fields of an episode of either stack that users' hooks write to."""
    if hasattr(episode, "custom_data"):
        return EpisodeFields(episode.custom_data)
    return EpisodeFields(episode.user_data, episode.custom_metrics, episode.hist_data, episode.media)


def agent_returns(
    episode: Any, earlier_chunks: Sequence[Any] = (), rewards: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the metrics ``return/<agent>`` of a finished episode; empty for a single-agent episode.

    ``rewards`` are the sums that the env gave each agent. RLlib's chunks miss rewards that an agent gets before its
    first turn, or between its turns if RLlib cuts the episode there.
    """
    returns: dict[str, float] = {}
    if hasattr(episode, "agent_rewards"):  # the old API stack, by agent and policy
        for (agent, _), reward in episode.agent_rewards.items():
            returns[str(agent)] = returns.get(str(agent), 0.0) + float(reward)
        if set(returns) == {_ONLY_AGENT}:
            return {}
    elif hasattr(episode, "agent_episodes"):
        for chunk in (*earlier_chunks, episode):
            for agent, agent_episode in chunk.agent_episodes.items():
                returns[str(agent)] = returns.get(str(agent), 0.0) + float(agent_episode.get_return())
    returns |= rewards or {}
    return {f"return/{agent}": value for agent, value in list(returns.items())[:MAX_AGENTS]}


def section_of(env_runner: Any) -> str:
    """Return the section whose episodes an env runner (or rollout worker) plays."""
    return EVALUATION if env_runner.config.in_evaluation else TRAIN


def index_of(env_runner: Any) -> int:
    """Return the index of an env runner (or rollout worker) in its group; 0 is the local one, or one made by hand."""
    return int(env_runner.worker_index or 0)


def task_of(env: Any) -> Any:
    """Return the task that a curriculum env is in, as text unless it is a plain value; None if it has none."""
    for candidate in inside(env):
        if hasattr(type(candidate), "get_task"):
            try:
                task = candidate.get_task()
            except Exception:  # an env that only sets its task, or has none yet
                return None
            return task if isinstance(task, (bool, int, float, str)) else str(task)
    return None


def _stepped_env(env_runner: Any, env: Any) -> Any:
    """Return the env object that an env runner steps: its vector env with its wrappers."""
    stepped = getattr(env_runner, "env", None)
    return env if stepped is None else stepped


def _agents(env: Any, index: int, present: Sequence[Any] | set[Any]) -> tuple[str, ...]:
    possible = getattr(getattr(sub_env(env, index), "unwrapped", None), "possible_agents", None) or ()
    return tuple(dict.fromkeys(str(agent) for agent in (*possible, *present)))
