"""Finds the reasons why a configuration records nothing, or not as it says: before training, and in its rounds."""

from __future__ import annotations

import difflib
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from tune_media.ray_compat import cloudpickle
from tune_media.recording.collector import unmatched
from tune_media.recording.plan import Plan
from tune_media.rllib.replies import Unfinished
from tune_media.rllib.settings import RecorderSettings
from tune_media.selection import Selector
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.rates import SUCCESS_RATE
from tune_media.values.secrets import error_text

_NUMBERS = ("episode_return", "episode_length", "env_steps", "training_iteration", "weights_version", "finished_at")
_SHORT_NAMES = {"return": "episode_return", "reward": "episode_return", "length": "episode_length"}
_WITHOUT_EVALUATION_ENV_RUNNERS = (
    "add config.evaluation(evaluation_num_env_runners=1): without evaluation env runners, nothing records it."
)
_ROUNDS_WITHOUT_END = 2  # RLlib may reset all envs between two rounds
_EXTERNAL = "EnvRunnerServerForExternalInference"
_OF_THE_EPISODE = (TypeError, KeyError, ValueError, IndexError, ArithmeticError)  # a real episode may not raise these


def reasons_for_nothing(settings: RecorderSettings, config: Any) -> Iterator[str]:
    """Yield each reason why a recorder of a built ``AlgorithmConfig`` will record nothing, or less, with its remedy."""
    env_runner: Any = getattr(config, "env_runner_cls", None)
    if any(kind.__name__ == _EXTERNAL for kind in getattr(env_runner, "__mro__", ())):
        yield (
            f"nothing is recorded: env runners of the class {env_runner.__name__} play no episode, since the env is "
            "outside RLlib. Record it there: tune_media.gym.RecordEpisodes(env)."
        )
        return
    for section in settings.sections:
        if section == "train" and not _plays(config):
            yield (
                f"sections='train' records nothing: {config.algo_class.__name__} learns from stored data, and plays no "
                "training episode. Record its evaluations: record_episodes(sections='evaluation'), with "
                "config.evaluation(evaluation_interval=1)."
            )
        elif section == "evaluation" and not config.evaluation_interval:
            train = ", or record training episodes: record_episodes(sections='train')" if _plays(config) else ""
            yield (
                f"sections='evaluation' records nothing, because evaluation_interval={config.evaluation_interval}: "
                f"RLlib runs no evaluation. Add config.evaluation(evaluation_interval=1){train}. If you call "
                "algo.evaluate() yourself, "
                + ("ignore this." if config.evaluation_num_env_runners else _WITHOUT_EVALUATION_ENV_RUNNERS)
            )
        else:
            yield from _unmatched_indices(section, settings, config)
    if recorder_names(config).count(settings.plan.name) > 1:
        yield (
            f"two recorders are named {settings.plan.name!r}, and only the first records: config.callbacks([...]) "
            "holds record_episodes(...) twice. Leave one out, or give one of them another name=."
        )
    yield from _other_success(settings, config)
    for selector in settings.plan.selectors:
        yield from _doubts(selector, settings.plan)


def _plays(config: Any) -> bool:
    """Return whether the training plays episodes; that of CQL, whose config says so, does not."""
    return config.is_online and not any(kind.__name__ == "CQL" for kind in getattr(config.algo_class, "__mro__", ()))


def recorder_names(config: Any) -> list[str]:
    """Return the names of the recorders in ``config.callbacks(...)``."""
    return [settings.plan.name for settings in _recorders(config)]


def _recorders(config: Any) -> list[RecorderSettings]:
    classes = config.callbacks_class if isinstance(config.callbacks_class, (list, tuple)) else [config.callbacks_class]
    arguments = [value for callback in classes for value in getattr(callback, "args", ())]  # record_episodes: a partial
    return [value for value in arguments if isinstance(value, RecorderSettings)]


def _other_success(settings: RecorderSettings, config: Any) -> Iterator[str]:
    """Yield why a recorder's success rate is not in the results: there is one rate a section, of the first recorder."""
    plan = settings.plan
    for first in _recorders(config):
        if first.plan.name == plan.name:
            return
        shared = [section for section in settings.sections if section in first.sections]
        differ = [name for name in ("success", "success_when") if getattr(first.plan, name) != getattr(plan, name)]
        if shared and differ:
            yield (
                f"the recorders {first.plan.name!r} and {plan.name!r} have different {differ[0]}=, and the results "
                f"have one custom_metrics/{SUCCESS_RATE} for the {shared[0]} episodes: that of {first.plan.name!r}, if "
                f"it has one. Pass the same {differ[0]}= to both."
            )


def _unmatched_indices(section: str, settings: RecorderSettings, config: Any) -> Iterator[str]:
    env_runners, env_indices = settings.env_runners, settings.env_indices
    option = "evaluation_num_env_runners" if section == "evaluation" else "num_env_runners"
    remote = getattr(config, option)
    playing = range(1, remote + 1) if remote else range(1)  # the local one plays only if there is no other
    if env_runners is not None and not set(env_runners) & set(playing):
        yield (
            f"env_runners={sorted(env_runners)} records no {section} episode: with {option}={remote}, the env runners "
            f"that play them have {_named(playing)}. Pass some of these, or None for all."
        )
    count = config.num_envs_per_env_runner
    if section == "evaluation":
        other = config.evaluation_config or {}
        name = "num_envs_per_env_runner"
        count = other.get(name, count) if isinstance(other, dict) else getattr(other, name)
    if env_indices is not None and not set(env_indices) & set(range(count)):
        yield (
            f"env_indices={sorted(env_indices)} records no {section} episode: with num_envs_per_env_runner={count}, "
            f"the sub-envs have {_named(range(count))}. Pass some of these, or None for all."
        )


def _doubts(selector: Selector, plan: Plan) -> Iterator[str]:
    """Yield the reason why a selector is certain, or very likely, to fail for every episode."""
    by = getattr(selector.choose, "keywords", {}).get("by")
    record = EpisodeRecord("trial", 0.0, 1, seed=0, env_runner=1, env_index=0, section="evaluation", terminated=True)
    if by is not None and not hasattr(record, by):
        names = {name: name for name in _NUMBERS} | _SHORT_NAMES
        near = difflib.get_close_matches(by, names, n=1, cutoff=0.8)
        if near and plan.collect in (None, False):
            yield (
                f"keep={selector.name!r} will choose nothing: episodes have no by={by!r}, unless collect= or a hook of "
                f"yours provides it. Did you mean by={names[near[0]]!r}?"
            )
        return
    try:  # with a copy: a function may remember what it has seen
        choose = pickle.loads(cloudpickle().dumps(selector.choose))
    except Exception:
        return
    try:
        choose([record])
    except _OF_THE_EPISODE:
        return
    except Exception as error:
        yield (
            f"keep={selector.name!r} will choose nothing: for an episode made up for a trial it raised "
            f"{error_text(error)}"
        )


def _named(indices: range) -> str:
    return f"the index {indices[0]}" if len(indices) == 1 else f"the indices {indices[0]} to {indices[-1]}"


def unmatched_paths(env_runners: Sequence[Unfinished], episodes: int) -> list[str]:
    """Return why paths of ``collect=`` have matched nothing in the env runners that finished an episode in a round."""
    names = dict.fromkeys(name for env_runner in env_runners for name in env_runner.info_names)
    return list(unmatched(frozenset.intersection(*(runner.unmatched for runner in env_runners)), names, episodes))


def endless(env_runners: Sequence[Unfinished], episodes: int, config: Any) -> str:
    """Return why an evaluation ended before any of its episodes did; empty if some did, or they still run."""
    longest = max((env_runner.longest for env_runner in env_runners), default=0)
    if episodes or not longest:
        return ""
    duration = f"evaluation_duration={config.evaluation_duration!r}"
    if config.evaluation_duration_unit == "episodes" and config.evaluation_duration != "auto":
        return (
            f"no episode ended within this evaluation; one is at step {longest}. RLlib stops waiting for episodes "
            f"after evaluation_sample_timeout_s={config.evaluation_sample_timeout_s} seconds: raise it, or end "
            "episodes sooner (max_episode_steps)."
        )
    if config.evaluation_force_reset_envs_before_iteration:
        unit = "" if config.evaluation_duration == "auto" else f" {config.evaluation_duration_unit}"
        return (
            f"no episode ended within this evaluation ({duration}{unit}); one is at step {longest}, and RLlib "
            "resets it before the next evaluation. Set evaluation_duration_unit='episodes', or a longer "
            "evaluation_duration, or evaluation_force_reset_envs_before_iteration=False."
        )
    return ""


def never_ended(section: str, abandoned: Sequence[int]) -> str:
    """Return why a section has no episode so far, by how many never ended in each round; empty after a single round."""
    if len(abandoned) < _ROUNDS_WITHOUT_END:
        return ""
    return (
        f"no {section} episode has ended: {sum(abandoned)} were left out, because their env failed or was reset in "
        "mid-episode. If RLlib's log has no error of an env, end episodes sooner (max_episode_steps)."
    )
