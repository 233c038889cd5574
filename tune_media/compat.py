"""Every difference between the Ray versions we support, and every name of Ray's that is not public and that we need.

Supported: Ray 2.50.1 and the newest release (2.60 when this was written). ``tests/test_compat.py`` pins each name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_ONLY_AGENT = "agent0"  # the old API stack's name of a single-agent env's agent


def call_env_runners(group: Any, function: Callable[[Any], Any], timeout_seconds: float | None = None) -> list[Any]:
    """Run ``function(env_runner)`` on every env runner of a group, the local one included; wait for the answers.

    Env runners that are dead or do not answer in time are left out.
    """
    return list(group.foreach_env_runner(function, local_env_runner=True, timeout_seconds=timeout_seconds))


def remote_env_runners(group: Any) -> dict[int, Any]:
    """Return the handles of a group's env runner actors, by their index.

    Ray 2.50's IMPALA takes whatever answer is ready in the group's own request queue for samples of its own, so that
    requests of others must not go through it.
    """
    return dict(group._worker_manager.actors())


def is_asynchronous(algorithm: Any) -> bool:
    """Say whether an Algorithm always has sampling under way, so that waiting for its env runners holds it up."""
    from ray.rllib.algorithms.impala import IMPALA  # APPO is one, too

    return isinstance(algorithm, IMPALA)


def is_new_stack(config: Any) -> bool:
    """Say whether a config is of the new API stack."""
    return bool(config.enable_env_runner_and_connector_v2)


def env_runner_index(env_runner: Any) -> int:
    """Return the index of an env runner (new stack) or rollout worker (old stack) in its group; 0 is the local one."""
    return int(env_runner.worker_index)


def in_evaluation(env_runner: Any) -> bool:
    """Say whether an env runner plays evaluation episodes."""
    return bool(env_runner.config.in_evaluation)


def episode_is_terminated(episode: Any) -> bool | None:
    """Say whether an env ended its episode, rather than a time limit; None where the episode does not tell."""
    return None if on_old_stack(episode) else bool(episode.is_terminated)


def on_old_stack(episode: Any) -> bool:
    """Say whether an episode is one of the old API stack."""
    return hasattr(episode, "total_reward")


def episode_id(episode: Any) -> str:
    """Return an episode's id."""
    return str(episode.episode_id if on_old_stack(episode) else episode.id_)


def last_reward(episode: Any, before: float) -> float:
    """Return the reward of an episode's last env step, summed over its agents.

    Args:
        episode: The episode, of either stack; those of the old one only know their total.
        before: The sum of its rewards before this step.
    """
    if on_old_stack(episode):
        return float(episode.total_reward) - before
    reward = episode.get_rewards(-1)
    return float(sum(reward.values())) if isinstance(reward, dict) else float(reward)


def multi_agent_return(episode: Any, earlier_chunks: Sequence[Any]) -> float | None:
    """Return the return of a finished multi-agent episode of the new stack, over its chunks; None for any other.

    Where agents take turns, a reward reaches the episode when its agent's turn comes, and not with the env step.
    """
    if on_old_stack(episode) or not hasattr(episode, "agent_episodes"):
        return None
    return float(sum(chunk.get_return() for chunk in (*earlier_chunks, episode)))


def last_action(episode: Any) -> Any:
    """Return the action of an episode's last env step; a dict by agent where there are several."""
    if not on_old_stack(episode):
        return episode.get_actions(-1)
    buffers = {agent: collector.buffers for agent, collector in _stepped(episode).items()}
    last = {agent: found["actions"][0][-1] for agent, found in buffers.items() if "actions" in found}
    return _of_agents(last)


def last_info(episode: Any) -> Any:
    """Return the info dict of an episode's last env step; a dict of these by agent where there are several."""
    if not on_old_stack(episode):
        return episode.get_infos(-1)
    buffers = {agent: collector.buffers.get("infos", [[]])[0] for agent, collector in _stepped(episode).items()}
    return _of_agents({agent: infos[-1] for agent, infos in buffers.items() if len(infos)})


def last_observation(episode: Any, before: int = 0) -> Any:
    """Return what an episode's last env step (or one so many steps before it) led to; a dict by agent of several.

    On the old API stack it is what the policy was shown: preprocessed.
    """
    if not on_old_stack(episode):
        return episode.get_observations(-1 - before)
    buffers = {agent: collector.buffers for agent, collector in _stepped(episode).items()}
    last = {
        agent: found["obs"][0][-1 - before]
        for agent, found in buffers.items()
        if len(found.get("obs", [[]])[0]) > before
    }
    return _of_agents(last) if last else None


def _stepped(episode: Any) -> dict[str, Any]:
    """Return the collectors of the agents that an old-stack episode's last env step brought something for."""
    step = episode.length - 1  # RLlib counts an agent's steps from 0, and what its reset gave as -1
    collectors = episode._agent_collectors.items()
    return {str(agent): found for agent, found in collectors if found.buffers.get("t", [[]])[0][-1:] == [step]}


def _of_agents(values: dict[str, Any]) -> Any:
    """Return the value of the only agent of a single-agent env, or a dict by agent."""
    return values[_ONLY_AGENT] if set(values) == {_ONLY_AGENT} else values


def first_observation(episode: Any) -> Any:
    """Return what an episode's reset led to; None on the old API stack, which adds it after it tells of the episode."""
    return None if on_old_stack(episode) else last_observation(episode)


@dataclass(frozen=True)
class EpisodeFields:
    """What users' hooks put into an episode; the live dicts.

    Attributes:
        free: What is for anything: ``custom_data``, or ``user_data`` on the old API stack.
        custom_metrics: The old API stack's numbers.
        hist_data: Its lists of numbers.
        media: Its anything.
    """

    free: dict[str, Any]
    custom_metrics: dict[str, Any]
    hist_data: dict[str, Any]
    media: dict[str, Any]


def free_fields(episode: Any) -> dict[str, Any]:
    """Return an episode's dict for users' own data."""
    fields: dict[str, Any] = episode.user_data if on_old_stack(episode) else episode.custom_data
    return fields


def fields_of(episode: Any) -> EpisodeFields:
    """Return what users' hooks put into an episode; they may still add to it."""
    if not on_old_stack(episode):
        return EpisodeFields(free_fields(episode), {}, {}, {})
    return EpisodeFields(free_fields(episode), episode.custom_metrics, episode.hist_data, episode.media)


def agents_of(episode: Any) -> tuple[str, ...]:
    """Return the names of a multi-agent episode's agents."""
    agents = getattr(episode, "agent_ids", None)
    return tuple(str(agent) for agent in agents) if agents else ()


def weights_version(env_runner: Any) -> int | None:
    """Return the sequence number of an env runner's weights, where it tells."""
    version = getattr(env_runner, "_weights_seq_no", None)
    return None if version is None else int(version)


def env_steps_lifetime(algorithm: Any) -> int | None:
    """Return how many env steps an Algorithm has sampled for training, or None where it does not tell."""
    if not is_new_stack(algorithm.config):
        return int(algorithm._counters["num_env_steps_sampled"])
    try:
        return int(algorithm.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime")))
    except KeyError:  # nothing has been sampled yet
        return None


def watch_custom_evaluation(algorithm: Any, see: Callable[[dict[str, Any]], None]) -> None:
    """Have ``see`` told what an Algorithm's ``custom_evaluation_function`` returns.

    On the new API stack RLlib calls it and then reports what its MetricsLogger has instead of what it returned.
    """
    if not algorithm.config.custom_evaluation_function or not is_new_stack(algorithm.config):
        return
    evaluate = algorithm._evaluate_with_custom_eval_function

    def watched() -> Any:
        returned = evaluate()
        see(returned[0])
        return returned

    algorithm._evaluate_with_custom_eval_function = watched


def wandb_clean_log(values: Any, **kwargs: Any) -> Any:
    """Make values ones that W&B takes, as Ray's W&B callback does: arrays of three axes and more become media."""
    from ray.air.integrations import wandb

    return wandb._clean_log(values, **kwargs)


def wandb_takes(value: Any) -> bool:
    """Say whether Ray's W&B callback logs a value."""
    from ray.air.integrations import wandb

    return bool(wandb._is_allowed_type(value))


def wandb_run_info_hook(run: Any) -> None:
    """Run the hook that ``WANDB_PROCESS_RUN_INFO_HOOK`` names, as Ray's W&B callback does."""
    from ray.air.integrations import wandb

    wandb._run_wandb_process_run_info_hook(run)


def latest_checkpoint_metrics(trial: Any) -> dict[str, Any] | None:
    """Return the metrics that Tune keeps with a trial's latest checkpoint, the live dict, or None.

    A checkpoint comes with a copy of its result of its own, which ends up in the experiment's state.
    """
    latest = trial.run_metadata.checkpoint_manager.latest_checkpoint_result
    return latest.metrics if latest is not None and isinstance(latest.metrics, dict) else None


def leave_out_of_syncs(trial: Any, pattern: str) -> bool:
    """Have the syncs of this process leave files out of what they upload; say whether that is possible.

    Tune copies an experiment's whole local folder at each sync, as often as every ten seconds. Its syncers can leave
    files out, but nothing in Tune's settings says so, and the syncer of an experiment is out of a callback's reach.

    Args:
        trial: Any trial of the experiment.
        pattern: As ``fnmatch`` takes it, of paths relative to the folder.
    """
    kind = type(trial.storage.syncer)
    command = getattr(kind, "_sync_up_command", None)
    if pattern in getattr(command, "left_out", ()):
        return True
    if command is None or "exclude" not in inspect.signature(command).parameters:
        return False

    @functools.wraps(command)
    def without(self: Any, local_path: str, uri: str, exclude: list[str] | None = None) -> Any:
        return command(self, local_path, uri, [*(exclude or []), pattern])

    without.left_out = (pattern, *getattr(command, "left_out", ()))  # type: ignore[attr-defined]
    kind._sync_up_command = without
    return True
