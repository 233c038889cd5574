"""Finds clips that show nothing: all their frames are black, of one colour, or the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

from tune_media.encoding.encoder import SAME, EncodedVideo, VideoEncoder

SHOWS_NOTHING = "a clip shows nothing"  # the beginning of a problem about such a clip, before the reason
_STILLS_IN_A_ROW = 3  # an agent that stands before a wall moves in another episode


class Stills:
    """Reports why clips of one env show nothing; if they show a still agent, only if the first clips all do."""

    def __init__(self, report: Callable[[str], object]) -> None:
        self._report = report
        self._has_moved, self._in_a_row = False, 0

    def look(self, clips: Iterable[EncodedVideo | VideoEncoder]) -> None:
        """Report those of some ended clips that show nothing."""
        for clip in clips:
            self._has_moved |= clip.still is None and clip.frames > 1
            self._in_a_row += clip.still == SAME
            may_be_right = clip.still == SAME and (self._has_moved or self._in_a_row < _STILLS_IN_A_ROW)
            if clip.still is not None and not may_be_right:
                self._report(reason_of(clip.still))


def reason_of(still: str) -> str:
    """Return why clips show nothing, with the remedy; ``still`` is as of ``EncodedVideo``."""
    if still == SAME:
        return "all frames of each of the first clips are the same: render() may return an old picture"
    if os.environ.get("SDL_VIDEODRIVER") == "dummy":
        remedy = (
            "SDL_VIDEODRIVER=dummy is set, with which some envs (highway-env) draw nothing: unset it before Ray is "
        )
        remedy += "started, or set it to offscreen"
    elif "mujoco" in sys.modules and "MUJOCO_GL" not in os.environ:
        remedy = "set MUJOCO_GL=egl or osmesa before Ray is started"
    else:
        remedy = "look at its pictures, and at what it needs to draw: tune-media doctor"
    return f"every frame is {still}, as if render() drew nothing; {remedy}"
