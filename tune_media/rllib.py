"""Records episodes on RLlib's env runners, and has the Algorithm collect the chosen ones.

    config.callbacks(tune_media.rllib.record_episodes(sections="evaluation", keep=("best", "worst")))

Nothing travels through the episode object or the MetricsLogger (they copy, lose and repeat). Frames are encoded beside
the env. When an evaluation ends, the Algorithm asks its evaluation env runners for what they finished, chooses over
all of them, fetches the clips it chose, and puts them into this evaluation's result and no other.
"""

from __future__ import annotations

import functools
import logging
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tune_media.compat import (
    call_env_runners,
    env_runner_index,
    env_steps_lifetime,
    episode_is_terminated,
    in_evaluation,
    last_reward,
)
from tune_media.recorder import EpisodeRecorder, Plan, with_progress
from tune_media.rendering import FrameFunction, FrameSource
from tune_media.selection import Selector, Trigger, as_selectors, winners
from tune_media.values import EpisodeRecord, Video, VideoOptions

try:
    from ray.rllib.callbacks.callbacks import RLlibCallback
except ImportError as error:
    raise ImportError("tune_media.rllib needs RLlib: pip install 'tune-media[rllib]'") from error

logger = logging.getLogger(__name__)

SECTIONS = ("evaluation", "train")
ENV_RUNNERS = "env_runners"

# The recorders of each env runner of this process, by name: how a function that is sent to an env runner finds them.
_RECORDERS: weakref.WeakKeyDictionary[Any, dict[str, EpisodeRecorder]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class _Settings:
    plan: Plan
    sections: tuple[str, ...]
    frame: FrameFunction | None
    env_runners: frozenset[int] | None
    env_indices: frozenset[int] | None


def record_episodes(
    sections: str | Iterable[str] = "evaluation",
    keep: str | Selector | Iterable[str | Selector] = ("best", "worst"),
    trigger: Trigger | None = None,
    video: VideoOptions | None = VideoOptions(),  # noqa: B008 - frozen
    frame: FrameFunction | None = None,
    collect: Any = None,
    env_runners: Iterable[int] | None = None,
    env_indices: Iterable[int] | None = None,
    name: str = "episodes",
    strict: bool = False,
) -> Callable[[], RLlibCallback]:
    """Record episodes and put the chosen ones into RLlib's result.

    The result of an evaluation holds them at ``result["evaluation"]["env_runners"][name][selector]``, that of a
    training iteration at ``result["env_runners"][name][selector]``: a ``Video``, or a list where a selector may
    choose several.

    Args:
        sections: ``"evaluation"``, ``"train"``, or both.
        keep: Which of the episodes that ended in one evaluation (or one training iteration), over all its env
            runners, are kept: ``"best"``, ``"worst"``, ``"median"``, ``"first"``, ``"last"``, ``"all"``, a selector
            such as ``tune_media.selection.best(3)``, or several of these.
        trigger: Told the index of an episode that starts on a sub-env (0, 1, ...), says whether to record it. One
            that is declined is never rendered. None: all are recorded.
        video: Size, speed and quality of the clips. None: records of the episodes, and no frames.
        frame: Called with the sub-env instead of its ``render()``; returns HWC uint8.
        collect: Per-step data. Not available in this version.
        env_runners: Indices of the env runners that record; 0 is the local one. None: all.
        env_indices: Indices of the sub-envs that are recorded. None: all.
        name: What the clips are filed under.
        strict: Raise when an episode cannot be recorded, instead of warning once. For tests.

    Returns:
        What ``AlgorithmConfig.callbacks`` takes, alone or in a list.

    Raises:
        ValueError: An argument that cannot work; raised here, before anything is started.
        TypeError: Likewise.
    """
    chosen_sections = (sections,) if isinstance(sections, str) else tuple(sections)
    if not chosen_sections or any(section not in SECTIONS for section in chosen_sections):
        raise ValueError(f"record_episodes(sections=...) takes 'evaluation', 'train' or both, got {sections!r}.")
    if not re.fullmatch(r"[\w.-]{1,60}", name):
        raise ValueError(
            f"record_episodes(name=...) takes letters, digits, '_', '-' and '.', at most 60, got {name!r}."
        )
    if video is not None and not isinstance(video, VideoOptions):
        raise TypeError(f"record_episodes(video=...) takes a VideoOptions or None, got {video!r}.")
    if video is None and frame is not None:
        raise ValueError("record_episodes: frame= makes frames and video=None wants none; leave one of them out.")
    for argument, value in (("trigger", trigger), ("frame", frame)):
        if value is not None and not callable(value):
            raise TypeError(f"record_episodes({argument}=...) takes a callable, got {value!r}.")
    if collect is not None:
        raise ValueError("record_episodes(collect=...) is not available in this version of tune_media; leave it out.")
    settings = _Settings(
        plan=Plan(name, as_selectors(keep), trigger, video, strict),
        sections=chosen_sections,
        frame=frame,
        env_runners=_indices("env_runners", env_runners),
        env_indices=_indices("env_indices", env_indices),
    )
    return functools.partial(EpisodeRecorderCallback, settings)


def _indices(argument: str, values: Iterable[int] | None) -> frozenset[int] | None:
    if values is None:
        return None
    indices = frozenset([values] if isinstance(values, int) else values)
    if not indices or any(isinstance(i, bool) or not isinstance(i, int) or i < 0 for i in indices):
        raise ValueError(f"record_episodes({argument}=...) takes indices 0, 1, ..., or None for all; got {values!r}.")
    return indices


class EpisodeRecorderCallback(RLlibCallback):
    """The RLlib callback that ``record_episodes`` configures; one instance an env runner and one an Algorithm."""

    def __init__(self, settings: _Settings) -> None:
        super().__init__()
        self._settings = settings
        self._name = settings.plan.name

    # On the env runners.

    def on_environment_created(self, *, env_runner: Any, **kwargs: Any) -> None:
        """The env is new, for the first time or after a failure: what ran in the old one is lost."""
        recorder = self._recorder(env_runner)
        if recorder is not None:
            recorder.abandon_all()

    def on_episode_start(self, *, episode: Any, env_runner: Any, env: Any, env_index: int, **kwargs: Any) -> None:
        """The sub-env has been reset."""
        recorder = self._recorder(env_runner)
        if recorder is None or not self._wanted(env_index):
            return
        try:
            source = FrameSource(env, env_index, self._settings.frame)
        except ValueError as error:
            if self._settings.plan.strict:
                raise
            recorder.report(str(error))
            return
        recorder.start(
            env_index,
            str(episode.id_),
            source if self._settings.plan.video else None,
            source.fps,
            seed=source.reset_seed,
            env_runner=env_runner_index(env_runner),
            env_index=env_index,
            section="evaluation" if in_evaluation(env_runner) else "train",
        )

    def on_episode_step(self, *, episode: Any, env_runner: Any, env_index: int, **kwargs: Any) -> None:
        """The sub-env has been stepped."""
        recorder = self._recorder(env_runner)
        if recorder is not None:
            recorder.step(env_index, last_reward(episode))

    def on_episode_end(self, *, episode: Any, env_runner: Any, env_index: int, **kwargs: Any) -> None:
        """The last step of the episode has been recorded by ``on_episode_step``."""
        recorder = self._recorder(env_runner)
        if recorder is not None:
            recorder.end(env_index, terminated=episode_is_terminated(episode))

    # In the Algorithm.

    def on_evaluate_start(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Forget what the evaluation env runners finished after the last evaluation was over."""
        group = algorithm.eval_env_runner_group
        if "evaluation" in self._settings.sections and group is not None:
            call_env_runners(group, functools.partial(_drop_finished, name=self._name), _timeout(algorithm))

    def on_evaluate_end(self, *, algorithm: Any, evaluation_metrics: dict[str, Any], **kwargs: Any) -> None:
        """Put the chosen episodes of this evaluation into its result."""
        group = algorithm.eval_env_runner_group
        if "evaluation" in self._settings.sections and group is not None:
            self._collect(algorithm, group, evaluation_metrics, algorithm.iteration + 1)  # counted up afterwards

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """Put the chosen episodes of this training iteration into its result."""
        if "train" in self._settings.sections and algorithm.env_runner_group is not None:
            self._collect(algorithm, algorithm.env_runner_group, result, result["training_iteration"])

    def _collect(self, algorithm: Any, group: Any, section: dict[str, Any], iteration: int) -> None:
        try:
            chosen = collect_chosen(algorithm, group, self._settings.plan, iteration)
        except Exception as error:
            if self._settings.plan.strict:
                raise
            logger.warning("record_episodes %r: this round's clips could not be collected: %r", self._name, error)
            return
        if chosen:
            section.setdefault(ENV_RUNNERS, {}).setdefault(self._name, {}).update(chosen)

    def _recorder(self, env_runner: Any) -> EpisodeRecorder | None:
        """Return this env runner's recorder, or None where it is not to record."""
        section = "evaluation" if in_evaluation(env_runner) else "train"
        if section not in self._settings.sections:
            return None
        allowed = self._settings.env_runners
        if allowed is not None and env_runner_index(env_runner) not in allowed:
            return None
        recorders = _RECORDERS.setdefault(env_runner, {})
        if self._name not in recorders:
            recorders[self._name] = EpisodeRecorder(self._settings.plan)
        return recorders[self._name]

    def _wanted(self, env_index: int) -> bool:
        return self._settings.env_indices is None or env_index in self._settings.env_indices


def collect_chosen(algorithm: Any, group: Any, plan: Plan, iteration: int) -> dict[str, Any]:
    """Choose among what the env runners of a group finished, and fetch it; ``iteration`` is said of each episode.

    Returns:
        For each selector that chose something, its clip, or the list of its clips where it may choose several.
    """
    timeout = _timeout(algorithm)
    records: list[EpisodeRecord] = []
    for found, problems in call_env_runners(group, functools.partial(_records, name=plan.name), timeout):
        records.extend(found)
        for problem in problems:
            logger.warning("record_episodes %r: an episode is not recorded: %s", plan.name, problem)
    progressed = with_progress(records, iteration, env_steps_lifetime(algorithm))
    chosen = winners(progressed.values(), plan.selectors)
    wanted = {record.id for group_records in chosen.values() for record in group_records}
    if not records:
        return {}
    clips: dict[str, Video | EpisodeRecord] = {}
    take = functools.partial(_take, name=plan.name, winners=wanted, seen=set(progressed))
    for taken in call_env_runners(group, take, timeout):
        clips.update(taken)
    return {
        selector.name: found[0] if selector.limit == 1 else found
        for selector in plan.selectors
        if (found := _in_order(chosen.get(selector.name, ()), clips))
    }


def _in_order(records: Sequence[EpisodeRecord], clips: dict[str, Video | EpisodeRecord]) -> list[Any]:
    found: list[Any] = []
    for record in records:
        clip = clips.get(record.id)  # missing where its env runner died since it was chosen
        if clip is not None:
            found.append(clip.of_episode(record) if isinstance(clip, Video) else record)
    return found


# Sent to the env runners.


def _records(env_runner: Any, name: str) -> tuple[list[EpisodeRecord], list[str]]:
    recorder = _RECORDERS.get(env_runner, {}).get(name)
    if recorder is None:
        return [], []
    return recorder.records(), recorder.new_problems()


def _take(
    env_runner: Any, name: str, winners: Collection[str], seen: Collection[str]
) -> dict[str, Video | EpisodeRecord]:
    recorder = _RECORDERS.get(env_runner, {}).get(name)
    return {} if recorder is None else recorder.take(winners, seen)


def _drop_finished(env_runner: Any, name: str) -> None:
    recorder = _RECORDERS.get(env_runner, {}).get(name)
    if recorder is not None:
        recorder.drop_finished()


def _timeout(algorithm: Any) -> float | None:
    timeout = algorithm.config.evaluation_sample_timeout_s
    return None if timeout is None else float(timeout)
