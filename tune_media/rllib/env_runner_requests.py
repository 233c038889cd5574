"""Finds the recording of an env runner, in the env runner's own process; the functions that the Algorithm sends there.

Whatever the Algorithm sends is run between two samples, in the order in which it was sent.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tune_media.recording.choosing import Winners
from tune_media.rllib.env_runner import EnvRunnerRecording
from tune_media.rllib.replies import EpisodesReply, FirstReply
from tune_media.values.medium import new_id

T = TypeVar("T")

logger = logging.getLogger(__name__)

_RECORDINGS: weakref.WeakKeyDictionary[Any, dict[str, EnvRunnerRecording]] = weakref.WeakKeyDictionary()


def recordings_of(env_runner: Any) -> dict[str, EnvRunnerRecording]:
    """Return the recordings of an env runner of this process, by the recorder's name."""
    return _RECORDINGS.setdefault(env_runner, {})


def begin_round(env_runner: Any, name: str) -> tuple[int, str] | None:
    """Begin an evaluation on an env runner; return its index and its recording's id, or None if it does not record."""
    return _answered(env_runner, name, lambda recording: recording.begin_round(env_runner))


def ask(env_runner: Any, name: str, received: Collection[str]) -> EpisodesReply | None:
    """Return the finished episodes of an env runner that the Algorithm has not received; None if it does not record."""
    return _answered(env_runner, name, lambda recording: recording.answer(received), _only_problems)


def take(env_runner: Any, name: str, winners: Collection[str], seen: Collection[str]) -> Winners:
    """Hand over the winners that are on an env runner, and drop all other episodes that took part."""

    def hand_over(recording: EnvRunnerRecording) -> Winners:
        recording.end_round()
        return recording.take(winners, seen)

    def only_problems(recording: EnvRunnerRecording) -> Winners:
        return Winners(problems=recording.recorder.problems.take())

    return _answered(env_runner, name, hand_over, only_problems) or Winners()


def ask_and_take(env_runner: Any, name: str, received: Collection[str]) -> EpisodesReply | None:
    """Return the finished episodes of an env runner with all candidates, and drop them."""

    def hand_over(recording: EnvRunnerRecording) -> EpisodesReply:
        answer = recording.answer(received)
        recording.end_round()
        return replace(answer, kept=recording.take(answer.candidates, [episode.record.id for episode in answer.data]))

    return _answered(env_runner, name, hand_over, _only_problems)


def evaluates(env_runner: Any, name: str, is_evaluating: bool) -> None:
    """See ``EnvRunnerRecording.evaluates``."""

    _answered(env_runner, name, lambda recording: recording.evaluates(is_evaluating))


def before_training(env_runner: Any, name: str) -> FirstReply:
    """Return the report of an env runner's recording before it plays."""

    return _answered(env_runner, name, EnvRunnerRecording.before_training) or FirstReply()


def go_on_from(env_runner: Any, name: str, starts: Mapping[str, Mapping[str, int]]) -> None:
    """Count a trigger's episodes from a checkpoint: those that each sub-env has begun, by the env runner's index."""
    _answered(env_runner, name, lambda recording: recording.go_on_from(starts))


def _answered(
    env_runner: Any,
    name: str,
    request: Callable[[EnvRunnerRecording], T],
    if_it_fails: Callable[[EnvRunnerRecording], T | None] = lambda recording: None,
) -> T | None:
    """Return the answer of an env runner's recording; None if there is no recording.

    A request that raises becomes a problem of the recording: RLlib would end the env runner.
    """
    recording = recordings_of(env_runner).get(name)
    if recording is None:
        return None
    recording.is_known = True
    try:
        return request(recording)
    except Exception as error:
        if recording.recorder.plan.strict:
            raise
        logger.info("record_episodes %r: a request of the Algorithm failed", name, exc_info=True)
        recording.recorder.problems.report_error("a request of the Algorithm", error, "episodes may be missing")
        return if_it_fails(recording)


def _only_problems(recording: EnvRunnerRecording) -> EpisodesReply:
    """Return an answer without episodes; these come with the next one."""
    index, id = recording.place
    return EpisodesReply(index, id, new_id(), problems=recording.recorder.problems.take())
