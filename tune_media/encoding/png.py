"""Single pictures as PNG, without loss."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import numpy.typing as npt

from tune_media.encoding.frames import as_rgb


def png_from_frame(frame: npt.ArrayLike) -> bytes:
    """Encode one picture as PNG.

    Args:
        frame: A picture as ``as_rgb`` accepts it.

    Raises:
        ValueError: The array is not a picture.

    Example:
        >>> png_from_frame(np.zeros((48, 64, 3), np.uint8))[:8]
        b'\\x89PNG\\r\\n\\x1a\\n'
    """
    rgb = np.ascontiguousarray(as_rgb(frame))
    codec = av.CodecContext.create("png", "w")
    codec.width, codec.height, codec.pix_fmt = rgb.shape[1], rgb.shape[0], "rgb24"
    codec.time_base = Fraction(1, 1)
    picture = av.VideoFrame.from_ndarray(rgb, format="rgb24")
    packets = [*codec.encode(picture), *codec.encode(None)]
    return b"".join(bytes(packet) for packet in packets)
