"""Recognises clips that people report as raw arrays, and encodes them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from tune_media.values.content_hash import ContentHash
from tune_media.values.medium import Medium
from tune_media.values.plain import pack, unpack
from tune_media.values.video import Video

CHANNELS = (1, 3, 4)
MIN_PIXELS = 4

_BLOCKS, _BLOCK_BYTES = 1024, 1024  # of a large clip: 1 MiB in all


class RawLayout(NamedTuple):
    """How a raw clip lies in its array.

    Attributes:
        axes: ``TCHW`` or ``THWC``.
        value_range: The number that means full brightness: 255 or 1.
    """

    axes: str
    value_range: float


class RawVideo(Medium):
    """A clip that came as an array. It is encoded when its content is asked for.

    Threads: the storage thread and the display thread may both ask; a lock lets one of them encode.

    >>> medium = RawVideo(np.zeros((4, 3, 16, 24), np.uint8), RawLayout("TCHW", 255), fps=10, id="a" * 32)
    >>> medium.facts()
    {'format': 'mp4', 'width': 24, 'height': 16, 'frames': 4, 'fps': 10.0}

    Args:
        frames: The frames, with four axes.
        layout: The meaning of the axes.
        fps: Frames per second.
        id: The medium's unique id.
        may_repeat: First digits of the id that it may repeat. None: it is new.
        is_told_by_round: Whether the result says that the clip is repeated or new, so that its look is proof enough.
    """

    kind: ClassVar[str] = "video"

    def __init__(
        self,
        frames: npt.NDArray[Any],
        layout: RawLayout,
        fps: float,
        id: str,
        may_repeat: str | None = None,
        *,
        is_told_by_round: bool = False,
    ) -> None:
        self.id = id
        self.may_repeat = may_repeat
        self.content_hash = self._hash = ContentHash(frames)
        self.is_told_by_round = is_told_by_round
        self.layout = layout
        self.frames = frames
        self._nbytes = int(frames.nbytes)
        self._fps = fps
        self._video: Video | None = None
        self._lock = threading.Lock()

    @property
    @override
    def suffix(self) -> str:
        return ".mp4"

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
                self._hash.value()  # while the pixels are here
                frames: Any = self.frames
                if self.layout.value_range == 255 and frames.dtype != np.uint8:
                    frames = (frame.astype(np.uint8) for frame in frames)
                self._video = Video(frames, self._fps, layout=self.layout.axes, value_range=self.layout.value_range)
                del self.frames  # the array may be large
            return self._video


def look_of(clip: npt.NDArray[Any]) -> Sequence[bytes | memoryview]:
    """Return what a clip's id is made of: its shape and pixels; of a large clip, blocks of pixels all over it.

    Tune's loop makes the id, and reading all pixels of a large clip would hold it. Clips that look different are
    different. ``ContentHash`` tells clips that look the same apart.

    >>> clip = np.zeros((200, 100, 150, 3), np.uint8)
    >>> sum(map(len, look_of(clip))) < 1_100_000 < clip.nbytes
    True
    """
    pixels = np.ascontiguousarray(clip).reshape(-1).view(np.uint8)
    shape = repr(clip.shape).encode()
    if pixels.size <= 2 * _BLOCKS * _BLOCK_BYTES:
        return pixels.data, shape
    stride = pixels.size // _BLOCKS
    number = np.arange(_BLOCKS)
    shift = number * 2_654_435_761 % (stride - _BLOCK_BYTES)  # else all blocks may be at the same place of a frame
    blocks = np.lib.stride_tricks.sliding_window_view(pixels, _BLOCK_BYTES)[number * stride + shift]
    return blocks.tobytes(), pixels[-_BLOCK_BYTES:].data, shape


def raw_layout(value: Any) -> RawLayout | None:
    """Return the layout of a raw clip (N, T, C, H, W) or (N, T, H, W, C), or None if the value is something else.

    Pixels are uint8, whole numbers in 0..255, or floats in 0..1 or 0..255. An array with negative numbers is no clip.

    >>> raw_layout(np.zeros((1, 50, 3, 64, 96), np.uint8))
    RawLayout(axes='TCHW', value_range=255)
    >>> raw_layout(np.full((1, 50, 64, 96, 3), -1.0)) is None
    True
    """
    if not isinstance(value, np.ndarray) or value.ndim != 5 or 0 in value.shape or value.dtype.kind not in "uif":
        return None
    if value.shape[2] in CHANNELS and min(value.shape[3:]) >= MIN_PIXELS:
        axes = "TCHW"
    elif value.shape[4] in CHANNELS and min(value.shape[2:4]) >= MIN_PIXELS:
        axes = "THWC"
    else:
        return None
    if value.dtype == np.uint8:
        return RawLayout(axes, 255)
    low, high = float(value.min()), float(value.max())
    if not (low >= 0 and high <= 255):
        return None
    return RawLayout(axes, 1 if value.dtype.kind == "f" and high <= 1 else 255)
