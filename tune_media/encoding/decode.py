"""Reads encoded clips: their frames, or their size and speed."""

from __future__ import annotations

import io
from collections.abc import Iterator

import av
import numpy as np

from tune_media.encoding.encoder import EncodedVideo
from tune_media.encoding.frames import Frame


def decode_video(data: bytes) -> Iterator[Frame]:
    """Yield the frames of an encoded clip, one at a time.

    Args:
        data: The bytes of the video file.

    Yields:
        Each frame: height x width x 3, uint8, RGB.

    Example:
        >>> from tune_media.encoding import encode_video
        >>> clip = encode_video(np.zeros((5, 48, 64, 3), np.uint8), fps=30)
        >>> [frame.shape for frame in decode_video(clip.data)][:2]
        [(48, 64, 3), (48, 64, 3)]
    """
    with av.open(io.BytesIO(data), "r") as container:
        for picture in container.decode(video=0):
            yield np.asarray(picture.to_ndarray(format="rgb24"), np.uint8)


def probe_video(data: bytes) -> EncodedVideo:
    """Read the size, length and speed of an encoded clip. Its packets are counted, its frames are not decoded.

    Args:
        data: The bytes of the video file.

    Raises:
        ValueError: FFmpeg cannot read the bytes as a video.

    Example:
        >>> from tune_media.encoding import encode_video
        >>> video = probe_video(encode_video(np.zeros((5, 48, 64, 3), np.uint8), fps=30).data)
        >>> video.frames, video.width, video.height, video.fps
        (5, 64, 48, 30.0)
    """
    try:
        with av.open(io.BytesIO(data), "r") as container:
            stream = container.streams.video[0]
            frames = sum(packet.size > 0 for packet in container.demux(stream))
            fps = float(stream.average_rate or stream.base_rate or 0)
            return EncodedVideo(data, stream.width, stream.height, frames, fps, stream.codec_context.name)
    except (av.FFmpegError, IndexError) as error:
        raise ValueError(f"These {len(data)} bytes are no video that FFmpeg can read: {error}") from error
