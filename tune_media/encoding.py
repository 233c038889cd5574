"""Frames in, one small file out: the streaming video encoder, and PNG for single pictures.

Everything happens in memory and frame by frame. No list of frames exists anywhere, so an episode costs the encoder's
few megabytes however long it runs, and the frame that an env hands out may be overwritten as soon as ``feed`` returns.
"""

from __future__ import annotations

import enum
import functools
import io
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import av
    from av.container import OutputContainer
    from av.video.stream import VideoStream

logger = logging.getLogger(__name__)

Frame = npt.NDArray[np.uint8]
"""One picture, HWC uint8 with three channels (RGB)."""

LAYOUTS = ("THWC", "TCHW", "THW")
"""How the axes of a clip may be named: time, height, width, channels. ``THW`` is grey."""

_READ = 1  # AVIO_FLAG_READ

# Tried in this order; each plays inside an mp4. A build of FFmpeg may list a codec and still fail to open it.
_CODECS: dict[str, dict[str, str]] = {
    "libx264": {},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "b": "0"},
    "mpeg4": {"qscale": "3"},
}


@dataclass(frozen=True)
class EncodedVideo:
    """A finished mp4 and what is known of it.

    Attributes:
        data: The mp4 file, its index in front, so that it starts to play before all of it has arrived.
        width: Pixels, even: an odd size is padded by its last column.
        height: Pixels, even likewise.
        frames: Number of frames in the file.
        fps: Frames per second.
        codec: FFmpeg's name of the encoder.
        note: What a viewer should be told (a still, a cut clip), or None.
    """

    data: bytes
    width: int
    height: int
    frames: int
    fps: float
    codec: str
    note: str | None = None


class _State(enum.Enum):
    READY = "ready"
    OPEN = "open"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class VideoEncoder:
    """Encodes one clip as its frames come: feed, feed, ..., then finish or cancel.

    Args:
        fps: Frames per second of the clip, positive.
        height: Height to scale to, pixels. None: as rendered, or in proportion to ``width``.
        width: Width to scale to, pixels. None: as rendered, or in proportion to ``height``.
        crf: Constant rate factor of x264 and VP9; lower is better and larger.
        preset: x264's speed preset, from ``ultrafast`` to ``veryslow``.
        max_frames: Frames after which the clip is cut, and says so. None: never.

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
    ) -> None:
        if not fps > 0:
            raise ValueError(f"fps must be positive, got {fps!r}.")
        self.fps = float(fps)
        self._height, self._width = height, width
        self._crf, self._preset, self._max_frames = crf, preset, max_frames
        self._state = _State.READY
        self._frames = 0
        self._notes: list[str] = []
        self._source_shape: tuple[int, ...] = ()
        self._first: Frame | None = None  # kept only until a frame differs from it
        self._buffer = KeptBuffer()
        self._container: OutputContainer | None = None
        self._stream: VideoStream | None = None

    @property
    def frames(self) -> int:
        """Number of frames encoded so far."""
        return self._frames

    def feed(self, frame: npt.ArrayLike) -> None:
        """Encode one frame; the array may be reused afterwards.

        Args:
            frame: HWC uint8 (RGB or RGBA) or HW uint8 (grey).

        Raises:
            ValueError: The array is no picture of this kind.
            RuntimeError: The clip is finished or cancelled.
        """
        if self._state not in (_State.READY, _State.OPEN):
            raise RuntimeError(f"This clip is {self._state.value}: start a new VideoEncoder for more frames.")
        if self._max_frames is not None and self._frames >= self._max_frames:
            self.cut()
            return
        rgb = as_rgb(frame)
        if self._state is _State.READY:
            self._open(rgb)
        elif rgb.shape != self._source_shape:
            self.add_note("the frame size changed during the episode; later frames were scaled to the first one's")
        if self._first is not None and (rgb.shape != self._first.shape or not np.array_equal(rgb, self._first)):
            self._first = None
        self._mux(self._picture(rgb))
        self._frames += 1

    def cut(self) -> None:
        """Note that frames are left out from here on."""
        self.add_note(f"cut after {self._frames} frames (max_frames)")

    def add_note(self, text: str) -> None:
        """Add to what a viewer of the clip should be told."""
        if text not in self._notes:
            self._notes.append(text)

    def finish(self) -> EncodedVideo:
        """Close the clip and return it.

        Raises:
            ValueError: No frame was fed.
            RuntimeError: The clip was finished or cancelled before.
        """
        if self._state is _State.READY:
            raise ValueError("A clip needs at least one frame, and none was fed.")
        if self._state is not _State.OPEN:
            raise RuntimeError(f"This clip is already {self._state.value}.")
        assert self._container is not None and self._stream is not None
        self._mux(None)
        self._container.close()
        self._state = _State.FINISHED
        if self._first is not None and self._frames > 1:
            self.add_note("a still: all frames are the same")
        video = EncodedVideo(
            data=self._buffer.getvalue(),
            width=self._stream.width,
            height=self._stream.height,
            frames=self._frames,
            fps=self.fps,
            codec=self._stream.codec_context.name,
            note="; ".join(self._notes) or None,
        )
        self._release()
        return video

    def cancel(self) -> None:
        """Drop the clip and free its memory; harmless when it is over already."""
        if self._state is _State.OPEN and self._container is not None:
            try:
                self._container.close()
            except Exception:  # a half-written file may not close; it is dropped either way
                logger.debug("closing a cancelled clip failed", exc_info=True)
        self._state = _State.CANCELLED
        self._release()

    def _open(self, first: Frame) -> None:
        import av

        self._source_shape = first.shape
        self._first = first.copy()
        width, height = target_size(first.shape[1], first.shape[0], self._width, self._height)
        codec = working_codec()
        self._container = av.open(
            self._buffer, "w", format="mp4", options={"movflags": "+faststart"}, io_open=self._buffer.reopen
        )
        rate = Fraction(self.fps).limit_denominator(10_000)
        self._stream = _add_stream(self._container, codec, rate, width, height, self._crf, self._preset)
        self._state = _State.OPEN

    def _picture(self, rgb: Frame) -> av.VideoFrame:
        import av

        assert self._stream is not None
        width, height = self._stream.width, self._stream.height
        if self._width is None and self._height is None and rgb.shape == self._source_shape:
            pad_rows, pad_columns = height - rgb.shape[0], width - rgb.shape[1]
            if pad_rows or pad_columns:
                rgb = np.pad(rgb, ((0, pad_rows), (0, pad_columns), (0, 0)), mode="edge")
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24")
        if (picture.width, picture.height) != (width, height):
            picture = picture.reformat(width=width, height=height, format="yuv420p", interpolation="AREA")
        picture.pts = self._frames
        return picture

    def _mux(self, picture: av.VideoFrame | None) -> None:
        assert self._container is not None and self._stream is not None
        for packet in self._stream.encode(picture):
            self._container.mux(packet)

    def _release(self) -> None:
        self._container = self._stream = self._first = None
        self._buffer = KeptBuffer()


class KeptBuffer(io.BytesIO):
    """A file in memory that outlives FFmpeg's closing it, and that FFmpeg can open again for reading.

    Moving the index of an mp4 to its front takes a second pass over what was written; FFmpeg asks for that by
    opening the file once more.
    """

    def close(self) -> None:
        """Stay open."""

    def reopen(self, url: str, flags: int, options: dict[str, Any]) -> Any:
        """Open the file once more; PyAV's ``io_open``."""
        return _ReadView(self) if flags == _READ else self


class _ReadView:
    """Reads a buffer from a position of its own, while the buffer is being written elsewhere."""

    def __init__(self, buffer: io.BytesIO) -> None:
        self._buffer = buffer
        self._position = 0

    def read(self, size: int) -> bytes:
        with self._buffer.getbuffer() as view:
            chunk = view[self._position : self._position + size].tobytes()
        self._position += len(chunk)
        return chunk

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._buffer.getbuffer() as view:
            start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(view)}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        pass


def encode_video(frames: Iterable[npt.ArrayLike], fps: float, **options: Any) -> EncodedVideo:
    """Encode frames one after the other; ``frames`` may be an array, a list or a generator.

    Args:
        frames: Pictures as ``VideoEncoder.feed`` takes them.
        fps: Frames per second.
        **options: Keywords of ``VideoEncoder``.

    Raises:
        ValueError: There is no frame, or one is no picture.
    """
    encoder = VideoEncoder(fps, **options)
    try:
        for frame in frames:
            encoder.feed(frame)
        return encoder.finish()
    except BaseException:
        encoder.cancel()
        raise


def decode_video(data: bytes) -> Iterable[Frame]:
    """Yield the frames of an encoded clip, HWC uint8 RGB, one at a time."""
    import av

    with av.open(io.BytesIO(data), "r") as container:
        for picture in container.decode(video=0):
            yield np.asarray(picture.to_ndarray(format="rgb24"), np.uint8)


def probe_video(data: bytes) -> EncodedVideo:
    """Read size, length and speed off an encoded clip by walking its packets.

    Raises:
        ValueError: FFmpeg does not read it as a video.
    """
    import av

    try:
        with av.open(io.BytesIO(data), "r") as container:
            stream = container.streams.video[0]
            frames = sum(packet.size > 0 for packet in container.demux(stream))
            fps = float(stream.average_rate or stream.base_rate or 0)
            return EncodedVideo(data, stream.width, stream.height, frames, fps, stream.codec_context.name)
    except (av.FFmpegError, IndexError) as error:
        raise ValueError(f"These {len(data)} bytes are no video that FFmpeg can read: {error}") from error


def png_from_frame(frame: npt.ArrayLike) -> bytes:
    """Encode one picture (as ``VideoEncoder.feed`` takes it) as PNG, without loss."""
    import av

    rgb = np.ascontiguousarray(as_rgb(frame))
    codec = av.CodecContext.create("png", "w")
    codec.width, codec.height, codec.pix_fmt = rgb.shape[1], rgb.shape[0], "rgb24"
    codec.time_base = Fraction(1, 1)
    picture = av.VideoFrame.from_ndarray(rgb, format="rgb24")
    packets = [*codec.encode(picture), *codec.encode(None)]
    return b"".join(bytes(packet) for packet in packets)


def frame_from_png(data: bytes) -> Frame:
    """Return the picture in a PNG, HWC uint8 RGB."""
    return next(iter(decode_video(data)))


def resize(frame: npt.ArrayLike, height: int, width: int) -> Frame:
    """Scale one picture (as ``VideoEncoder.feed`` takes it) to an exact size, averaging over areas."""
    import av

    picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(as_rgb(frame)), format="rgb24")
    scaled = picture.reformat(width=width, height=height, interpolation="AREA")
    return np.asarray(scaled.to_ndarray(format="rgb24"), np.uint8)


def as_rgb(frame: npt.ArrayLike) -> Frame:
    """Check one picture and give it three channels.

    Args:
        frame: HWC uint8 with 1, 3 or 4 channels, or HW uint8. Transparency is dropped.

    Raises:
        ValueError: Anything else; the message says what came and what to do.
    """
    array = np.asarray(frame)
    shape = array.shape
    if array.dtype != np.uint8:
        raise ValueError(
            f"A frame must be uint8 in 0..255, got {array.dtype} of shape {shape}. "
            "Multiply floats in 0..1 by 255, or pass value_range=1.0 to Video."
        )
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in shape:
        raise ValueError(
            f"A frame must be height x width x channels with 1, 3 or 4 channels, got shape {shape}. "
            "For channels first, transpose it, or pass layout='TCHW' to Video."
        )
    if array.shape[2] == 1:
        return np.repeat(array, 3, axis=2)
    return array[:, :, :3]


def frames_in_layout(
    frames: Iterable[npt.ArrayLike], layout: str = "THWC", value_range: float = 255
) -> Iterable[npt.ArrayLike]:
    """Turn the frames of a named layout into pictures as ``VideoEncoder.feed`` takes them, one at a time.

    Args:
        frames: A clip, time first.
        layout: One of ``LAYOUTS``.
        value_range: What stands for full brightness: 255, or 1.0 for floats in 0..1.

    Raises:
        ValueError: The layout or the range is not one of these.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}.")
    if value_range not in (255, 1):
        raise ValueError(f"value_range must be 255 or 1.0, got {value_range!r}.")
    return _converted(frames, layout, value_range)


def _converted(frames: Iterable[npt.ArrayLike], layout: str, value_range: float) -> Iterable[npt.ArrayLike]:
    for frame in frames:
        array = np.asarray(frame)
        if layout == "TCHW":
            array = np.moveaxis(array, 0, -1)
        elif layout == "THW" and array.ndim != 2:
            raise ValueError(f"A frame of layout THW has two axes, got shape {array.shape}.")
        if value_range == 1:
            array = np.rint(np.clip(np.nan_to_num(array), 0, 1) * 255).astype(np.uint8)
        yield array


def target_size(
    source_width: int, source_height: int, width: int | None, height: int | None, *, keep_odd_sizes: bool = False
) -> tuple[int, int]:
    """Say which size a clip gets: as asked for, in proportion where one side is left open, made even at the end."""
    if width is None and height is None:
        width, height = source_width, source_height
    elif width is None:
        assert height is not None
        width = max(1, round(source_width * height / source_height))
    elif height is None:
        height = max(1, round(source_height * width / source_width))
    assert width is not None and height is not None
    if keep_odd_sizes:
        return width, height
    return width + width % 2, height + height % 2


@functools.cache
def working_codec() -> str:
    """Name the first encoder of this FFmpeg that really opens; found out once a process.

    Raises:
        RuntimeError: None does.
    """
    failures = []
    for name in _CODECS:
        try:
            _try_codec(name)
        except Exception as error:
            failures.append(f"{name}: {error}")
            continue
        if failures:
            logger.warning(
                "H.264 cannot be encoded here (%s); clips are written with %s, which not every player shows. "
                "Reinstall PyAV from its wheel (pip install --force-reinstall av) to have libx264.",
                "; ".join(failures),
                name,
            )
        return name
    raise RuntimeError(f"No video encoder of this FFmpeg works ({'; '.join(failures)}). Try: pip install -U av")


def _try_codec(name: str) -> None:
    import av

    container = av.open(io.BytesIO(), "w", format="mp4")
    stream = _add_stream(container, name, Fraction(10), 16, 16, crf=23, preset="veryfast")
    picture = av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8), format="rgb24")
    for packet in [*stream.encode(picture), *stream.encode(None)]:
        container.mux(packet)
    container.close()


def _add_stream(
    container: OutputContainer, codec: str, rate: Fraction, width: int, height: int, crf: int, preset: str
) -> VideoStream:
    options = dict(_CODECS[codec])
    if codec == "libx264":
        options |= {"crf": str(crf), "preset": preset}
    elif codec == "libvpx-vp9":
        options |= {"crf": str(crf)}
    stream = cast("VideoStream", container.add_stream(codec, rate=rate, options=options))
    stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
    stream.codec_context.thread_count = 1
    return stream
