"""The arguments of ``RecordEpisodes`` as one value, checked before anything starts."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from tune_media.recording import rendering
from tune_media.recording.argument_checks import as_indices, check_recording
from tune_media.recording.plan import Plan
from tune_media.recording.rendering import FRAME_MODE, GYM_EXAMPLE, FrameSource
from tune_media.recording.success import Success
from tune_media.selection import RenderBudget, Selector, Trigger, as_selectors
from tune_media.steps import Collect
from tune_media.values import checks
from tune_media.values.episode_record import DIRECT, RENDERS
from tune_media.values.options import VideoOptions

_Given = ParamSpec("_Given")
_Wrapper = TypeVar("_Wrapper")
_Env = TypeVar("_Env")

StepTrigger = Callable[[int], bool]
"""Decides, by the number of steps so far (0, 1, ...), whether a clip starts after this step."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of both wrappers; see there. The first have the order of Gymnasium's ``RecordVideo``.

    Raises TypeError or ValueError, also for arguments that contradict each other.
    """

    video_folder: str | os.PathLike[str] | None = None
    episode_trigger: Trigger | RenderBudget | None = None
    step_trigger: StepTrigger | None = None
    video_length: int = 0
    name_prefix: str = "rl-video"
    fps: float | None = None
    disable_logger: bool = True
    gc_trigger: Trigger | None = None
    _: KW_ONLY
    keep: str | Selector | Iterable[str | Selector] = "last"
    video: VideoOptions | None = VideoOptions()  # noqa: RUF009 - frozen
    frame: FrameSource = None
    collect: Collect | None = None
    trajectories: bool = False
    env_indices: int | Iterable[int] | None = None
    buffer_length: int | None = 100
    statistics: bool = True
    strict: bool = False
    render: str = DIRECT
    env_fn: Callable[[], Any] | None = None
    success: Success | None = None
    success_when: str | None = None
    params: Mapping[str, Any] | None = None
    tiled: bool = False

    def __post_init__(self) -> None:
        check_recording(self.episode_trigger, self.video, self.frame)
        _check_types(self)
        if self.render != DIRECT:
            _check_replay(self)
        if self.fps is not None:
            object.__setattr__(self, "video", _with_fps(self.video, self.fps))
        if self.step_trigger is not None or self.video_length:
            _check_fixed_length(self)

    def given(self) -> dict[str, Any]:
        """Return the arguments by name."""
        return {argument.name: getattr(self, argument.name) for argument in fields(self)}

    @property
    def records_whole_episodes(self) -> bool:
        """Whether episodes become clips from the reset to the end; otherwise all clips are of another length."""
        return self.video_length == 0 and (self.step_trigger is None or self.episode_trigger is not None)

    @property
    def folder(self) -> Path | None:
        """The folder for clips, if there is one."""
        name = "RecordEpisodes(video_folder=...)"
        return None if self.video_folder is None else checks.local_path(name, self.video_folder)

    def plan(self) -> Plan:
        """Return the arguments that a recorder needs. Raises TypeError or ValueError."""
        first = (self.name_prefix, as_selectors(self.keep), self.episode_trigger)
        values = (self.video, self.collect, self.trajectories)
        how: dict[str, Any] = {"strict": self.strict, "render": self.render, "tiled": self.tiled}
        return Plan(*first, *values, success=self.success, success_when=self.success_when, **how)

    def indices(self, count: int) -> frozenset[int]:
        """Return the sub-envs to record. Raises ValueError for indices of others."""
        chosen = as_indices("env_indices", self.env_indices, count)
        return frozenset(range(count)) if chosen is None else chosen

    def check_env(self, env: Any) -> None:
        """Raise a ValueError, with the remedy, if clips are wanted and the env renders none or lacks a method."""
        for view in self.frame.values() if isinstance(self.frame, Mapping) else [self.frame]:
            reachable = rendering.sub_env(env, 0)
            if isinstance(view, str) and reachable is not None:
                rendering.check_method(rendering.describe(env), list(rendering.inside(reachable)), view)
        render_mode = getattr(env, "render_mode", None)
        lacks_mode = self.video is not None and self.frame is None and render_mode != FRAME_MODE
        if lacks_mode and not rendering.renders_inside(env):
            has = "no render_mode" if render_mode is None else f"render_mode={render_mode!r}"
            raise ValueError(
                f"RecordEpisodes: the env has {has}; create it with render_mode='rgb_array', for example "
                f"{GYM_EXAMPLE}, or pass frame=, or video=None to record statistics only."
            )


def _taking(
    arguments: Callable[_Given, Arguments],
) -> Callable[[Callable[[_Wrapper, _Env, Arguments], None]], Callable[Concatenate[_Wrapper, _Env, _Given], None]]:
    def decorated(
        init: Callable[[_Wrapper, _Env, Arguments], None],
    ) -> Callable[Concatenate[_Wrapper, _Env, _Given], None]:
        @functools.wraps(init)
        def checked(self: _Wrapper, env: _Env, *args: _Given.args, **kwargs: _Given.kwargs) -> None:
            checks.check_names(f"{type(self).__name__}.__init__", kwargs, of_arguments.parameters)
            try:
                of_arguments.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}.__init__() {error}") from None
            init(self, env, arguments(*args, **kwargs))

        of_init, of_arguments = inspect.signature(init), inspect.signature(arguments)
        first = list(of_init.parameters.values())[:2]
        shown = of_init.replace(parameters=[*first, *of_arguments.parameters.values()])
        checked.__signature__ = shown  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]  # Gymnasium passes env by its name, which no Callable can say

    return decorated


takes_arguments = _taking(Arguments)
"""Turns ``__init__(self, env, given: Arguments)`` into one that takes each of the ``Arguments`` by its name."""


def check_is_env(name: str, env: Any, kind: type) -> None:
    """Raise a TypeError that says how to make an env if a wrapper is given something else than this kind of env."""
    single = kind.__name__ == "Env"
    if isinstance(env, kind):
        if single and not _takes_seed(env):
            raise old_api(env)
        return
    if hasattr(env, "possible_agents"):
        raise TypeError(
            f"{name} takes an env of one agent, and {type(env).__name__} is a multi-agent env of PettingZoo. Train it "
            "with RLlib, where tune_media.rllib.record_episodes() records it, or wrap it as an env of one agent."
        )
    if any(base.__name__ == "VecEnv" for base in type(env).__mro__):  # Stable-Baselines3's, which is not imported here
        raise TypeError(
            f"{name} takes an env of Gymnasium's, and {type(env).__name__} is a vector env of Stable-Baselines3. Wrap "
            f"each env inside it: {type(env).__name__}([lambda: tune_media.gym.RecordEpisodes(make_env())] * 4)"
        )
    if single and not isinstance(env, type) and callable(getattr(env, "step", None)):
        raise old_api(env)
    remedy = "gymnasium.make(...)" if single else "gymnasium.make_vec(..., num_envs=4)"
    if not single and hasattr(env, "step"):
        remedy += "; tune_media.gym.RecordEpisodes takes a single env"
    raise TypeError(f"{name} takes an env, not its id or class, got {checks.as_shown(env)}; make it with {remedy}.")


def old_api(env: Any) -> TypeError:
    """Return the error of an env that is not one of Gymnasium's, or does not do as these do."""
    return TypeError(
        f"{rendering.describe(env)} is no env as Gymnasium has them, whose reset(seed=..., options=...) returns an "
        "observation and an info, and whose step(action) returns five values. If it is one of the old Gym, wrap it: "
        "gymnasium.make('GymV21Environment-v0', env=env), with the package shimmy."
    )


def _takes_seed(env: Any) -> bool:
    try:
        inspect.signature(env.reset).bind(seed=None, options=None)
    except TypeError:
        return False
    except ValueError:  # written in C
        return True
    return True


_TAKES = {
    "video_folder": checks.an_instance("a path", (str, os.PathLike)),
    "name_prefix": checks.a_text("'rl-video'"),
    "step_trigger": checks.a_function("the number of steps", or_none=True),
    "env_fn": checks.Takes(
        "a function that makes an env like this one", callable, or_none=True, example=f"env_fn=lambda: {GYM_EXAMPLE}"
    ),
    **dict.fromkeys(("trajectories", "statistics", "strict", "tiled"), checks.FLAG),
    "render": checks.one_of(*RENDERS),
    "video_length": checks.a_count("a number of frames, 0 for whole episodes", 0),
    "buffer_length": checks.a_count("a number of episodes", 0, or_none=True, example="100, or None for no limit"),
    "fps": checks.above_0(or_none=True, example="fps=30"),
    "params": checks.Takes(
        "hyperparameters by name", lambda value: isinstance(value, Mapping), or_none=True, example="params=vars(args)"
    ),
}


def _check_types(arguments: Arguments) -> None:
    checks.check_each("RecordEpisodes", vars(arguments), _TAKES)
    checks.check_encodes("RecordEpisodes(name_prefix=...)", arguments.name_prefix)
    if not {"/", "\\", "\0"}.isdisjoint(arguments.name_prefix):
        raise ValueError(
            f"RecordEpisodes(name_prefix=...) is part of a file name, got {arguments.name_prefix!r}; "
            "pass folders as video_folder=."
        )
    if arguments.params is not None and arguments.video_folder is None:
        raise ValueError(
            "RecordEpisodes(params=...) are kept in the video_folder: pass one, or leave params out in a trial of Tune."
        )


def _check_replay(arguments: Arguments) -> None:
    """Refuse a replay that cannot be."""
    if arguments.env_fn is None:
        raise TypeError(
            f"RecordEpisodes(render={arguments.render!r}) plays the chosen episodes again in another process: pass "
            f"env_fn=, a function that makes an env like this one, for example env_fn=lambda: {GYM_EXAMPLE}."
        )
    if arguments.video_folder is not None:
        raise ValueError(
            f"RecordEpisodes(render={arguments.render!r}) renders the episodes that take() chooses, and a video_folder "
            "gets all: leave one of them out."
        )


def _with_fps(video: VideoOptions | None, fps: Any) -> VideoOptions:
    if video is None:
        raise ValueError(
            f"RecordEpisodes(fps={fps!r}) is the speed of clips, and video=None wants none; leave one out."
        )
    if video.fps is not None and video.fps != fps:
        raise ValueError(f"RecordEpisodes has fps={fps!r} and video.fps={video.fps!r}; leave one of them out.")
    return replace(video, fps=float(fps))


def _check_fixed_length(arguments: Arguments) -> None:
    """Refuse the options that only clips of whole episodes can have."""
    if arguments.video_folder is None:
        raise ValueError("RecordEpisodes(step_trigger=..., video_length=...) writes files: pass a video_folder.")
    if isinstance(arguments.episode_trigger, RenderBudget):
        raise ValueError("RecordEpisodes: a RenderBudget is for whole episodes; leave video_length out.")
    if isinstance(arguments.frame, Mapping):
        raise ValueError("RecordEpisodes: several views are for whole episodes; leave video_length out.")
    if arguments.video is None:
        raise ValueError("RecordEpisodes(step_trigger=..., video_length=...) makes clips, and video=None wants none.")
    if arguments.video.overlay:
        raise ValueError("RecordEpisodes draws overlays into clips of whole episodes only; leave one of them out.")
    most = arguments.video.max_frames
    if most is not None and most < arguments.video_length:
        raise ValueError(f"VideoOptions(max_frames={most}) is less than video_length={arguments.video_length}.")
