"""``record_episodes``: checks the arguments of a recorder before anything starts, and makes its RLlib callback."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tune_media.recording.argument_checks import as_indices, as_seeds, check_recording
from tune_media.recording.plan import Plan
from tune_media.recording.rendering import ONLY_VIEW, FrameFunction
from tune_media.recording.success import Success
from tune_media.rllib.recorder_callback import EpisodeRecorderCallback
from tune_media.rllib.settings import RecorderSettings
from tune_media.selection import RenderBudget, Selector, Trigger, as_selectors
from tune_media.steps import Collect
from tune_media.values.calls import call_of, shows_call
from tune_media.values.checks import FLAG, a_count, a_text, as_shown, check_each, suggests_names
from tune_media.values.episode_record import AUTO
from tune_media.values.options import VideoOptions
from tune_media.values.sections import EVALUATION, TRAIN

if TYPE_CHECKING:
    from ray.rllib.callbacks.callbacks import RLlibCallback

_TAKES = {
    "name": a_text("'episodes'"),
    "window": a_count("a number of episodes", or_none=True),
    **dict.fromkeys(("trajectories", "strict", "check_frame", "tapes", "tiled"), FLAG),
}


@suggests_names
@shows_call
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
    render: str = AUTO,
    check_frame: bool = True,
    tapes: bool = False,
    success: Success | None = None,
    success_when: str | None = None,
    tiled: bool = False,
) -> Callable[[], RLlibCallback]:
    """Record episodes, and put the chosen ones into RLlib's result.

    The clips of an evaluation are at ``result["evaluation"]["env_runners"][name][selector]``, those of a training
    iteration at ``result["env_runners"][name][selector]``: a ``Video``, or a list of these if the selector may choose
    several. The data of all episodes are next to them, under ``data``. Their aggregates are at
    ``custom_metrics/<metric>_mean``, ``_min`` and ``_max`` of the section.

    Args:
        sections: ``"evaluation"``, ``"train"``, or both.
        keep: The episodes to keep of those that ended in one evaluation (or one training iteration), over all its env
            runners: ``"best"``, ``"worst"``, ``"median"``, ``"first"``, ``"last"``, ``"all"``, a selector such as
            ``tune_media.selection.best(3)``, or several of these.
        trigger: Decides which episodes are rendered: a function of the episode's index on its sub-env (0, 1, ...), or
            a ready one from ``tune_media.selection``. Of the others only the data are kept. None: all are rendered.
        video: Size, speed and quality of the clips. None: records of the episodes, without frames.
        frame: The source of frames instead of the sub-env's ``render()``: a function of the sub-env that returns HWC
            uint8, the name of one of its methods (which also reaches sub-envs in other processes), or a dict of these
            by view. A function may also return a dict of frames, for example by agent. Each view becomes a clip.
        collect: The values to take from each step of all episodes: a function of a ``steps.StepFacts`` that returns
            values by name; paths inside ``info`` such as ``"data/speed"``; or a dict of paths, functions, and
            ``tune_media.steps.running(...)`` and ``final(...)`` by name. Values are numbers, vectors, text, pictures,
            and nested dicts of these. The mean, sum, least, largest and last of a running number over an episode are
            in its record's ``metrics``, as ``<name>_avg``, ``_sum``, ``_min``, ``_max`` and ``_last``, and selectors
            may choose ``by`` them. ``info["data"]["running"]``, ``info["data"]["final"]`` and ``info["media"]`` are
            always taken, unless this is False.
        env_runners: Indices of the env runners that record; 0 is the local one. None: all.
        env_indices: Indices of the sub-envs that are recorded. None: all.
        name: The key of the clips in the result, on disk and in the trackers.
        seeds: Seeds for the resets of the evaluation envs, used in turn, from the first at the start of every
            evaluation, and shared out over all env runners and sub-envs. A number n stands for 0, ..., n-1; there are
            at most 100,000. With the same seeds in every trial, clips can be compared. The sub-envs must be in the env
            runner's own process; otherwise wrap each env in ``tune_media.gym.FixedSeeds``.
        window: The number of last episodes whose custom metrics are also averaged, as ``<metric>_windowed_mean``.
            None: there are only the means over the episodes of the round.
        trajectories: Whether to keep observations, actions, rewards and infos of the chosen episodes, as Parquet. They
            are the env's own: a replay gives the same episode.
        strict: Raise when an episode cannot be recorded, instead of warning once. For tests.
        render: When frames are rendered. ``"direct"``: while an episode runs. ``"auto"``: episodes are put on tape, and
            the clips of the chosen ones are made of their tapes by another process, beside training. The first rounds
            are recorded directly, until that process has shown the same pictures again. Later, a few frames of an
            episode are rendered while it runs, and a clip is made only if the replay shows the same. If the env does
            not repeat its episodes, all are recorded directly, which is said once.
            ``"replay"``: tapes from the first round on, for env runners that cannot render; no frame is compared.
        check_frame: Whether another process makes an env, resets it and renders one frame when training starts, once
            in an experiment, so that an env that cannot be recorded is reported early.
        tapes: Whether each episode keeps its tape if it is rendered directly: the data to play it again and to check
            that it is the same one, a few bytes a step. ``tune-media render`` makes clips of tapes, of any
            episode, later and elsewhere. With ``"auto"`` and ``"replay"``, episodes have tapes as long as these are
            used.
        success: The name of a boolean, 0 or 1 in the infos of an episode's steps, such as ``"data/solved"``, or a
            function of its ``EpisodeRecord``, that says whether it succeeded. None: ``info["success"]`` or
            ``info["is_success"]``, if there is one, and unless ``collect`` is False. The rate is at
            ``custom_metrics/success_rate`` of the section, the ends of its 95 % interval (Wilson's) beside it.
        success_when: ``"end"``: the info of its last step decides. ``"once"``: an episode is a success if one of its
            steps was. None: ``"end"``; if ``success`` is a function, nothing else can be passed. Both are in the
            record, as ``success_at_end`` and ``success_once``.
        tiled: Whether the clips that ``keep`` chooses, two to four, become one more, ``tiled``: side by side and in
            step, each with its return, for trackers. It is no episode, so no viewer ranks or counts it. It is made
            beside training when they are stored, and dropped, which is counted, if rendering is slower than recording.

    Returns:
        A callback for ``AlgorithmConfig.callbacks``, which takes it alone or in a list.

    Raises:
        ValueError: An argument cannot work. It is raised here, before anything is started.
        TypeError: An argument is of the wrong type.

    Example:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> config = PPOConfig().callbacks(record_episodes(keep=("best", "worst")))
        >>> record_episodes(sections="eval")
        Traceback (most recent call last):
        ...
        ValueError: record_episodes(sections=...) takes 'evaluation', 'train' or both, got 'eval'.
    """
    chosen_sections = _as_sections(sections)
    flags = {"trajectories": trajectories, "strict": strict, "check_frame": check_frame, "tapes": tapes, "tiled": tiled}
    check_each("record_episodes", {"name": name, "window": window, **flags}, _TAKES)
    if not re.fullmatch(r"[\w.-]{1,60}", name) or not name.strip("."):
        raise ValueError(
            "record_episodes(name=...) takes letters, digits, '_', '-' and '.', at most 60, and not only dots, got "
            f"{name!r}."
        )
    check_recording(trigger, video, frame)
    if seeds is not None and EVALUATION not in chosen_sections:
        raise ValueError("record_episodes(seeds=...) is for evaluation episodes, and sections= leaves these out.")
    settings = RecorderSettings(
        plan=Plan(
            name,
            as_selectors(keep),
            trigger,
            video,
            collect,
            trajectories,
            sees_all=env_runners is None and env_indices is None and not (collect is False and trigger),
            strict=strict,
            render=render,
            tapes=tapes,
            views=tuple(frame) if isinstance(frame, Mapping) else (ONLY_VIEW,),
            success=success,
            success_when=success_when,
            tiled=tiled,
        ),
        sections=chosen_sections,
        frame=frame,
        env_runners=as_indices("env_runners", env_runners),
        env_indices=as_indices("env_indices", env_indices),
        seeds=as_seeds(seeds),
        window=window,
        check_frame=check_frame,
    )
    return EpisodeRecorder(EpisodeRecorderCallback, settings)


def _is_not_for_tune(*args: Any, **info: Any) -> None:
    """Refuse to be a callback of Tune, which calls ``setup`` of what it is given first. Raises TypeError."""
    raise TypeError(
        "record_episodes(...) is a callback of RLlib, not of Tune: pass it to config.callbacks(...), and pass "
        "tune_media.JsonMediaLoggerCallback() or another logger to tune.RunConfig(callbacks=[...])."
    )


class EpisodeRecorder(functools.partial[EpisodeRecorderCallback]):
    """The callback that ``record_episodes`` returns; RLlib calls it once for each env runner.

    If it is passed where it cannot work, its error says where it belongs.
    """

    records_episodes = True  # by this, the logger callbacks know it without importing RLlib
    setup = _is_not_for_tune

    def __repr__(self) -> str:
        return call_of(self) or super().__repr__()

    def __call__(self, *args: Any, **hooked: Any) -> EpisodeRecorderCallback:
        """Make a callback, as RLlib has it done, without arguments; with those of a hook, say where it belongs."""
        if args or hooked:
            raise TypeError(
                "record_episodes(...) needs several hooks of RLlib and cannot be the function of one, such as "
                "config.callbacks(on_train_result=...): pass it without a name, as "
                "config.callbacks(tune_media.rllib.record_episodes(...))."
            )
        return super().__call__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):  # RLlib called record_episodes and took its result for the callback
            raise AttributeError(
                "config.callbacks(record_episodes) passes the function itself; call it: "
                "config.callbacks(tune_media.rllib.record_episodes())"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


record_episodes.setup = _is_not_for_tune  # type: ignore[attr-defined]


def _as_sections(sections: str | Iterable[str]) -> tuple[str, ...]:
    chosen = (sections,) if isinstance(sections, str) or not isinstance(sections, Iterable) else tuple(sections)
    if not chosen or any(section not in (EVALUATION, TRAIN) for section in chosen):
        got = as_shown(sections)
        raise ValueError(f"record_episodes(sections=...) takes 'evaluation', 'train' or both, got {got}.")
    return chosen
