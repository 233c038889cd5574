"""Encodes a clip as its frames arrive, or holds them until it is known whether anybody wants it.

Everything happens in memory, one frame at a time. There is no list of raw frames, so an episode costs the few megabytes
of the encoder, however long it runs. An env can reuse its frame buffer as soon as ``feed`` returns.
"""

from __future__ import annotations

import enum
import logging
import math
import numbers
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, SupportsIndex

import av
import numpy as np
import numpy.typing as npt
from typing_extensions import override

from tune_media.encoding.codecs import add_stream, options_of, working_codec
from tune_media.encoding.frames import Frame, as_rgb, every_nth, target_size
from tune_media.encoding.held_frames import HeldFrames
from tune_media.encoding.memory_file import MemoryFile

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

logger = logging.getLogger(__name__)

_BYTES, _BYTES_PER_PIXEL, _LEAN_BYTES_PER_PIXEL = 2 * 2**20, 120, 30
"""The memory of an open encoder (x264, ``veryfast``): 23 to 34 MB at 600 x 400, 3 MB at 84 x 84, and lean 7 MB at
600 x 400; measured."""


SAME = "the same"
"""What the frames of a still are that has a picture on it."""


@dataclass(frozen=True)
class EncodedVideo:
    """A finished mp4 and its properties.

    Attributes:
        data: The mp4 file. Its index is in front, so that it starts to play before all of it has arrived.
        width: Pixels, even: a frame with an odd width is padded by its last column.
        height: Pixels, even: a frame with an odd height is padded by its last row.
        codec: FFmpeg's name of the encoder.
        note: A remark for the viewer, for example that the clip was cut, or None.
        still: What all its frames are, if it has several: ``black``, ``of one colour``, or ``the same``. None: they
            differ.
        frame_stride: Env steps from one frame to the next; the final frame of an episode may follow sooner. None: not
            known.
        compared: What of a replay was compared with the episode that it shows. None: it is no replay.
        recipe_hash: The hash of the recipe of the env in which the episode was replayed.
    """

    data: bytes
    width: int
    height: int
    frames: int
    fps: float
    codec: str
    note: str | None = None
    frame_stride: int | None = None
    compared: str | None = None
    recipe_hash: str | None = None
    still: str | None = None


class _State(enum.Enum):
    READY = "ready"
    OPEN = "open"
    ENDED = "ended"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class VideoEncoder:
    """Encodes one clip: call ``feed`` for each frame, then ``finish`` or ``cancel``.

    An encoder belongs to the thread that feeds it. One that is dropped is cancelled.

    Args:
        fps: Frames per second of the clip, positive.
        height: Height to scale to, pixels. None: as rendered, or in proportion to ``width``.
        width: Width to scale to, pixels. None: as rendered, or in proportion to ``height``.
        crf: Constant rate factor of x264 and VP9; lower is better and larger.
        preset: x264's speed preset, from ``ultrafast`` to ``veryslow``.
        max_frames: Frames after which the clip is cut, with a note that says so. None: never.
        keyframes_every: Every how many frames there is one that can be decoded alone. None: as the encoder likes.
        is_lean: Whether x264 looks at one frame at a time. It takes a third of the memory and two thirds of the time
            then, and its files are 15 to 45 % larger.
        holds: Whether the frames are held until ``finish``, which encodes them (not leanly: one clip at a time): a clip
            that is cancelled costs a tenth then. Frames that take more memory than an encoder, that would keep
            ``finish`` for seconds, or that compress badly, are encoded as they arrive.

    Attributes:
        frame_stride: Env steps from one frame to the next, for ``EncodedVideo``. None: not known.

    Raises:
        TypeError: ``fps`` is not a number.
        ValueError: ``fps`` is not positive and finite.

    Example:
        >>> encoder = VideoEncoder(fps=30)
        >>> for step in range(5):
        ...     encoder.feed(np.full((48, 64, 3), 40 * step, np.uint8))
        >>> encoder.finish().frames
        5
    """

    def __init__(
        self,
        fps: float,
        *,
        height: int | None = None,
        width: int | None = None,
        crf: int = 23,
        preset: str = "veryfast",
        max_frames: int | None = None,
        keyframes_every: int | None = None,
        is_lean: bool = False,
        holds: bool = False,
    ) -> None:
        self.fps = _checked_fps(fps)
        self.frame_stride: int | None = None
        self._height, self._width = height, width
        self._crf, self._preset, self._max_frames = crf, preset, max_frames
        self._keyframes_every, self._is_lean, self._holds = keyframes_every, is_lean, holds
        self._held: HeldFrames | None = None
        self._state = _State.READY
        self._frames = 0
        self._notes: list[str] = []
        self._source_shape: tuple[int, ...] = ()
        self._first: Frame | None = None  # kept only until a frame differs from it
        self._file = MemoryFile()
        self._container: OutputContainer | None = None
        self._stream: VideoStream | None = None
        self._close: weakref.finalize[..., VideoEncoder] | None = None

    @property
    def frames(self) -> int:
        """Number of frames so far."""
        return self._frames

    @property
    def nbytes(self) -> int:
        """The memory that it takes until it is finished, roughly."""
        if self._held is not None:
            return self._held.nbytes + (0 if self._first is None else self._first.nbytes)
        return 0 if self._stream is None else self._encoder_bytes() + self._file.tell()

    def _encoder_bytes(self) -> int:
        width, height = self._size()
        return _BYTES + (_LEAN_BYTES_PER_PIXEL if self._is_lean else _BYTES_PER_PIXEL) * width * height

    @property
    def still(self) -> str | None:
        """What all frames so far are, if there are several; see ``EncodedVideo``."""
        return None if self._first is None or self._frames < 2 else look_of(self._first)

    def feed(self, frame: npt.ArrayLike, undrawn: npt.ArrayLike | None = None) -> None:
        """Encode or hold one frame. The array can be reused afterwards.

        Args:
            frame: Height x width x channels (RGB or RGBA), or height x width (grey); uint8.
            undrawn: The frame before anything was drawn into it, which tells whether the clip is a still. None: the
                frame is that.

        Raises:
            ValueError: The array is not a picture.
            RuntimeError: The clip is finished or cancelled.
        """
        if self._state not in (_State.READY, _State.OPEN):
            raise RuntimeError(f"This clip is {self._state.value}: start a new VideoEncoder for more frames.")
        if self._max_frames is not None and self._frames >= self._max_frames:
            self.cut()
            return
        rgb = as_rgb(frame)
        seen = rgb if undrawn is None else as_rgb(undrawn)
        if self._state is _State.READY:
            self._begin(rgb)
            self._first = seen.copy()
        elif rgb.shape != self._source_shape:
            self.add_note("the frame size changed during the episode; later frames were scaled to the first one's")
        if self._first is not None and not np.array_equal(seen, self._first):
            self._first = None
        if self._held is not None and (rgb.shape != self._source_shape or self._held.are_full):
            self._encode_held()
        if self._held is not None:
            self._held.add(rgb)
        else:
            self._mux(self._picture(rgb, self._frames))
        self._frames += 1

    def cut(self, why: str = "max_frames") -> None:
        """Note that the frames after this point are left out."""
        self.add_note(f"cut after {self._frames} frames ({why})")

    def add_note(self, text: str) -> None:
        """Add a remark for the viewer, once."""
        if text not in self._notes:
            self._notes.append(text)

    def end(self) -> bool:
        """End the clip, if all its frames are held, and return whether they are: then only ``finish`` encodes them.

        They take little memory from now on, and the encoder can be copied.
        """
        if self._held is None:
            return False
        self._held.end()
        self._state = _State.ENDED
        return True

    def finish(self) -> EncodedVideo:
        """Close the clip and return it.

        Raises:
            ValueError: No frame was fed.
            RuntimeError: The clip was finished or cancelled before.
        """
        if self._state is _State.READY:
            raise ValueError("A clip needs at least one frame, and none was fed.")
        if self._state not in (_State.OPEN, _State.ENDED):
            raise RuntimeError(f"This clip is already {self._state.value}.")
        if self._held is not None:
            self._is_lean = False
            self._encode_held()
        assert self._container is not None and self._stream is not None
        self._mux(None)
        self._container.close()
        self._state = _State.FINISHED
        still = self.still
        if still is not None:
            self.add_note(f"a still: all frames are {still}")
        video = EncodedVideo(
            data=self._file.getvalue(),
            width=self._stream.width,
            height=self._stream.height,
            frames=self._frames,
            fps=self.fps,
            codec=self._stream.codec_context.name,
            note="; ".join(self._notes) or None,
            frame_stride=self.frame_stride,
            still=still,
        )
        self._release()
        return video

    def cancel(self) -> None:
        """Drop the clip and free its memory. Does nothing if the clip is already over."""
        if self._close is not None:
            self._close()
        self._state = _State.CANCELLED
        self._release()

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self._held is not None:
            return super().__reduce_ex__(protocol)
        raise TypeError(
            f"A VideoEncoder cannot be pickled or copied, since FFmpeg holds its state (this clip is "
            f"{self._state.value}, {self._frames} frames). Call finish() and pass on the EncodedVideo."
        )

    def _begin(self, first: Frame) -> None:
        self._source_shape = first.shape
        working_codec()  # raises if there is none, before anything is held
        if self._holds:
            self._held = HeldFrames(first, self._encoder_bytes())
        else:
            self._open()
        self._state = _State.OPEN

    def _size(self) -> tuple[int, int]:
        return target_size(self._source_shape[1], self._source_shape[0], self._width, self._height)

    def _open(self) -> None:
        codec = working_codec()
        self._container = av.open(
            self._file, "w", format="mp4", options={"movflags": "+faststart"}, io_open=self._file.reopen
        )
        # With PyAV before 17.1, an open file that the garbage collector frees is a crash, and at Python's end a hang.
        self._close = weakref.finalize(self, _close_cancelled, self._container)
        rate = Fraction(self.fps).limit_denominator(10_000)
        options = options_of(codec, self._crf, self._preset, is_lean=self._is_lean)
        self._stream = add_stream(self._container, codec, rate, self._size(), options)
        if self._keyframes_every is not None:
            self._stream.codec_context.gop_size = self._keyframes_every

    def _encode_held(self) -> None:
        """Encode what is held, and from now on each frame as it arrives."""
        assert self._held is not None
        self._open()
        held, self._held = self._held, None
        for number, rgb in enumerate(held.drain()):
            self._mux(self._picture(rgb, number))

    def _picture(self, rgb: Frame, number: int) -> av.VideoFrame:
        assert self._stream is not None
        width, height = self._stream.width, self._stream.height
        if self._width is None and self._height is None and rgb.shape == self._source_shape:
            pad_rows, pad_columns = height - rgb.shape[0], width - rgb.shape[1]
            if pad_rows or pad_columns:
                rgb = np.pad(rgb, ((0, pad_rows), (0, pad_columns), (0, 0)), mode="edge")
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24")
        if (picture.width, picture.height) != (width, height):
            picture = picture.reformat(width=width, height=height, format="yuv420p", interpolation="AREA")
        picture.pts = number
        return picture

    def _mux(self, picture: av.VideoFrame | None) -> None:
        assert self._container is not None and self._stream is not None
        for packet in self._stream.encode(picture):
            self._container.mux(packet)

    def _release(self) -> None:
        if self._close is not None:
            self._close.detach()
        self._container = self._stream = self._first = self._held = None
        self._file = MemoryFile()


def _close_cancelled(container: OutputContainer) -> None:
    try:
        container.close()
    except Exception:  # a half-written file may fail to close; it is dropped in any case
        logger.debug("closing a cancelled clip failed", exc_info=True)


def look_of(still: Frame) -> str:
    """Return what all frames of a still are.

    >>> look_of(np.full((2, 2, 3), 255, np.uint8))
    'of one colour'
    """
    if (still != still[0, 0]).any():
        return SAME
    return "of one colour" if still.any() else "black"


def _checked_fps(fps: Any) -> float:
    if not isinstance(fps, numbers.Real) or isinstance(fps, bool):
        raise TypeError(f"fps= takes a number of frames per second, for example fps=30, got {fps!r}.")
    if not 0 < float(fps) < math.inf:
        raise ValueError(f"fps must be positive, for example fps=30, got {fps!r}.")
    return float(fps)


def encode_video(frames: Iterable[npt.ArrayLike], fps: float, *, every: int = 1, **options: Any) -> EncodedVideo:
    """Encode a clip from an array, a list or a generator of frames.

    Args:
        frames: Pictures as ``VideoEncoder.feed`` accepts them.
        fps: Frames per second if every frame is kept.
        every: Keep every n-th frame and the last one, at ``fps / every`` frames per second.
        **options: Keywords of ``VideoEncoder``.

    Raises:
        ValueError: There is no frame, or one of them is not a picture.

    Example:
        >>> encode_video(np.zeros((5, 400, 600, 3), np.uint8), fps=30, height=64).width
        96
    """
    encoder = VideoEncoder(_checked_fps(fps) / every, **options)
    try:
        for frame in every_nth(frames, every):
            encoder.feed(frame)
        return encoder.finish()
    except BaseException:
        encoder.cancel()
        raise
