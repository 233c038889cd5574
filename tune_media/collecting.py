"""Collects what the env runners of an RLlib Algorithm recorded: chooses over all of them and fetches the chosen.

An env runner is asked twice: for the records of its candidates, and, when it is known who won, for its winners' clips.
The functions that are sent to it find its recordings in the registry of its process.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tune_media import compat
from tune_media.recorder import EpisodeRecorder, Plan, Taken, with_progress
from tune_media.rendering import Renderer
from tune_media.seeding import SeededResets
from tune_media.selection import as_result, winners
from tune_media.values import EpisodeRecord, Video

logger = logging.getLogger(__name__)


@dataclass
class Recording:
    """What one env runner records under one name."""

    recorder: EpisodeRecorder
    owner: Any
    renderer: Renderer | None = None
    seeds: list[SeededResets] = field(default_factory=list)


# What each env runner of this process records, by the recorder's name: how a function sent to an env runner finds it.
RECORDINGS: weakref.WeakKeyDictionary[Any, dict[str, Recording]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class _Answer:
    """What an env runner says when it is asked."""

    records: list[EpisodeRecord] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    abandoned: int = 0
    clips: dict[str, Taken] = field(default_factory=dict)


def collect(algorithm: Any, group: Any, plan: Plan, iteration: int) -> dict[str, Any]:
    """Choose among what the env runners of a group finished, and fetch it.

    Returns:
        For each selector that chose something, its clip, or the list of its clips where it may choose several; and
        under ``num_abandoned`` the number of recorded episodes that never ended, where there are any.
    """
    timeout = timeout_of(algorithm)
    answers = compat.call_env_runners(group, functools.partial(_answer, name=plan.name), timeout)

    def fetch(wanted: set[str], seen: set[str]) -> dict[str, Taken]:
        clips: dict[str, Taken] = {}
        take = functools.partial(_take, name=plan.name, winners=wanted, seen=seen)
        for taken in compat.call_env_runners(group, take, timeout):
            clips.update(taken)
        return clips

    return _choose(algorithm, plan, answers, iteration, fetch)


class AnswersToCome:
    """Collects without waiting, for algorithms whose env runners are always busy.

    An env runner answers between two samples, so that what it is asked for in one iteration is taken in a later one.

    Args:
        plan: What is recorded.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._asked: dict[int, Any] = {}  # env runners that still owe an answer

    def collect(self, algorithm: Any, group: Any, iteration: int) -> dict[str, Any]:
        """Choose among what has come since the last time, and ask the env runners that have given their answers.

        Returns:
            The same as ``collect``.
        """
        answers = self._take_ready()
        ask = functools.partial(_take_all, name=self._plan.name)
        for index, actor in compat.remote_env_runners(group).items():
            if index not in self._asked:
                self._asked[index] = actor.apply.remote(ask)
        clips: dict[str, Taken] = {}
        for answer in answers:
            clips.update(answer.clips)
        return _choose(algorithm, self._plan, answers, iteration, lambda wanted, seen: clips)

    def _take_ready(self) -> list[_Answer]:
        import ray

        if not self._asked:
            return []
        ready = ray.wait(list(self._asked.values()), num_returns=len(self._asked), timeout=0)[0]
        answers: list[_Answer] = []
        for index in [index for index, reference in self._asked.items() if reference in ready]:
            try:
                answers.append(ray.get(self._asked.pop(index)))
            except ray.exceptions.RayError as error:
                logger.info("record_episodes %r: env runner %d is gone: %r", self._plan.name, index, error)
        return answers


def _choose(
    algorithm: Any,
    plan: Plan,
    answers: Sequence[_Answer],
    iteration: int,
    fetch: Callable[[set[str], set[str]], dict[str, Taken]],
) -> dict[str, Any]:
    for problem in dict.fromkeys(problem for answer in answers for problem in answer.problems):
        logger.warning("record_episodes %r: %s", plan.name, problem)
    abandoned = sum(answer.abandoned for answer in answers)
    result: dict[str, Any] = {"num_abandoned": abandoned} if abandoned else {}
    records = [record for answer in answers for record in answer.records]
    if not records:
        return result
    progressed = with_progress(records, iteration, compat.env_steps_lifetime(algorithm))
    chosen = winners(progressed.values(), plan.selectors)
    clips = fetch({record.id for found in chosen.values() for record in found}, set(progressed))
    # A clip is missing where its env runner has died since.
    complete = {id: _of_record(taken, progressed[id]) for id, taken in clips.items() if id in progressed}
    return result | as_result(plan.selectors, chosen, complete)


def _of_record(taken: Taken, record: EpisodeRecord) -> Any:
    """Put what the Algorithm knows of an episode into what its env runner handed over."""
    if isinstance(taken, Video):
        return taken.of_episode(record)
    if isinstance(taken, dict):
        agents = {view: clip.episode.agent if clip.episode else None for view, clip in taken.items()}
        return {
            view: clip.of_episode(dataclasses.replace(record, view=view, agent=agents[view]))
            for view, clip in taken.items()
        }
    return record


# Sent to the env runners.


def _find(env_runner: Any, name: str) -> Recording | None:
    return RECORDINGS.get(env_runner, {}).get(name)


def _answer(env_runner: Any, name: str) -> _Answer:
    recording = _find(env_runner, name)
    if recording is None:
        return _Answer()
    recorder = recording.recorder
    abandoned, recorder.abandoned = recorder.abandoned, 0
    return _Answer(recorder.records(), recorder.new_problems(), abandoned)


def _take(env_runner: Any, name: str, winners: Collection[str], seen: Collection[str]) -> dict[str, Taken]:
    recording = _find(env_runner, name)
    return {} if recording is None else recording.recorder.take(winners, seen)


def _take_all(env_runner: Any, name: str) -> _Answer:
    answer = _answer(env_runner, name)
    ids = [record.id for record in answer.records]
    return dataclasses.replace(answer, clips=_take(env_runner, name, ids, ids))


def begin_round(env_runner: Any, name: str) -> None:
    """Forget what was finished before, and start over with the seeds; sent to the env runners of an evaluation.

    On the old API stack the seeds go on: its sampler has already reset the envs for their next episodes.
    """
    recording = _find(env_runner, name)
    if recording is not None:
        recording.recorder.drop_finished()
        for seeds in recording.seeds if compat.is_new_stack(env_runner.config) else ():
            seeds.start_over()


def timeout_of(algorithm: Any) -> float | None:
    """Return how long an Algorithm waits for its env runners, seconds; None: as long as it takes."""
    timeout = algorithm.config.evaluation_sample_timeout_s
    return None if timeout is None else float(timeout)
