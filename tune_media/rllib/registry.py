"""Finds the recording of an env runner, in the env runner's own process; the functions that the Algorithm sends there.

Whatever the Algorithm sends is run between two samples, in the order in which it was sent.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tune_media.recording.episode import Candidate
from tune_media.recording.replay_decision import Taken
from tune_media.rllib.round_checks import Unfinished
from tune_media.values.episodes import EpisodeData
from tune_media.values.recording_problems import RecordingProblem

if TYPE_CHECKING:
    from tune_media.rllib.env_runner import EnvRunnerRecording

_RECORDINGS: weakref.WeakKeyDictionary[Any, dict[str, EnvRunnerRecording]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Answer:
    """The finished episodes of one env runner, as it tells of them.

    Attributes:
        env_runner: Its index.
        recording: The id of its recording: another one after the env runner was restarted.
        serial: The id of this answer. The Algorithm sends it back, so that no episode is told of twice.
        data: The data of the episodes.
        candidates: The ids of the episodes that may be chosen.
        fetched_at: When RLlib fetched their metrics, Unix time in seconds, by id.
        problems: Reasons why episodes were not recorded.
        unfinished: The paths of ``collect=`` and the episodes that it still waits for.
        abandoned: Number of episodes that began and never ended.
        starts: Number of episodes that each sub-env has begun.
        kept: The candidates themselves, if they were asked for at once.
    """

    env_runner: int
    recording: str
    serial: str
    data: list[EpisodeData] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    fetched_at: dict[str, float] = field(default_factory=dict)
    problems: list[RecordingProblem] = field(default_factory=list)
    unfinished: Unfinished = field(default_factory=Unfinished)
    abandoned: int = 0
    starts: dict[int, int] = field(default_factory=dict)
    kept: dict[str, Candidate] = field(default_factory=dict)


def recordings_of(env_runner: Any) -> dict[str, EnvRunnerRecording]:
    """Return the recordings of an env runner of this process, by the recorder's name."""
    return _RECORDINGS.setdefault(env_runner, {})


def begin_round(env_runner: Any, name: str) -> tuple[int, str] | None:
    """Begin an evaluation on an env runner; return its index and its recording's id, or None if it does not record."""
    recording = recordings_of(env_runner).get(name)
    return None if recording is None else recording.begin_round(env_runner)


def ask(env_runner: Any, name: str, received: Collection[str]) -> Answer | None:
    """Return the finished episodes of an env runner, or None if it does not record.

    Args:
        env_runner: The env runner.
        name: The recorder's name.
        received: The serials of the answers that have arrived.
    """
    recording = recordings_of(env_runner).get(name)
    return None if recording is None else recording.answer(received)


def take(env_runner: Any, name: str, winners: Collection[str], seen: Collection[str]) -> Taken:
    """Hand over the winners that are on an env runner, and drop all other episodes that took part."""
    recording = recordings_of(env_runner).get(name)
    return Taken() if recording is None else recording.replays.taken_from(env_runner, recording.take(winners, seen))


def ask_and_take(env_runner: Any, name: str, received: Collection[str]) -> Answer | None:
    """Return the finished episodes of an env runner with all candidates."""
    recording = recordings_of(env_runner).get(name)
    return None if recording is None else recording.answer_with_candidates(received)


def problems_of(env_runner: Any, name: str) -> list[RecordingProblem]:
    """Return the new problems of an env runner's recording."""
    recording = recordings_of(env_runner).get(name)
    return [] if recording is None else recording.recorder.problems.take()


def go_on_from(env_runner: Any, name: str, starts: Mapping[str, Mapping[str, int]]) -> None:
    """Have triggers go on counting episodes from a checkpoint.

    Args:
        env_runner: The env runner.
        name: The recorder's name.
        starts: Number of episodes that each sub-env has begun, by the index of the env runner.
    """
    recording = recordings_of(env_runner).get(name)
    if recording is not None:
        recording.go_on_from(starts)
