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
    """Open a clip (bytes or a path) for a ``with`` block, in which all errors of FFmpeg become a ``ValueError``."""
    subject = f"{name!r} is" if name else f"These {len(video)} bytes are"
    try:
        with av.open(video if isinstance(video, str) else io.BytesIO(video), "r") as container:
            stream = next(iter(container.streams.video), None)
            if stream is None or stream.codec_context.pix_fmt is None:
                wrong = "there is no video stream" if stream is None else "not one frame can be decoded"
                raise ValueError(f"{subject} no video that FFmpeg can read: {wrong}")
            yield container, stream
    except av.FFmpegError as error:
        raise ValueError(f"{subject} no video that FFmpeg can read: {error.strerror}") from error


def decode_video(data: bytes, name: str = "") -> Iterator[Frame]:
    """Yield the frames of a clip, HWC uint8 RGB, one at a time. Raises ValueError."""
    with open_video(data, name) as (container, stream):
        for picture in container.decode(stream):
            yield np.asarray(picture.to_ndarray(format="rgb24"), np.uint8)


def probe_video(data: bytes, name: str = "") -> EncodedVideo:
    """Read the size, length and speed of a clip; its packets are counted, not decoded. Raises ValueError."""
    with open_video(data, name) as (container, stream):
        frames = sum(packet.size > 0 for packet in container.demux(stream))
        fps = float(stream.average_rate or stream.base_rate or 0)
        return EncodedVideo(data, stream.width, stream.height, frames, fps, stream.codec_context.name)


def header_of(path: str) -> dict[str, float]:
    """Return ``width``, ``height``, ``frames`` and ``fps`` from a clip's header; ValueError if it is not whole."""
    with open_video(path, path) as (container, stream):
        fps = float(stream.average_rate or stream.base_rate or 0)
        frames = stream.frames or sum(packet.size > 0 for packet in container.demux(stream))
        return {"width": stream.width, "height": stream.height, "frames": frames, "fps": fps}
