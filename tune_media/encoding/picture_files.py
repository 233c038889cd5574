"""Single pictures as files: PNG, without loss, and small JPEGs for the posters of a gallery."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from tune_media.encoding.frames import as_rgb

_MAX_WIDTH = 480  # pixels of a JPEG


def png_from_frame(frame: npt.ArrayLike) -> bytes:
    """Encode a picture as ``as_rgb`` accepts it as PNG. Raises ValueError."""
    picture = _picture_of(frame)
    return _encoded("png", "rgb24", picture, picture.width, picture.height)


def jpeg_from_frame(frame: npt.ArrayLike) -> bytes:
    """Encode a picture as ``as_rgb`` accepts it as JPEG, scaled down to 480 pixels if it is wider."""
    picture = _picture_of(frame)
    scale = min(1.0, _MAX_WIDTH / picture.width)
    width, height = (max(2, round(side * scale / 2) * 2) for side in (picture.width, picture.height))
    return _encoded("mjpeg", "yuvj420p", picture.reformat(width, height, "yuvj420p"), width, height)


def _picture_of(frame: npt.ArrayLike) -> av.VideoFrame:
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(as_rgb(frame)), format="rgb24")


def _encoded(name: str, pixels: str, picture: av.VideoFrame, width: int, height: int) -> bytes:
    codec: Any = av.CodecContext.create(name, "w")  # of video, as its name says
    codec.width, codec.height, codec.pix_fmt, codec.time_base = width, height, pixels, Fraction(1, 1)
    return b"".join(bytes(packet) for packet in [*codec.encode(picture), *codec.encode(None)])
