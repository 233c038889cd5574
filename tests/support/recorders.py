"""Plays episodes of a CountingEnv into a recorder, without Gymnasium's loop and without RLlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.support.envs import CountingEnv
from tune_media.recording.episode import EpisodeStart
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import Recorder
from tune_media.selection import as_selectors
from tune_media.values.episode_record import EpisodeRecord


def make_recorder(keep: Any = "all", *, problems_are_collected: bool = False, **options: Any) -> Recorder:
    """Return a recorder of the plan with these options."""
    plan = Plan("episodes", as_selectors(keep), **options)
    return Recorder(plan, problems_are_collected=problems_are_collected)


def play(
    recorder: Recorder,
    env: CountingEnv,
    slot: int = 0,
    rewards: Sequence[float] | None = None,
    seed: int | None = None,
) -> EpisodeRecord | None:
    """Play one episode of a CountingEnv and return its record."""
    env.reset(seed=seed)
    recorder.start(slot, EpisodeStart(f"episode-{env.episode}", only(env), fps=12, seed=seed))
    for step in range(env.length):
        _, reward, *_ = env.step(0)
        recorder.step(slot, reward if rewards is None else rewards[step])
    return recorder.end(slot)


def only(env: CountingEnv) -> Callable[[], dict[str, Any]]:
    """Return a function that renders an env with one view."""
    return lambda: {"": env.render()}


def take_all(recorder: Recorder) -> dict[str, Any]:
    """Take every candidate of a recorder; return them as they stand in a result, by the id of their record."""
    ids = [record.id for record in recorder.candidates.records()]
    return {id: candidate.in_result() for id, candidate in recorder.candidates.take(ids, ids).items()}
