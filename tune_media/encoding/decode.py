"""Reads encoded clips: their frames, or their size and speed."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import av
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream

from tune_media.encoding.encoder import EncodedVideo
from tune_media.encoding.frames import Frame


@contextlib.contextmanager
def open_video(video: bytes | str, name: str = "") -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open an encoded clip for a ``with`` block, in which all errors of FFmpeg become a ``ValueError``.

    Args:
        video: The bytes of the video file, or its path.

    Raises:
        ValueError: FFmpeg cannot read it as a video.

    Example:
        >>> with open_video(b"text", "clip.mp4") as (container, stream):
        ...     pass
        Traceback (most recent call last):
        ValueError: 'clip.mp4' is no video that FFmpeg can read: Invalid data found when processing input
    """
    what = f"{name!r} is" if name else f"These {len(video)} bytes are"
    try:
        with av.open(video if isinstance(video, str) else io.BytesIO(video), "r") as container:
            stream = next(iter(container.streams.video), None)
            if stream is None or stream.codec_context.pix_fmt is None:
                wrong = "there is no video stream" if stream is None else "not one frame can be decoded"
                raise ValueError(f"{what} no video that FFmpeg can read: {wrong}")
            yield container, stream
    except av.FFmpegError as error:
        raise ValueError(f"{what} no video that FFmpeg can read: {error.strerror}") from error


def decode_video(data: bytes, name: str = "") -> Iterator[Frame]:
    """Yield the frames of an encoded clip, one at a time.

    Yields:
        Each frame: height x width x 3, uint8, RGB.

    Raises:
        ValueError: FFmpeg cannot read the bytes as a video, or not all of them.

    Example:
        >>> from tune_media.encoding import encode_video
        >>> clip = encode_video(np.zeros((5, 48, 64, 3), np.uint8), fps=30)
        >>> [frame.shape for frame in decode_video(clip.data)][:2]
        [(48, 64, 3), (48, 64, 3)]
    """
    with open_video(data, name) as (container, stream):
        for picture in container.decode(stream):
            yield np.asarray(picture.to_ndarray(format="rgb24"), np.uint8)


def probe_video(data: bytes, name: str = "") -> EncodedVideo:
    """Read the size, length and speed of an encoded clip. Its packets are counted, its frames are not decoded.

    Raises:
        ValueError: FFmpeg cannot read the bytes as a video.

    Example:
        >>> from tune_media.encoding import encode_video
        >>> video = probe_video(encode_video(np.zeros((5, 48, 64, 3), np.uint8), fps=30).data)
        >>> video.frames, video.width, video.height, video.fps
        (5, 64, 48, 30.0)
    """
    with open_video(data, name) as (container, stream):
        frames = sum(packet.size > 0 for packet in container.demux(stream))
        fps = float(stream.average_rate or stream.base_rate or 0)
        return EncodedVideo(data, stream.width, stream.height, frames, fps, stream.codec_context.name)


def header_of(path: str) -> dict[str, float]:
    """Return ``width``, ``height``, ``frames`` and ``fps`` of a clip's file, as its header has them.

    Args:
        path: The file; only its header is read.

    Raises:
        ValueError: FFmpeg cannot read the file as a video, for example because it is still being written.
    """
    with open_video(path, path) as (container, stream):
        fps = float(stream.average_rate or stream.base_rate or 0)
        frames = stream.frames or sum(packet.size > 0 for packet in container.demux(stream))
        return {"width": stream.width, "height": stream.height, "frames": frames, "fps": fps}
