"""Single pictures: checks, channels, layouts and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import av
import numpy as np
import numpy.typing as npt

Frame: TypeAlias = npt.NDArray[np.uint8]  # one picture: height x width x 3, uint8, RGB

LAYOUTS = ("THWC", "TCHW", "THW")
"""The supported orders of a clip's axes: T time, H height, W width, C channels. ``THW`` is greyscale."""


def as_rgb(frame: npt.ArrayLike) -> Frame:
    """Check one uint8 picture, HWC (1, 3 or 4 channels) or HW, and return it as HWC RGB. Raises ValueError."""
    array = np.asarray(frame)
    shape = array.shape
    if array.dtype != np.uint8:
        raise ValueError(
            f"A frame must be uint8 in 0..255, got {array.dtype} of shape {shape}. "
            "Convert floats in 0..1 with (255 * x).astype('uint8'); for a clip, you can pass value_range=1.0 to Video."
        )
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in shape:
        raise ValueError(
            f"A frame must be height x width x channels with 1, 3 or 4 channels, got shape {shape}. "
            "If channels come first, transpose it, or pass layout='TCHW' to Video."
        )
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array[:, :, :3]


def frames_in_layout(
    frames: Iterable[npt.ArrayLike], layout: str = "THWC", value_range: float = 255
) -> Iterator[npt.ArrayLike]:
    """Yield a clip's frames, time first, as ``VideoEncoder.feed`` takes them; ``value_range`` is full brightness."""
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}.")
    if not isinstance(value_range, (int, float)) or value_range not in (255, 1):
        raise ValueError(f"value_range must be 255 or 1.0, got {value_range!r}.")
    return _converted(frames, layout, value_range)


def _converted(frames: Iterable[npt.ArrayLike], layout: str, value_range: float) -> Iterator[npt.ArrayLike]:
    for frame in frames:
        array = np.asarray(frame)
        if layout == "TCHW":
            array = np.moveaxis(array, 0, -1)
        elif layout == "THW" and array.ndim != 2:
            raise ValueError(f"A frame of layout THW has two axes, got shape {array.shape}.")
        if value_range == 1:
            if array.dtype.kind in "iu" and array.max(initial=0) > 1:
                raise ValueError(
                    f"value_range=1.0 is for floats in 0..1, got {array.dtype} up to {array.max()}; leave it out."
                )
            array = np.rint(np.clip(np.nan_to_num(array), 0, 1) * 255).astype(np.uint8)
        yield array


def every_nth(frames: Iterable[npt.ArrayLike], every: int) -> Iterator[npt.ArrayLike]:
    """Yield every n-th picture, beginning with the first, and the last one."""
    skipped = None
    for number, frame in enumerate(frames):
        skipped = frame if number % every else None
        if skipped is None:
            yield frame
    if skipped is not None:
        yield skipped


def resize(frame: npt.ArrayLike, height: int, width: int) -> Frame:
    """Scale one picture to an exact size; each new pixel is the average of the area it covers. Raises ValueError."""
    picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(as_rgb(frame)), format="rgb24")
    scaled = picture.reformat(width=width, height=height, interpolation="AREA")
    return np.asarray(scaled.to_ndarray(format="rgb24"), np.uint8)


def target_size(
    source_width: int, source_height: int, width: int | None, height: int | None, *, keep_odd_sizes: bool = False
) -> tuple[int, int]:
    """Return a clip's width and height, pixels; a missing one is in proportion. H.264 needs even ones: rounded up.

    >>> target_size(600, 400, width=None, height=65)
    (98, 66)
    """
    if width is None and height is None:
        width, height = source_width, source_height
    elif width is None:
        assert height is not None
        width = max(1, round(source_width * height / source_height))
    elif height is None:
        height = max(1, round(source_height * width / source_width))
    assert width is not None and height is not None
    return (width, height) if keep_odd_sizes else (width + width % 2, height + height % 2)
