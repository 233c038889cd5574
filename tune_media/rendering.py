"""Where a frame comes from: from any env, its wrappers, or one sub-env of a vector env, however it is vectorised.

Some envs can only be rendered through the vector env they are in (sub-envs in other processes, natively vectorised
envs): all their frames are made by one call, which is made at most once a vector step.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

FrameFunction = Callable[[Any], Any]
"""Told an env, returns its current frame (HWC uint8), or several as a dict by name."""

Frames = dict[str, Any]
"""The current frames of one env by the name of their view; the name of the only view is the empty string."""

DEFAULT_FPS = 30.0
_VECTOR_CLASSES = frozenset({"VectorEnv", "VectorMultiAgentEnv"})  # Gymnasium's and RLlib's, neither imported here
ONLY_VIEW = ""
_MAX_WRAPPERS = 64
_OWN_ENTROPY = 2**63  # a generator that nobody seeded states 128 random bits


class Renderer:
    """Renders the sub-envs of one env.

    Args:
        env: A single env or a vector env.
        frame: What to take instead of ``env.render()``: a function of the sub-env; the name of one of its methods,
            which also reaches sub-envs in other processes; or a dict of these, one for each view. None: ``render()``.

    Raises:
        ValueError: ``frame`` is a function and the sub-envs are out of reach.
    """

    def __init__(self, env: Any, frame: FrameFunction | str | Mapping[str, FrameFunction | str] | None = None) -> None:
        self.env = env
        views = frame if isinstance(frame, Mapping) else {ONLY_VIEW: "render" if frame is None else frame}
        if not views:
            raise ValueError("frame= is an empty dict: name at least one view, or leave it out for env.render().")
        self._views: dict[str, FrameFunction | str] = dict(views)
        self._whole: dict[str, Any] = {}  # by method: all frames of this vector step
        self._depth: dict[str, int] = {}  # by method: how far inside the sub-envs' wrappers it has been found to work
        self._asked: int | None = None  # the sub-env that was asked for last
        if any(not isinstance(view, str) for view in self._views.values()) and sub_env(env, 0) is None:
            raise ValueError(
                f"frame= is a function of the sub-env, and those of {describe(env)} are in other processes or in one "
                "batch. Give it the name of a method of the env, as in frame='render_topdown', or vectorise with "
                "gym_env_vectorize_mode='sync'."
            )

    def frames(self, index: int) -> Frames:
        """Return the current frames of a sub-env.

        Raises:
            ValueError: There is none; the message names the remedy.
        """
        frames: Frames = {}
        for name, view in self._views.items():
            picture = self._picture(view, index)
            if isinstance(picture, Mapping):  # one call gave several: a frame for each agent, say
                frames |= {f"{name}/{key}".strip("/"): self._checked(value) for key, value in picture.items()}
            else:
                frames[name] = self._checked(picture)
        return frames

    def at(self, index: int) -> None:
        """Say which sub-env is being stepped; when they start over, a new vector step has been made."""
        if self._asked is None or index <= self._asked:
            self.new_step()
        self._asked = index

    def new_step(self) -> None:
        """Say that the env has been stepped or reset: frames that were made before are old."""
        self._whole.clear()
        self._asked = None

    def fps(self, index: int) -> float:
        """Frames per second that the env's metadata state, else 30."""
        reachable = sub_env(self.env, index)
        for env in inside(self.env if reachable is None else reachable):
            fps = (getattr(env, "metadata", None) or {}).get("render_fps")
            if isinstance(fps, numbers.Real) and 0 < float(fps) < math.inf:
                return float(fps)
        return DEFAULT_FPS

    def _picture(self, view: FrameFunction | str, index: int) -> Any:
        reachable = sub_env(self.env, index)
        if not isinstance(view, str):
            return view(reachable)
        if reachable is not None:
            return self._call(reachable, view)
        if view not in self._whole:
            self._whole[view] = _call_whole(self.env, view)
        pictures = self._whole[view]
        if isinstance(pictures, (list, tuple)):
            return pictures[index] if index < len(pictures) else None
        array = np.asarray(pictures)
        return array[index] if array.ndim == 4 else pictures

    def _call(self, env: Any, method: str) -> Any:
        """Call a method of an env, or of the first env inside it that has it and takes the call.

        RLlib's PettingZoo wrappers pass a render mode to envs that take none, and not every wrapper passes methods on.
        Which one it is, is found out once: what it raises later is its own.
        """
        envs = list(inside(env))
        if method in self._depth:
            return getattr(envs[self._depth[method]], method)()
        failure: Exception | None = None
        for depth, candidate in enumerate(envs):
            function = getattr(candidate, method, None)
            if function is None:
                continue
            try:
                picture = function()
            except (TypeError, AttributeError, NotImplementedError) as error:
                failure = failure or error
                continue
            if picture is not None:
                self._depth[method] = depth
                return picture
        if failure is not None:
            raise failure
        if not any(hasattr(candidate, method) for candidate in envs):
            raise ValueError(f"frame={method!r} is no method of env {describe(self.env)}")
        return None

    def _checked(self, picture: Any) -> Any:
        if picture is None:
            raise ValueError(
                f"env {describe(self.env)} returned None from render(); create it with render_mode='rgb_array', "
                "for example .environment(env_config={'render_mode': 'rgb_array'})"
            )
        if isinstance(picture, (list, tuple, str)):
            raise ValueError(
                f"env {describe(self.env)} returned a {type(picture).__name__} from render(); create it with "
                "render_mode='rgb_array', so that it returns one frame, height x width x 3, uint8"
            )
        return picture


def sub_env(env: Any, index: int) -> Any | None:
    """Return the sub-env with this index, or None where it is out of reach (another process, one batched env)."""
    envs = sub_envs(env)
    return envs[index] if index < len(envs) else None


def sub_envs(env: Any) -> list[Any]:
    """Return all sub-envs that are in reach; those of a single env are itself."""
    if hasattr(env, "get_sub_environments") and not hasattr(env, "reset"):  # the old API stack's BaseEnv
        return list(env.get_sub_environments())
    base = getattr(env, "unwrapped", env)
    if _VECTOR_CLASSES.isdisjoint(ancestor.__name__ for ancestor in type(base).__mro__):
        return [env]
    return list(getattr(base, "envs", None) or ())


def describe(env: Any) -> str:
    """Name an env as its user would."""
    inner = sub_env(env, 0)
    base = getattr(env if inner is None else inner, "unwrapped", env)
    name = getattr(getattr(base, "spec", None), "id", None)
    return repr(type(base).__name__ if name is None or name.startswith("rllib-") else name)


def reset_seed(env: Any) -> int | None:
    """Return the seed that an env's generator was last given, where it tells."""
    seed = getattr(getattr(env, "unwrapped", None), "np_random_seed", None)
    return int(seed) if isinstance(seed, (int, np.integer)) and 0 <= seed < _OWN_ENTROPY else None


def inside(env: Any) -> Iterator[Any]:
    """Yield an env and, one after the other, the envs that it wraps."""
    for _ in range(_MAX_WRAPPERS):
        yield env
        inner = getattr(env, "par_env", None) or getattr(env, "env", None)
        if inner is None or inner is env:
            return
        env = inner


def _call_whole(env: Any, method: str) -> Any:
    base = getattr(env, "unwrapped", env)
    return base.call(method) if hasattr(base, "call") else getattr(base, method)()
