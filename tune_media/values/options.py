"""Options that users pass to recorders and logger callbacks."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tune_media.values.checks import (
    as_shown,
    check_flag,
    check_positive,
    check_text,
    did_you_mean,
    is_number,
    suggests_names,
    takes_one,
)

_PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
OVERLAYS = ("step", "reward", "return", "action", "curve")
"""What can be drawn into the frames of recorded episodes, besides the text of a function."""

_MOST = {
    **dict.fromkeys(("height", "width", "gif_width"), 16384),  # pixels, of H.264
    **dict.fromkeys(("fps", "raw_fps", "gif_fps"), 1000),
    "renderers": 1000,  # each has a thread on the driver
}
_LEAST_RESOURCE = 0.0001  # that Ray takes


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
        overlay: What to draw into the frames of recorded episodes, one item or several: ``"step"``, ``"reward"``,
            ``"return"``, ``"action"``, ``"curve"`` (of the return), or a function that takes a ``steps.StepFacts`` and
            returns text.
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
        ValueError: VideoOptions(crf=...) must be in 0..51, got 99.
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
            if not callable(part) and part not in OVERLAYS:
                hint = did_you_mean(part, OVERLAYS, "the names are")
                raise ValueError(
                    f"VideoOptions(overlay=...) takes names and functions of the step, got {as_shown(part)}; {hint}"
                )
            if callable(part) and not takes_one(part):
                raise TypeError(
                    "VideoOptions(overlay=...) takes a function that is called with one argument, the step; "
                    f"{as_shown(part)} cannot be."
                )
        for name in ("fps", "height", "width", "max_frames"):
            value = getattr(self, name)
            check_positive(f"VideoOptions({name}=...)", value, whole=name != "fps", or_none=True, finite=True)
            most = _MOST.get(name, math.inf)
            if value is not None and value > most:
                raise ValueError(f"VideoOptions({name}=...) is at most {most}, got {value!r}.")
        if not isinstance(self.every, numbers.Integral) or isinstance(self.every, bool) or self.every < 1:
            kind = ValueError if is_number(self.every) else TypeError
            raise kind(
                "VideoOptions(every=...) must be a whole number of at least 1; every=4 keeps every fourth frame. "
                f"Got {self.every!r}."
            )
        if not is_number(self.crf):
            raise TypeError(f"VideoOptions(crf=...) takes a number, got {as_shown(self.crf)}.")
        if not 0 <= self.crf <= 51:
            raise ValueError(f"VideoOptions(crf=...) must be in 0..51, got {self.crf!r}.")
        if self.preset not in _PRESETS:
            raise ValueError(f"VideoOptions(preset=...) must be one of {', '.join(_PRESETS)}, got {self.preset!r}.")

    def encoder_keywords(self) -> dict[str, Any]:
        """Return the options as keywords of ``encoding.VideoEncoder``, without ``fps``, ``every`` and ``overlay``."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("fps", "every", "overlay")}


@suggests_names
@dataclass(frozen=True)
class Retention:
    """Which media files are kept. Episode data (``episode_data``) and metrics are always kept.

    ``last`` and ``best`` count within each key of a section (``evaluation``, ``episodes/best``). A file stays if either
    of them keeps it; if neither is given, all files stay. ``best`` alone never deletes a file that has no value of
    ``by``. Byte limits are applied afterwards: rolled-back files go first, then the oldest, and the files that ``best``
    keeps go last.

    Attributes:
        last: How many of the newest files of each key to keep.
        best: How many of the best files of each key to keep.
        by: The fact or metric of the episode that ``best`` compares.
        mode: ``"max"`` or ``"min"``.
        trial_bytes: The most bytes of media that a trial keeps.
        experiment_bytes: The most bytes of media that all trials keep together.

    Raises:
        ValueError: A value that makes no sense.
        TypeError: ``by`` is not text.

    Example:
        >>> Retention(last=20, best=5).by
        'episode_return'
        >>> Retention(last=0)
        Traceback (most recent call last):
        ValueError: Retention(last=...) must be a whole number above 0 or None, got 0.
    """

    last: int | None = None
    best: int | None = None
    by: str = "episode_return"
    mode: str = "max"
    trial_bytes: int | None = None
    experiment_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("last", "best", "trial_bytes", "experiment_bytes"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and value > 0):
                raise ValueError(
                    f"Retention({name}=...) must be a whole number above 0 or None, got {as_shown(value)}."
                )
        check_text("Retention(by=...)", self.by, "'episode_return'", or_none=False)
        if self.mode not in ("max", "min"):
            raise ValueError(f"Retention(mode=...) must be 'max' or 'min', got {self.mode!r}.")


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
        flush_seconds: How long the end of an experiment waits for writes that are still under way.
        strict: Raise at the first fault instead of warning. For tests.
        retention: Which media to keep. None: all.
        renderers: How many processes at most make clips of tapes at a time, each with an env of its own.
        renderer_resources: What each of them takes of the cluster's resources, such as ``{"num_gpus": 0.1}``; other
            names than ``num_cpus``, ``num_gpus`` and ``memory`` are custom resources. None: nothing.

    Raises:
        ValueError: A number that is not positive, or a resource that Ray refuses.
        TypeError: A retention that is not a ``Retention``, or an option of the wrong type.

    Example:
        >>> MediaOptions(retention=Retention(last=20)).retention.last
        20
        >>> MediaOptions(gif_fps=0)
        Traceback (most recent call last):
        ValueError: MediaOptions(gif_fps=...) must be positive, got 0.
    """

    raw_fps: float = 30.0
    gif_width: int = 320
    gif_fps: float = 15.0
    max_pending_bytes: int = 512 * 2**20
    max_spilled_bytes: int = 16 * 2**30
    flush_seconds: float = 120.0
    strict: bool = False
    retention: Retention | None = None
    renderers: int = 1
    renderer_resources: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.retention is not None and not isinstance(self.retention, Retention):
            got = as_shown(self.retention)
            raise TypeError(f"MediaOptions(retention=...) takes a tune_media.Retention(last=..., best=...), got {got}.")
        whole = ("gif_width", "max_pending_bytes", "max_spilled_bytes", "renderers")
        for name in ("raw_fps", "gif_fps", "flush_seconds", *whole):
            check_positive(f"MediaOptions({name}=...)", getattr(self, name), whole=name in whole)
            most = _MOST.get(name, math.inf)
            if getattr(self, name) > most:
                raise ValueError(f"MediaOptions({name}=...) is at most {most}, got {getattr(self, name)!r}.")
        if self.renderer_resources is not None:
            if not isinstance(self.renderer_resources, Mapping):
                got = as_shown(self.renderer_resources)
                raise TypeError(
                    f'MediaOptions(renderer_resources=...) takes a dict such as {{"num_gpus": 0.1}}, got {got}.'
                )
            for name, amount in self.renderer_resources.items():
                argument = f"MediaOptions(renderer_resources={{{name!r}: ...}})"
                check_text("MediaOptions(renderer_resources={...}), a name,", name, "'num_gpus'", or_none=False)
                if name in ("CPU", "GPU"):
                    raise ValueError(f"{argument} is called 'num_{name.lower()}s'.")
                check_positive(argument, amount)
                if not _LEAST_RESOURCE <= amount < math.inf:
                    raise ValueError(f"{argument} must be at least {_LEAST_RESOURCE}, and finite, got {amount!r}.")
        check_flag("MediaOptions(strict=...)", self.strict)
