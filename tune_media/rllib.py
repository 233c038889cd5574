"""Records episodes on RLlib's env runners, and has the Algorithm collect the chosen ones.

    config.callbacks(tune_media.rllib.record_episodes(sections="evaluation", keep=("best", "worst")))

Nothing travels through the episode object or the MetricsLogger (they copy, lose and repeat). Frames are encoded beside
the env. When an evaluation ends, the Algorithm asks its evaluation env runners for what they finished, chooses over
all of them, fetches the clips it chose, and puts them into this evaluation's result and no other.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_media import compat
from tune_media.checks import as_indices, as_seeds, check_recording
from tune_media.collecting import (
    RECORDINGS,
    AnswersToCome,
    Collected,
    Recording,
    Window,
    begin_round,
    collect,
    timeout_of,
)
from tune_media.episodes import EpisodeValues
from tune_media.recorder import DATA, EpisodeRecorder, Plan
from tune_media.rendering import FrameFunction, Renderer, describe, inside, reset_seed, sub_env, sub_envs
from tune_media.seeding import SeededResets, seeded, share
from tune_media.selection import RenderBudget, Selector, Trigger, as_selectors
from tune_media.steps import FINAL, SERIES, Collect, Named, Rule
from tune_media.values import VideoOptions

try:
    from ray.rllib.callbacks.callbacks import RLlibCallback
except ImportError as error:
    raise ImportError("tune_media.rllib needs RLlib: pip install 'tune-media[rllib]'") from error

logger = logging.getLogger(__name__)

SECTIONS = ("evaluation", "train")
ENV_RUNNERS = "env_runners"
_OWN_VALUES = "tune_media"


@dataclass(frozen=True)
class _Settings:
    plan: Plan
    sections: tuple[str, ...]
    frame: Any
    env_runners: frozenset[int] | None
    env_indices: frozenset[int] | None
    seeds: tuple[int, ...]
    window: int | None


def record_episodes(
    sections: str | Iterable[str] = "evaluation",
    keep: str | Selector | Iterable[str | Selector] = ("best", "worst"),
    trigger: Trigger | RenderBudget | None = None,
    video: VideoOptions | None = VideoOptions(),  # noqa: B008 - frozen
    frame: FrameFunction | str | Mapping[str, FrameFunction | str] | None = None,
    collect: Collect | None = None,
    env_runners: Iterable[int] | None = None,
    env_indices: Iterable[int] | None = None,
    name: str = "episodes",
    seeds: int | Sequence[int] | None = None,
    window: int | None = None,
    trajectories: bool = False,
    strict: bool = False,
) -> Callable[[], RLlibCallback]:
    """Record episodes and put the chosen ones into RLlib's result.

    The result of an evaluation holds them at ``result["evaluation"]["env_runners"][name][selector]``, that of a
    training iteration at ``result["env_runners"][name][selector]``: a ``Video``, or a list where a selector may
    choose several. All episodes of the round, with what ``collect`` took from their steps, are beside them under
    ``data``; the aggregates of that are at ``custom_metrics/<metric>_mean``, ``_min`` and ``_max`` of the section.

    Args:
        sections: ``"evaluation"``, ``"train"``, or both.
        keep: Which of the episodes that ended in one evaluation (or one training iteration), over all its env
            runners, are kept: ``"best"``, ``"worst"``, ``"median"``, ``"first"``, ``"last"``, ``"all"``, a selector
            such as ``tune_media.selection.best(3)``, or several of these.
        trigger: Told the index of an episode that starts on a sub-env (0, 1, ...), says whether to record it; see
            ``tune_media.selection`` for ready ones. One that is declined is never rendered, and only its data are kept.
            None: all are recorded.
        video: Size, speed and quality of the clips. None: records of the episodes, and no frames.
        frame: Instead of the sub-env's ``render()``: a function of the sub-env that returns HWC uint8, the name of one
            of its methods (which reaches sub-envs in other processes, too), or a dict of these by view. A function
            may also return a dict of frames, by agent say. Each view becomes a clip of its own.
        collect: What to take from each step of all episodes: a function of a ``steps.StepFacts`` that returns values by
            name; paths inside ``info`` such as ``"data/speed"``; or a dict of paths, functions, and
            ``tune_media.steps.running(...)`` and ``final(...)`` by name. Values are numbers, vectors, text, pictures,
            nested dicts of these. The mean, sum, least, largest and last of running numbers over an episode are in its
            record's ``metrics``, as ``<name>_avg``, ``_sum``, ``_min``, ``_max`` and ``_last``, and selectors may
            choose ``by`` them. ``info["data"]["running"]``, ``info["data"]["final"]`` and ``info["media"]`` are taken
            in any case, unless this is False.
        env_runners: Indices of the env runners that record; 0 is the local one. None: all.
        env_indices: Indices of the sub-envs that are recorded. None: all.
        name: What the clips are filed under.
        seeds: The resets of the evaluation envs take these seeds in turn, from the first at the start of every
            evaluation, shared out over all env runners and sub-envs; a number n stands for 0, ..., n-1. The same
            seeds in every trial make their clips comparable. Needs sub-envs in the env runner's own process; for
            others, wrap each env in ``tune_media.gym.FixedSeeds`` where it is made.
        window: Report the custom metrics' means over so many last episodes, too, as ``<metric>_windowed_mean``. None:
            only those over the episodes of the round.
        trajectories: Keep observations, actions, rewards and infos of the chosen episodes, as Parquet.
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
    check_recording(trigger, video, frame)
    if seeds is not None and "evaluation" not in chosen_sections:
        raise ValueError("record_episodes(seeds=...) is for evaluation episodes, and sections= leaves these out.")
    if window is not None and not (isinstance(window, int) and window > 0):
        raise ValueError(f"record_episodes(window=...) takes a number of episodes or None, got {window!r}.")
    settings = _Settings(
        plan=Plan(
            name,
            as_selectors(keep),
            trigger,
            video,
            collect,
            trajectories,
            sees_all=env_runners is None and env_indices is None and not (collect is False and trigger),
            strict=strict,
        ),
        sections=chosen_sections,
        frame=frame,
        env_runners=as_indices("env_runners", env_runners),
        env_indices=as_indices("env_indices", env_indices),
        seeds=as_seeds(seeds),
        window=window,
    )
    return functools.partial(EpisodeRecorderCallback, settings)


class EpisodeRecorderCallback(RLlibCallback):
    """The RLlib callback that ``record_episodes`` configures; one instance an env runner and one an Algorithm."""

    def __init__(self, settings: _Settings) -> None:
        super().__init__()
        self._settings = settings
        self._name = settings.plan.name
        self._is_told_of_its_double = False
        self._coming = AnswersToCome(settings.plan)
        self._window = Window(settings.window)
        self._returned: dict[str, Any] = {}

    # On the env runners. The new API stack passes `env_runner` and `env`, the old one `worker` and `base_env`.

    def on_environment_created(self, *, env_runner: Any, env: Any, **kwargs: Any) -> None:
        """The env is new, for the first time or after a failure: what ran in the old one is lost."""
        recording = self._recording(env_runner)
        if recording is not None:
            recording.recorder.abandon_all()
            recording.renderer = None
            self._give_seeds(recording, env_runner, env)

    def on_sub_environment_created(
        self, *, worker: Any, sub_environment: Any, env_index: int | None = None, **kwargs: Any
    ) -> None:
        """The old API stack has made a sub-env, for the first time or after a failure."""
        recording = self._recording(worker)
        if recording is not None:
            recording.recorder.abandon(env_index or 0)
            self._give_seeds(recording, worker, sub_environment, env_index or 0)

    def on_episode_start(
        self,
        *,
        episode: Any,
        env_index: int,
        env_runner: Any = None,
        env: Any = None,
        worker: Any = None,
        base_env: Any = None,
        **kwargs: Any,
    ) -> None:
        """The sub-env has been reset."""
        env_runner, env = env_runner or worker, env if base_env is None else base_env
        recording = self._recording(env_runner)
        if recording is None or not self._wanted(env_index):
            return
        renderer = self._renderer(recording, env)
        if renderer is not None:
            renderer.at(env_index)
        with recording.recorder.guard(env_index, "what is known of an episode"):
            inner = sub_env(env, env_index)
            given = seeded(inner)
            recording.recorder.start(
                env_index,
                compat.episode_id(episode),
                functools.partial(renderer.frames, env_index) if renderer else None,
                renderer.fps(env_index) if renderer else 0.0,
                env=inner,
                seed=given.last if given else reset_seed(inner),
                seed_is_new=given is not None,
                agents=compat.agents_of(episode),
                can_be_shown=renderer is not None,
                observation=compat.first_observation(episode) if self._settings.plan.trajectories else None,
                env_runner=compat.env_runner_index(env_runner),
                env_index=env_index,
                section=_section(env_runner),
                explored=bool(env_runner.config.explore),
                task=_task(inner),
            )

    def on_episode_step(
        self, *, episode: Any, env_index: int, env_runner: Any = None, worker: Any = None, **kwargs: Any
    ) -> None:
        """The sub-env has been stepped."""
        recording = self._recording(env_runner or worker)
        if recording is None or not self._wanted(env_index):
            return
        if recording.renderer is not None:
            recording.renderer.at(env_index)
        recorder = recording.recorder
        if not recorder.is_recording(env_index):
            recorder.step(env_index, 0.0)  # time passes
            return
        with recorder.guard(env_index, "a step"):
            reward = compat.last_reward(episode, recorder.episode_return(env_index))
            info = compat.last_info(episode) if recorder.looks_at_info else None
            if not recorder.looks_at_steps:
                recorder.step(env_index, reward, None, info)
                return
            if self._settings.plan.trajectories and compat.on_old_stack(episode):
                recorder.set_reset_observation(env_index, compat.last_observation(episode, before=1))
            recorder.step(
                env_index,
                reward,
                compat.last_action(episode),
                info,
                observation=compat.last_observation(episode),
                episode=episode,
                env_index=env_index,
            )

    def on_episode_end(
        self,
        *,
        episode: Any,
        env_index: int,
        env_runner: Any = None,
        worker: Any = None,
        prev_episode_chunks: Sequence[Any] = (),
        **kwargs: Any,
    ) -> None:
        """The last step of the episode has been recorded by ``on_episode_step``."""
        env_runner = env_runner or worker
        recording = self._recording(env_runner)
        if recording is None:
            return
        if isinstance(episode, Exception):  # how the old API stack says that the env failed
            recording.recorder.abandon(env_index)
            return
        whole_return = compat.multi_agent_return(episode, prev_episode_chunks)
        recording.recorder.end(
            env_index,
            functools.partial(_own_fields, compat.fields_of(episode)),
            **({} if whole_return is None else {"episode_return": whole_return}),
            terminated=compat.episode_is_terminated(episode),
            weights_version=compat.weights_version(env_runner),
        )

    def on_sample_end(self, *, env_runner: Any = None, worker: Any = None, **kwargs: Any) -> None:
        """Until the next sample is asked for, no time counts as sampling."""
        recording = self._recording(env_runner or worker)
        if recording is not None:
            recording.recorder.pause()

    # In the Algorithm.

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """See what a ``custom_evaluation_function`` returns, which RLlib drops on the new API stack."""
        with self._guard("watching the custom_evaluation_function"):
            compat.watch_custom_evaluation(algorithm, self._returned.update)

    def on_evaluate_start(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Forget what the evaluation env runners finished after the last evaluation was over."""
        group = algorithm.eval_env_runner_group
        if "evaluation" in self._settings.sections and group is not None:
            begin = functools.partial(begin_round, name=self._name)
            with self._guard("the evaluation's start"):
                compat.call_env_runners(group, begin, timeout_of(algorithm))

    def on_evaluate_end(self, *, algorithm: Any, evaluation_metrics: dict[str, Any], **kwargs: Any) -> None:
        """Put the chosen episodes of this evaluation into its result, and what its own function returned."""
        for name, value in self._returned.items():
            evaluation_metrics.setdefault(name, value)
        self._returned.clear()
        group = algorithm.eval_env_runner_group
        if "evaluation" in self._settings.sections and group is not None:
            iteration = algorithm.iteration + 1  # counted up afterwards
            self._put(
                "evaluation", evaluation_metrics, lambda: collect(algorithm, group, self._settings.plan, iteration)
            )

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """Put the chosen episodes of this training iteration into its result."""
        group = algorithm.env_runner_group
        if "train" not in self._settings.sections or group is None:
            return
        iteration = result["training_iteration"]
        if compat.is_asynchronous(algorithm) and compat.remote_env_runners(group):
            self._put("train", result, lambda: self._coming.collect(algorithm, group, iteration))
        else:
            self._put("train", result, lambda: collect(algorithm, group, self._settings.plan, iteration))

    def _put(self, section: str, result: dict[str, Any], collect_round: Callable[[], Collected]) -> None:
        with self._guard("the collection of this round's episodes"):
            collected = collect_round()
            env_runners = result.setdefault(ENV_RUNNERS, {})
            if collected.chosen:
                env_runners.setdefault(self._name, {}).update(collected.chosen)
            batch = collected.chosen.get(DATA)
            means = self._window.means(section, batch.counted() if batch else ())
            if collected.metrics or means:
                metrics = env_runners.setdefault("custom_metrics", {})
                known = {} if self._settings.plan.sees_all else dict(metrics)  # of all episodes, on the old API stack
                metrics.update(collected.metrics | means | known)

    @contextlib.contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        """Turn a fault in the Algorithm into a warning: training goes on."""
        try:
            yield
        except Exception as error:
            if self._settings.plan.strict:
                raise
            logger.warning("record_episodes %r: %s failed: %r", self._name, what, error)

    def _recording(self, env_runner: Any) -> Recording | None:
        """Return what this env runner records, or None where it is not to record."""
        if _section(env_runner) not in self._settings.sections:
            return None
        allowed = self._settings.env_runners
        if allowed is not None and compat.env_runner_index(env_runner) not in allowed:
            return None
        recordings = RECORDINGS.setdefault(env_runner, {})
        recording = recordings.get(self._name)
        if recording is None:
            recording = recordings[self._name] = Recording(EpisodeRecorder(self._settings.plan), self)
        if recording.owner is not self:
            if not self._is_told_of_its_double:
                self._is_told_of_its_double = True
                logger.warning(
                    "record_episodes: two recorders are named %r, and only the first records; give one of them "
                    "another name=.",
                    self._name,
                )
            return None
        return recording

    def _renderer(self, recording: Recording, env: Any) -> Renderer | None:
        """Return the renderer of the env, made anew where the env is a new one; None where it cannot be rendered."""
        if recording.renderer is None or recording.renderer.env is not env:
            try:
                recording.renderer = Renderer(env, self._settings.frame)
            except ValueError as error:
                if self._settings.plan.strict:
                    raise
                recording.recorder.report("the renderer", str(error))
                return None
        return recording.renderer

    def _give_seeds(self, recording: Recording, env_runner: Any, env: Any, index: int | None = None) -> None:
        """Have the sub-envs of an evaluation env runner take their seeds: all, or the only one that is handed in."""
        if not self._settings.seeds or _section(env_runner) != "evaluation":
            return
        reachable = sub_envs(env)
        if not reachable:
            recording.recorder.report(
                "seeds=",
                f"they cannot reach the sub-envs of {describe(env)}, which are in other processes or in one batch; "
                "wrap each env in tune_media.gym.FixedSeeds where it is made",
            )
        runners = max(1, env_runner.config.num_env_runners)
        runner = max(0, compat.env_runner_index(env_runner) - 1)
        count = max(1, env_runner.config.num_envs_per_env_runner)
        for place, inner in enumerate(reachable, start=index or 0):
            if seeded(inner) is None:  # two recorders in one list share the seeds of the first
                own = share(self._settings.seeds, runner, runners, place, count)
                recording.seeds.append(SeededResets(inner, own))

    def _wanted(self, env_index: int) -> bool:
        return self._settings.env_indices is None or env_index in self._settings.env_indices


def values_of(episode: Any) -> dict[str, Any]:
    """Return a dict of an episode, for hooks of yours to put values into that belong in its record and its data.

        def on_episode_end(self, *, episode, **kwargs):
            tune_media.rllib.values_of(episode)["shots"] = 3

    Numbers become metrics of the episode; text, arrays and what else JSON has are kept with it; pictures (``Image``,
    uint8 arrays HW or HWC, matplotlib figures, PIL images) and files (``Artifact``) of the chosen episodes are logged.

    Args:
        episode: The episode as RLlib hands it to callbacks, on either API stack.
    """
    fields: dict[str, Any] = compat.free_fields(episode).setdefault(_OWN_VALUES, {})
    return fields


def _own_fields(fields: compat.EpisodeFields, values: EpisodeValues) -> None:
    """Take in what users' hooks have put into an episode: ours, and the old API stack's custom fields."""
    for name, value in fields.free.get(_OWN_VALUES, {}).items():
        values.add(Named(str(name), value, Rule(value, FINAL)))
    for name, value in fields.custom_metrics.items():
        values.add(Named(str(name), value, Rule(value, FINAL)))
    for name, found in fields.hist_data.items():
        for value in found:
            values.add(Named(str(name), value, Rule(value, SERIES)))
    for name, value in fields.media.items():
        values.add_whole(str(name), value)


def _section(env_runner: Any) -> str:
    return "evaluation" if compat.in_evaluation(env_runner) else "train"


def _task(env: Any) -> Any:
    """Return what a curriculum env says its task is, as text where it is no plain value."""
    for candidate in inside(env):
        if hasattr(type(candidate), "get_task"):
            try:
                task = candidate.get_task()
            except NotImplementedError:  # an env that only sets its task
                return None
            return task if isinstance(task, (bool, int, float, str)) else str(task)
    return None
