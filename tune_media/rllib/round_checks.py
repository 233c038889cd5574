"""Finds, at the end of the first rounds, the reasons why a recorder got nothing although RLlib played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tune_media.recording.collector import unmatched


@dataclass(frozen=True)
class Unfinished:
    """The data that an env runner has not seen so far."""

    longest: int = 0  # steps of the longest episode that still runs; 0: none runs
    unmatched: frozenset[str] = frozenset()  # paths of ``collect=`` that no step's info has had
    info_names: tuple[str, ...] = ()  # some names that infos do have


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
