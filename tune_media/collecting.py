"""Collects what the env runners of an RLlib Algorithm recorded: chooses over all of them and fetches the chosen.

An env runner is asked twice: for the records of its candidates, and, when it is known who won, for its winners' clips.
The functions that are sent to it find its recordings in the registry of its process.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tune_media import compat
from tune_media.episodes import EpisodeBatch, EpisodeData, thinned, with_progress
from tune_media.recorder import DATA, EpisodeRecorder, Kept, Plan, Taken, laid_out
from tune_media.rendering import Renderer
from tune_media.seeding import SeededResets
from tune_media.selection import winners
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

    data: list[EpisodeData] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    abandoned: int = 0
    kept: dict[str, Kept] = field(default_factory=dict)


@dataclass(frozen=True)
class Collected:
    """What was recorded in one round.

    Attributes:
        chosen: For each selector that chose something, its clip, or the list of its clips where it may choose several;
            under a picture's name the same of it; under ``data`` all episodes; and under ``num_abandoned`` the number
            of episodes that never ended, where there are any.
        metrics: The custom metrics over the episodes.
    """

    chosen: dict[str, Any]
    metrics: dict[str, float]


class Window:
    """The custom metrics' means over the last episodes of each section.

    Args:
        length: How many episodes it holds. None: no such means.
    """

    def __init__(self, length: int | None) -> None:
        self._length = length
        self._last: dict[tuple[str, str], deque[float]] = {}

    def means(self, section: str, episodes: Sequence[EpisodeData]) -> dict[str, float]:
        """Take in the episodes of a round; return ``<metric>_windowed_mean`` of those held."""
        if self._length is None:
            return {}
        for episode in episodes:
            for name, value in episode.record.metrics.items():
                if math.isnan(value):
                    continue
                self._last.setdefault((section, name), deque(maxlen=self._length)).append(value)
        return {
            f"{name}_windowed_mean": sum(values) / len(values)
            for (of_section, name), values in self._last.items()
            if of_section == section
        }


def collect(algorithm: Any, group: Any, plan: Plan, iteration: int) -> Collected:
    """Choose among what the env runners of a group finished, and fetch it."""
    timeout = timeout_of(algorithm)
    answers = compat.call_env_runners(group, functools.partial(_answer, name=plan.name), timeout)

    def fetch(wanted: set[str], seen: set[str]) -> dict[str, Kept]:
        kept: dict[str, Kept] = {}
        take = functools.partial(_take, name=plan.name, winners=wanted, seen=seen)
        for taken in compat.call_env_runners(group, take, timeout):
            kept.update(taken)
        return kept

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

    def collect(self, algorithm: Any, group: Any, iteration: int) -> Collected:
        """Choose among what has come since the last time, and ask the env runners that have given their answers."""
        answers = self._take_ready()
        ask = functools.partial(_take_all, name=self._plan.name)
        for index, actor in compat.remote_env_runners(group).items():
            if index not in self._asked:
                self._asked[index] = actor.apply.remote(ask)
        kept: dict[str, Kept] = {}
        for answer in answers:
            kept.update(answer.kept)
        return _choose(algorithm, self._plan, answers, iteration, lambda wanted, seen: kept)

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
    fetch: Callable[[set[str], set[str]], dict[str, Kept]],
) -> Collected:
    for problem in dict.fromkeys(problem for answer in answers for problem in answer.problems):
        logger.warning("record_episodes %r: %s", plan.name, problem)
    abandoned = sum(answer.abandoned for answer in answers)
    result: dict[str, Any] = {"num_abandoned": abandoned} if abandoned else {}
    episodes = [episode for answer in answers for episode in answer.data]
    if not episodes:
        return Collected(result, {})
    episodes = with_progress(thinned(episodes), iteration, compat.env_steps_lifetime(algorithm))
    records = {episode.record.id: episode.record for episode in episodes}
    candidates = [records[id] for answer in answers for id in answer.candidates if id in records]
    chosen = winners(candidates, plan.selectors)
    wanted = {record.id for found in chosen.values() for record in found}
    # A winner is missing where its env runner has died since.
    kept = {id: taken for id, taken in fetch(wanted, set(records)).items() if id in wanted}
    batch = EpisodeBatch(
        tuple(episodes),
        {id: taken.trajectory for id, taken in kept.items() if taken.trajectory is not None},
        holds_legacy=plan.sees_all and not compat.is_new_stack(algorithm.config),
    )
    complete = {
        id: dataclasses.replace(taken, shown=_of_record(taken.shown, records[id])) for id, taken in kept.items()
    }
    return Collected(result | laid_out(plan, chosen, complete) | {DATA: batch}, batch.metrics())


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
    data = recorder.data()
    return _Answer(data, [record.id for record in recorder.records()], recorder.new_problems(), abandoned)


def _take(env_runner: Any, name: str, winners: Collection[str], seen: Collection[str]) -> dict[str, Kept]:
    recording = _find(env_runner, name)
    return {} if recording is None else recording.recorder.take(winners, seen)


def _take_all(env_runner: Any, name: str) -> _Answer:
    answer = _answer(env_runner, name)
    seen = [episode.record.id for episode in answer.data]
    return dataclasses.replace(answer, kept=_take(env_runner, name, answer.candidates, seen))


def begin_round(env_runner: Any, name: str) -> None:
    """Forget what was finished before, and start over with the seeds; sent to the env runners of an evaluation.

    On the old API stack the seeds go on: its sampler has already reset the envs for their next episodes.
    """
    recording = _find(env_runner, name)
    if recording is not None:
        recording.recorder.begin_round()
        for seeds in recording.seeds if compat.is_new_stack(env_runner.config) else ():
            seeds.start_over()


def timeout_of(algorithm: Any) -> float | None:
    """Return how long an Algorithm waits for its env runners, seconds; None: as long as it takes."""
    timeout = algorithm.config.evaluation_sample_timeout_s
    return None if timeout is None else float(timeout)
