"""Encodes a clip as its frames arrive, or holds them until it is known whether it is wanted.

Everything happens in memory, one frame at a time; held frames are compressed (``held_frames``). An env can reuse its
frame buffer as soon as ``feed`` returns.
"""

from __future__ import annotations

import enum
import io
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

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

logger = logging.getLogger(__name__)

# the memory of an open encoder (x264, ``veryfast``), measured: 23 to 34 MB at 600 x 400, 3 MB at 84 x 84; lean 7 MB
_BYTES, _BYTES_PER_PIXEL, _LEAN_BYTES_PER_PIXEL = 2 * 2**20, 120, 30
_READ = 1  # FFmpeg's AVIO_FLAG_READ
SAME = "the same"  # the name for the frames of a still that has a picture on it


@dataclass(frozen=True)
class EncodedVideo:
    """A finished mp4, whose index is in front, so that it starts to play before all of it has arrived."""

    data: bytes
    width: int  # even: a frame with an odd width is padded by its last column
    height: int  # even: a frame with an odd height is padded by its last row
    frames: int
    fps: float
    codec: str  # FFmpeg's name of the encoder
    note: str | None = None  # for the viewer, for example that the clip was cut
    frame_stride: int | None = None  # env steps per frame; the final frame of an episode may follow sooner
    compared: str | None = None  # the part of a replay that was compared with its episode, or None if it is no replay
    recipe_hash: str | None = None  # of the env in which the episode was replayed
    still: str | None = None  # if all frames are ``black``, ``of one colour``, or ``the same``


class _State(enum.Enum):
    READY = "ready"
    OPEN = "open"
    ENDED = "ended"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class VideoEncoder:
    """Encodes one clip: call ``feed`` for each frame, then ``finish`` or ``cancel``. Raises TypeError or ValueError.

    It belongs to the thread that feeds it; one that is dropped is cancelled.
    ``keyframes_every``: every how many frames there is one that can be decoded alone, or None for the encoder's choice.
    ``is_lean``: x264 looks at one frame at a time: a third of the memory, two thirds of the time, 15 to 45 % larger
    files. ``holds``: frames are held until ``finish``, which encodes them (not leanly: one clip at a time), so that a
    cancelled clip costs a tenth. Frames that take more memory than an encoder, that would keep ``finish`` for seconds,
    or that compress badly, are encoded as they arrive.
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
        self.frame_stride: int | None = None  # env steps per frame, for ``EncodedVideo``
        self._height, self._width = height, width
        self._crf, self._preset, self._max_frames = crf, preset, max_frames
        self._keyframes_every, self._is_lean, self._holds = keyframes_every, is_lean, holds
        self._held: HeldFrames | None = None
        self._state = _State.READY
        self.frames = 0  # so far
        self._notes: list[str] = []
        self._source_shape: tuple[int, ...] = ()
        self._first: Frame | None = None  # kept only until a frame differs from it
        self._file = io.BytesIO()
        self._container: OutputContainer | None = None
        self._stream: VideoStream | None = None
        self._close: weakref.finalize[..., VideoEncoder] | None = None

    @property
    def nbytes(self) -> int:
        """The memory that it takes until it is finished, roughly."""
        if self._held is not None:
            return self._held.nbytes + (0 if self._first is None else self._first.nbytes)
        return 0 if self._stream is None else self._encoder_bytes() + self._file.tell()

    def _encoder_bytes(self) -> int:
        return _BYTES + (_LEAN_BYTES_PER_PIXEL if self._is_lean else _BYTES_PER_PIXEL) * math.prod(self._size())

    @property
    def still(self) -> str | None:
        """The one thing that all frames so far are, if there are several; see ``EncodedVideo``."""
        return None if self._first is None or self.frames < 2 else look_of(self._first)

    def feed(self, frame: npt.ArrayLike, undrawn: npt.ArrayLike | None = None) -> None:
        """Encode or hold one uint8 frame, HWC (RGB, RGBA) or HW (grey), whose array can be reused afterwards.

        ``undrawn`` is the frame before overlays, by which a still is known. Raises ValueError or RuntimeError.
        """
        if self._state not in (_State.READY, _State.OPEN):
            raise RuntimeError(f"This clip is {self._state.value}: start a new VideoEncoder for more frames.")
        if self._max_frames is not None and self.frames >= self._max_frames:
            self.cut()
            return
        rgb = as_rgb(frame)
        seen = rgb if undrawn is None else as_rgb(undrawn)
        if self._state is _State.READY:
            self._source_shape, self._first = rgb.shape, seen.copy()
            working_codec()  # raises if there is none, before anything is held
            if self._holds:
                self._held = HeldFrames(rgb, self._encoder_bytes())
            else:
                self._open()
            self._state = _State.OPEN
        elif rgb.shape != self._source_shape:
            self.add_note("the frame size changed during the episode; later frames were scaled to the first one's")
        if self._first is not None and not np.array_equal(seen, self._first):
            self._first = None
        if self._held is not None and (rgb.shape != self._source_shape or self._held.are_full):
            self._encode_held()
        if self._held is not None:
            self._held.add(rgb)
        else:
            self._mux(self._picture(rgb, self.frames))
        self.frames += 1

    def cut(self, why: str = "max_frames") -> None:
        """Note that the frames after this point are left out."""
        self.add_note(f"cut after {self.frames} frames ({why})")

    def add_note(self, text: str) -> None:
        """Add a remark for the viewer, once."""
        if text not in self._notes:
            self._notes.append(text)

    def end(self) -> bool:
        """End the clip; return whether its frames are held, which takes little memory until ``finish`` encodes them."""
        if self._held is None:
            return False
        self._held.end()
        self._state = _State.ENDED
        return True

    def finish(self) -> EncodedVideo:
        """Close the clip and return it. Raises ValueError or RuntimeError."""
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
        if (still := self.still) is not None:
            self.add_note(f"a still: all frames are {still}")
        width, height, codec = self._stream.width, self._stream.height, self._stream.codec_context.name
        note = "; ".join(self._notes) or None
        data = self._file.getvalue()
        video = EncodedVideo(
            data, width, height, self.frames, self.fps, codec, note, frame_stride=self.frame_stride, still=still
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
            f"{self._state.value}, {self.frames} frames). Call finish() and pass on the EncodedVideo."
        )

    def _size(self) -> tuple[int, int]:
        return target_size(self._source_shape[1], self._source_shape[0], self._width, self._height)

    def _open(self) -> None:
        codec, file = working_codec(), self._file
        self._container = av.open(
            file,
            "w",
            format="mp4",
            options={
                "movflags": "+faststart"
            },  # at the end, FFmpeg moves the index to the front of what it has written
            io_open=lambda url, flags, options: io.BytesIO(file.getvalue()) if flags == _READ else file,
        )
        # With PyAV before 17.1, an open file that the garbage collector frees is a crash, and at Python's end a hang.
        self._close = weakref.finalize(self, _close_cancelled, self._container)
        rate = Fraction(self.fps).limit_denominator(10_000)
        options = options_of(codec, self._crf, self._preset, is_lean=self._is_lean)
        self._stream = add_stream(self._container, codec, rate, self._size(), options)
        if self._keyframes_every is not None:
            self._stream.codec_context.gop_size = self._keyframes_every

    def _encode_held(self) -> None:
        """Encode the held frames, and from now on each frame as it arrives."""
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
        self._file = io.BytesIO()


def _close_cancelled(container: OutputContainer) -> None:
    try:
        container.close()
    except Exception:  # a half-written file may fail to close; it is dropped in any case
        logger.debug("closing a cancelled clip failed", exc_info=True)


def look_of(still: Frame) -> str:
    """Return a word for the frames of a still: black, of one colour, or the same."""
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
    """Encode every n-th frame and the last one, at ``fps / every`` frames per second. Raises ValueError."""
    encoder = VideoEncoder(_checked_fps(fps) / every, **options)
    try:
        for frame in every_nth(frames, every):
            encoder.feed(frame)
        return encoder.finish()
    except BaseException:
        encoder.cancel()
        raise
