"""Which video codec this build of FFmpeg can really use, and how a stream of it is set up."""

from __future__ import annotations

import functools
import io
import logging
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import av
import numpy as np

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

logger = logging.getLogger(__name__)

# In order of preference; an mp4 can hold each of them. FFmpeg may list a codec and still fail to open it.
_CODECS: dict[str, dict[str, str]] = {
    "libx264": {},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "b": "0"},
    "mpeg4": {"qscale": "3"},
}


@functools.cache
def working_codec() -> str:
    """Return the first codec that encodes, tried out once in each process. Raises RuntimeError if none does."""
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


def options_of(codec: str, crf: int = 23, preset: str = "veryfast", *, is_lean: bool = False) -> dict[str, str]:
    """Return FFmpeg's options of an encoder; see ``VideoEncoder``."""
    if codec == "libx264":
        return {"crf": str(crf), "preset": preset, **({"tune": "zerolatency"} if is_lean else {})}
    return _CODECS[codec] | ({"crf": str(crf)} if codec == "libvpx-vp9" else {})


def add_stream(
    container: OutputContainer, codec: str, rate: Fraction, size: tuple[int, int], options: dict[str, str]
) -> VideoStream:
    """Add a video stream to an open file; its width and height are even."""
    stream = cast("VideoStream", container.add_stream(codec, rate=rate, options=options))
    (stream.width, stream.height), stream.pix_fmt = size, "yuv420p"
    stream.codec_context.thread_count = 1  # faster than "auto" at the size of most envs
    return stream


def _try_codec(name: str) -> None:
    with av.open(io.BytesIO(), "w", format="mp4") as container:
        stream = add_stream(container, name, Fraction(10), (16, 16), options_of(name))
        picture = av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8), format="rgb24")
        container.mux([*stream.encode(picture), *stream.encode(None)])
