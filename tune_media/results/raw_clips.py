"""Recognises clips that people report as raw arrays, and encodes them."""

from __future__ import annotations

import threading
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c
from typing_extensions import override

from tune_media.values.medium import Medium
from tune_media.values.plain import pack, unpack
from tune_media.values.video import Video

CHANNELS = (1, 3, 4)
MIN_PIXELS = 4

_EITHER = "TCHW or THWC"
MIN_FLOAT_PIXELS = 16  # small float arrays are more often tables of numbers, or of probabilities
_NEARLY_ONE = 1.001  # floats in 0..1, but for rounding
_LEAST_BRIGHTEST = 16  # floats in 0..255 whose largest value is lower would be a black clip

_BLOCK_BYTES = 2**16  # each has a checksum: one of all would be the same for two clips once in 2**32


class RawLayout(NamedTuple):
    """How a raw clip lies in its array."""

    axes: str  # ``TCHW`` or ``THWC``
    value_range: float  # full brightness: 255 or 1


class RawVideo(Medium):
    """A clip that came as an array. It is encoded when its content is asked for.

    The storage thread and the display thread may both ask; a lock lets one of them encode.

    >>> medium = RawVideo(np.zeros((4, 3, 16, 24), np.uint8), RawLayout("TCHW", 255), fps=10, id="a" * 32)
    >>> medium.facts()
    {'format': 'mp4', 'width': 24, 'height': 16, 'frames': 4, 'fps': 10.0}
    """

    kind: ClassVar[str] = "video"
    suffix = ".mp4"

    def __init__(
        self,
        frames: npt.NDArray[Any],
        layout: RawLayout,
        fps: float,
        id: str,
        may_repeat: str | None = None,
    ) -> None:
        self.id = id
        self.may_repeat = may_repeat
        self.layout = layout
        self.frames = frames
        self._nbytes = int(frames.nbytes)
        self._fps = fps
        self._video: Video | None = None
        self._lock = threading.Lock()

    @property
    @override
    def nbytes(self) -> int:
        return self._nbytes

    @property
    @override
    def note(self) -> str | None:  # type: ignore[override]
        return self._encoded().note

    @override
    def content(self) -> bytes:
        return self._encoded().data

    @override
    def facts(self) -> dict[str, Any]:
        return self._encoded().facts()

    def packed(self) -> bytes:
        """Return the array and all that it takes to encode it, as plain data."""
        return pack([self.frames, tuple(self.layout), self._fps, self.id])

    @classmethod
    def unpacked(cls, data: bytes) -> RawVideo:
        """Return the clip that ``packed`` wrote."""
        frames, layout, fps, id = unpack(data)
        return cls(frames, RawLayout(*layout), fps, id)

    def made(self) -> Video:
        """Return the encoded clip, with the same id."""
        video = self._encoded()
        video._set(id=self.id)
        return video

    def _encoded(self) -> Video:
        with self._lock:
            if self._video is None:
                frames: Any = self.frames
                if self.layout.value_range == 255 and frames.dtype != np.uint8:
                    frames = (frame.astype(np.uint8) for frame in frames)
                self._video = Video(frames, self._fps, layout=self.layout.axes, value_range=self.layout.value_range)
                del self.frames  # the array may be large
            return self._video


def id_parts_of(clip: npt.NDArray[Any]) -> tuple[bytes, bytes]:
    """Return what a clip's id is made of: the CRC-32C of each block of its bytes, and its shape.

    Tune's loop makes the id: 100 MB take some 10 ms.

    >>> clip = np.zeros((200, 100, 150, 3), np.uint8)
    >>> tuple(map(len, id_parts_of(clip)))
    (552, 18)
    """
    pixels = np.ascontiguousarray(clip).reshape(-1).view(np.uint8).data
    checks = [crc32c(pixels[start : start + _BLOCK_BYTES]) for start in range(0, len(pixels), _BLOCK_BYTES)]
    return np.array(checks, "<u4").tobytes(), repr(clip.shape).encode()


def raw_layout(value: Any) -> RawLayout | None:
    """Return the layout of a raw clip, or None if the value is something else.

    Several clips are (N, T, C, H, W) or (N, T, H, W, C), one is (T, H, W, C). One with its channels first is taken for
    a batch of pictures, as Ray's TensorBoard logger takes it. Pixels are uint8, whole numbers in 0..255 (of several
    clips only), or floats in 0..1 or 0..255. An array with negative numbers is no clip, nor are floats whose brightest
    value is between 1 and 16: ``advice`` says what to report instead.

    >>> raw_layout(np.zeros((1, 50, 3, 64, 96), np.uint8))
    RawLayout(axes='TCHW', value_range=255)
    >>> raw_layout(np.zeros((50, 64, 96, 3), np.uint8))
    RawLayout(axes='THWC', value_range=255)
    >>> raw_layout(np.full((1, 50, 64, 96, 3), -1.0)) is None
    True
    """
    axes = _axes(value)
    if axes is None or (value.ndim == 4 and (axes != "THWC" or value.dtype.kind not in "uf")):
        return None
    if value.dtype == np.uint8:
        return RawLayout(axes, 255)
    brightest = _brightest(value)
    if brightest is None:
        return None
    if value.dtype.kind != "f":
        return RawLayout(axes, 255) if value.ndim == 5 else None
    if value.ndim == 4:  # a clip in colour, or a table of numbers
        is_picture = value.shape[3] == 3 and min(value.shape[1:3]) >= MIN_FLOAT_PIXELS
        if not is_picture or (brightest <= _NEARLY_ONE and are_probabilities(value)):
            return None
    if brightest <= _NEARLY_ONE:
        return RawLayout(axes, 1)
    return RawLayout(axes, 255) if brightest >= _LEAST_BRIGHTEST else None


def advice(value: Any) -> str | None:
    """Return what to report instead of an array that looks like a clip, but cannot be told to be one; else None.

    >>> advice(np.full((20, 64, 96, 3), 200))
    'an array of shape (20, 64, 96, 3) may be a clip, but its pixels are int64; report tune_media.Video(frames) with \
uint8 frames'
    >>> advice(np.zeros(5)) is None
    True
    """
    axes = _axes(value)
    if axes is None or (axes == "TCHW" and value.ndim == 4):
        return None
    brightest, sides = _brightest(value), value.shape[-2:] if axes == "TCHW" else value.shape[-3:-1]
    if brightest is None:
        return None
    if axes == _EITHER:
        why = "its channels may come first or last; report tune_media.Video(frames, layout='THWC') or 'TCHW'"
    elif value.dtype.kind == "i":
        why = f"its pixels are {value.dtype}; report tune_media.Video(frames) with uint8 frames"
    elif value.dtype.kind == "f" and _NEARLY_ONE < brightest < _LEAST_BRIGHTEST and min(sides) >= MIN_FLOAT_PIXELS:
        why = (
            f"its floats are in 0..{brightest:.4g}, neither in 0..1 nor in 0..255; scale them and report "
            "tune_media.Video(frames, value_range=1.0) for 0..1, or uint8 frames"
        )
    else:
        return None
    return f"an array of shape {value.shape} may be a clip, but {why}"


def are_probabilities(values: npt.NDArray[Any]) -> bool:
    """Return whether the values add up to 1 along an axis that is longer than 1."""
    return any(
        bool(np.allclose(values.sum(axis=axis), 1, atol=1e-4)) for axis in range(values.ndim) if values.shape[axis] > 1
    )


def _axes(value: Any) -> str | None:
    """Return the meaning of the axes of an array that may be one clip or several; None if it is neither."""
    if not isinstance(value, np.ndarray) or value.ndim not in (4, 5) or 0 in value.shape:
        return None
    if value.dtype.kind not in "uif":
        return None
    _, *first, last = value.shape[-4:]
    is_first = first[0] in CHANNELS and min(first[1], last) >= MIN_PIXELS
    is_last = last in CHANNELS and min(first) >= MIN_PIXELS
    if is_first and is_last and value.ndim == 4:
        return _EITHER
    return "TCHW" if is_first else "THWC" if is_last else None


def _brightest(value: npt.NDArray[Any]) -> float | None:
    """Return the largest value of an array if all may be pixels; None if they are not in 0..255."""
    low, high = float(value.min()), float(value.max())
    return high if low >= 0 and high <= 255 else None
