"""Where a frame comes from: from any env, its wrappers, or one sub-env of a vector env, however it is vectorised."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

FrameFunction = Callable[[Any], Any]
"""Told an env, returns its current frame, HWC uint8."""

DEFAULT_FPS = 30.0
_OWN_ENTROPY = 2**63  # a generator that nobody seeded states 128 random bits


class FrameSource:
    """Renders one sub-env of a (vector) env.

    Args:
        env: A single env or a vector env.
        index: Index of the sub-env; 0 for a single env.
        frame: Called with the sub-env instead of its ``render()``. None: ``render()``.

    Raises:
        ValueError: ``frame`` needs the sub-env itself, and it lives in another process.
    """

    def __init__(self, env: Any, index: int, frame: FrameFunction | None = None) -> None:
        self._env, self._index, self._frame = env, index, frame
        self._sub_env = sub_env(env, index)
        if frame is not None and self._sub_env is None:
            raise ValueError(
                f"frame= is called with the sub-env, which env runner code cannot reach in {describe(env)}; "
                "vectorise with gym_env_vectorize_mode='sync', or render in the env itself."
            )

    def __call__(self) -> Any:
        """Return the current frame.

        Raises:
            ValueError: There is none; the message names the remedy.
        """
        if self._frame is not None:
            picture = self._frame(self._sub_env)
        elif self._sub_env is not None:
            picture = self._sub_env.render()
        else:
            picture = _vector_frame(self._env, self._index)
        if picture is None:
            raise ValueError(
                f"env {describe(self._env)} returned None from render(); create it with render_mode='rgb_array', "
                "for example .environment(env_config={'render_mode': 'rgb_array'})"
            )
        if isinstance(picture, (list, tuple)):
            raise ValueError(
                f"env {describe(self._env)} returned a {type(picture).__name__} from render(); create it with "
                "render_mode='rgb_array', not 'rgb_array_list'"
            )
        return picture

    @property
    def fps(self) -> float:
        """Frames per second that the env's metadata state, else 30."""
        metadata = getattr(self._sub_env if self._sub_env is not None else self._env, "metadata", None) or {}
        fps = metadata.get("render_fps")
        return float(fps) if isinstance(fps, (int, float)) and fps > 0 and math.isfinite(fps) else DEFAULT_FPS

    @property
    def reset_seed(self) -> int | None:
        """The seed that the sub-env's generator was last given, where it tells."""
        seed = getattr(getattr(self._sub_env, "unwrapped", None), "np_random_seed", None)
        return int(seed) if isinstance(seed, (int, np.integer)) and 0 <= seed < _OWN_ENTROPY else None


def sub_env(env: Any, index: int) -> Any | None:
    """Return the sub-env with this index, or None where it is out of reach (another process, one batched env)."""
    base = getattr(env, "unwrapped", env)
    envs = getattr(base, "envs", None)
    if envs is not None:
        return envs[index]
    return None if hasattr(base, "num_envs") else env


def describe(env: Any) -> str:
    """Name an env as its user would."""
    base = getattr(env, "unwrapped", env)
    inner = sub_env(env, 0)
    if inner is not None:
        base = getattr(inner, "unwrapped", inner)
    spec = getattr(base, "spec", None)
    name = getattr(spec, "id", None)
    return repr(type(base).__name__ if name is None or name.startswith("rllib-") else name)


def _vector_frame(env: Any, index: int) -> Any:
    """Return one sub-env's frame of a vector env that only renders as a whole."""
    base = getattr(env, "unwrapped", env)
    pictures = base.call("render") if hasattr(base, "call") else base.render()
    if isinstance(pictures, (list, tuple)):
        return pictures[index]
    array = np.asarray(pictures)
    return array[index] if array.ndim == 4 else pictures
