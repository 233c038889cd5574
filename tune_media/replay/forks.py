"""Runs one play of a tape in a fork of the process that renders."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TypeVar

from tune_media.replay.player import RenderError, ReplayDiffers
from tune_media.values.secrets import error_text

T = TypeVar("T")


def may_fork() -> bool:
    """Return whether a fork can draw: not if importing MuJoCo has opened a display of the GPU by EGL."""
    return "egl" not in (os.environ.get("MUJOCO_GL"), os.environ.get("PYOPENGL_PLATFORM"))


def in_fork(play: Callable[[], T]) -> T:
    """Return what a play in a fork returns. Raises ReplayDiffers, RenderError (also if it died), else RuntimeError."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as answer:
                result: T | Exception
                try:
                    result = play()
                except (ReplayDiffers, RenderError) as error:
                    result = error
                except Exception as error:
                    result = RuntimeError(error_text(error))
                pickle.dump(result, answer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        content = answer.read()
    os.waitpid(child, 0)
    if not content:
        raise RenderError("the process that plays the tape died", has_died=True)
    outcome: T | Exception = pickle.loads(content)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
