"""Options that users pass to recorders and logger callbacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from tune_media.values.checks import (
    FLAG,
    SECONDS,
    a_count,
    a_function,
    above_0,
    as_shown,
    between,
    check_each,
    did_you_mean,
    one_of,
    suggests_names,
)
from tune_media.values.problems import argument

_PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
OVERLAYS = ("step", "reward", "return", "action", "curve")
"""The values that can be drawn into the frames of recorded episodes, besides the text of a function."""

_MOST_PIXELS, _MOST_FPS = 16384, 1000  # of H.264; more would be a mistake


@suggests_names
@dataclass(frozen=True)
class VideoOptions:
    """How episodes become clips.

    Attributes:
        fps: Frames per second if every frame is kept. None: the env's own ``metadata["render_fps"]``, or 30 if it has
            none.
        height: Height to scale to, pixels. None: as rendered, or in proportion to ``width``.
        width: Width to scale to, pixels. None: as rendered, or in proportion to ``height``.
        crf: x264's constant rate factor, 0 (lossless) to 51 (worst).
        preset: x264's speed preset.
        max_frames: The longest clip, frames that are kept; a longer one is cut, and its note says so. None: no limit.
        overlay: Drawn into the frames of recorded episodes, one item or several: ``"step"``, ``"reward"``,
            ``"return"``, ``"action"``, ``"curve"`` (of the return), or a function that takes a ``steps.StepFacts`` and
            returns text. It is called while the episode runs, at the steps whose frames are kept.
        every: Keep every n-th frame, counted from the reset frame, and the final frame. The clip has ``fps / every``
            frames per second, and lasts as long as with all frames. Frames that are not kept are not rendered.

    Raises:
        TypeError: A size, speed or quality that is not a number.
        ValueError: A value that no clip can have.

    Example:
        >>> VideoOptions(width=96, height=64, overlay="step").overlay
        ('step',)
        >>> VideoOptions(crf=99)
        Traceback (most recent call last):
        ValueError: VideoOptions(crf=...) takes a number from 0 to 51, got 99.
    """

    fps: float | None = None
    height: int | None = None
    width: int | None = None
    crf: int = 23
    preset: str = "veryfast"
    max_frames: int | None = None
    overlay: Any = ()
    every: int = 1

    def __post_init__(self) -> None:
        is_single = isinstance(self.overlay, str) or callable(self.overlay)
        if not is_single and not isinstance(self.overlay, Iterable):
            got = as_shown(self.overlay)
            raise TypeError(f"VideoOptions(overlay=...) takes a name, a function, or several, got {got}.")
        object.__setattr__(self, "overlay", (self.overlay,) if is_single else tuple(self.overlay))
        for part in self.overlay:
            if callable(part):
                a_function("the step").check("VideoOptions(overlay=...)", part)
            elif part not in OVERLAYS:
                hint = did_you_mean(part, OVERLAYS, "the names are")
                raise ValueError(
                    argument("VideoOptions(overlay=...)")
                    + f" takes names and functions of the step, got {as_shown(part)}; "
                    + hint
                )
        check_each("VideoOptions", vars(self), _OF_VIDEO)

    def encoder_keywords(self) -> dict[str, Any]:
        """Return the options as keywords of ``encoding.VideoEncoder``, without ``fps``, ``every`` and ``overlay``."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("fps", "every", "overlay")}


@suggests_names
@dataclass(frozen=True)
class MediaOptions:
    """How the logger callbacks of one experiment handle media. All of them must get the same options.

    Attributes:
        raw_fps: Frames per second of raw arrays, which do not carry any.
        gif_width: TensorBoard's GIFs are scaled down to this width, pixels.
        gif_fps: The most frames per second in TensorBoard's GIFs; they play at the clip's own speed.
        max_pending_bytes: How many bytes of raw arrays may wait in memory until they are encoded. Raw arrays that come
            later wait on the driver's disk.
        max_spilled_bytes: How many bytes of clips and other contents may wait in the outbox on the driver's disk, for
            the storage and all trackers together. Beyond that, the tracker that is furthest behind loses its oldest
            data first; if only the storage is behind, new media are dropped. Both are counted.
        flush_seconds: How long the end of an experiment waits, in all, for clips, trackers and the storage.
        strict: Raise at the first fault instead of warning. For tests.

    Raises:
        ValueError: A number that is not positive.
        TypeError: An option of the wrong type.

    Example:
        >>> MediaOptions(gif_width=160).gif_width
        160
        >>> MediaOptions(gif_fps=0)
        Traceback (most recent call last):
        ValueError: MediaOptions(gif_fps=...) takes a number above 0 (at most 1000), got 0.
    """

    raw_fps: float = 30.0
    gif_width: int = 320
    gif_fps: float = 15.0
    max_pending_bytes: int = 512 * 2**20
    max_spilled_bytes: int = 16 * 2**30
    flush_seconds: float = 120.0
    strict: bool = False

    def __post_init__(self) -> None:
        check_each("MediaOptions", vars(self), _OF_MEDIA)


_PIXELS = above_0(_MOST_PIXELS, whole=True)
_OF_VIDEO = {
    "fps": above_0(_MOST_FPS, or_none=True, example="fps=30"),
    "height": replace(_PIXELS, or_none=True),
    "width": replace(_PIXELS, or_none=True),
    "max_frames": above_0(whole=True, or_none=True),
    "every": a_count("a whole number above 0", example="every=4, which keeps every fourth frame"),
    "crf": between(0, 51),
    "preset": one_of(*_PRESETS),
}
_OF_MEDIA = {
    "raw_fps": above_0(_MOST_FPS),
    "gif_width": _PIXELS,
    "gif_fps": above_0(_MOST_FPS),
    "max_pending_bytes": above_0(whole=True),
    "max_spilled_bytes": above_0(whole=True),
    "flush_seconds": SECONDS,
    "strict": FLAG,
}
