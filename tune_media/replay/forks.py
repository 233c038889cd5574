"""Runs one play of a tape in a fork of the process that renders."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

from tune_media.recording.pictures import Pictures
from tune_media.replay.player import RenderError, ReplayDiffers
from tune_media.values.secrets import error_text


def may_fork() -> bool:
    """Return whether a fork can draw: not if importing MuJoCo has opened a display of the GPU by EGL."""
    return "egl" not in (os.environ.get("MUJOCO_GL"), os.environ.get("PYOPENGL_PLATFORM"))


def in_fork(play: Callable[[], Pictures]) -> Pictures:
    """Return the frames of a play in a fork of this process.

    Raises:
        ReplayDiffers, RenderError: As ``play``.
        RuntimeError: ``play`` raised something else, or the process died.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as answer:
                pickle.dump(_outcome(play), answer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        content = answer.read()
    os.waitpid(child, 0)
    if not content:
        raise RenderError("the process that plays the tape died", has_died=True)
    kind, value = pickle.loads(content)
    if kind == "frames":
        frames: Pictures = value
        return frames
    if kind == "differs":
        raise ReplayDiffers(*value, is_told=True)
    if kind == "render":
        text, step, is_of_env = value
        raise RenderError(text, step, is_of_env=is_of_env)
    raise RuntimeError(value)


def _outcome(play: Callable[[], Pictures]) -> tuple[str, Any]:
    try:
        return "frames", play()
    except ReplayDiffers as error:
        return "differs", (error.step, str(error))
    except RenderError as error:
        return "render", (str(error), error.step, error.is_of_env)
    except Exception as error:
        return "raised", error_text(error)
