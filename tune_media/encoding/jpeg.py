"""Small JPEG pictures, for the posters of a gallery."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import numpy.typing as npt

from tune_media.encoding.frames import as_rgb

_MAX_WIDTH = 480  # pixels


def jpeg_from_frame(frame: npt.ArrayLike) -> bytes:
    """Encode a frame as JPEG, scaled down to 480 pixels if it is wider.

    Args:
        frame: HWC or HW uint8.

    Example:
        >>> jpeg_from_frame(np.zeros((48, 64, 3), np.uint8))[:3]
        b'\\xff\\xd8\\xff'
    """
    rgb = as_rgb(frame)
    picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24")
    scale = min(1.0, _MAX_WIDTH / picture.width)
    width, height = (max(2, round(side * scale / 2) * 2) for side in (picture.width, picture.height))
    codec = av.CodecContext.create("mjpeg", "w")
    codec.width, codec.height, codec.pix_fmt = width, height, "yuvj420p"
    codec.time_base = Fraction(1, 1)
    packets = [*codec.encode(picture.reformat(width, height, "yuvj420p")), *codec.encode(None)]
    return b"".join(bytes(packet) for packet in packets)
