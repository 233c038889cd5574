"""Clips as the pictures that they show.

x264 may encode the same pictures in two ways (seen on a busy machine), so what it loses may differ. Clips that a test
compares pixel for pixel are encoded with ``crf=LOSSLESS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

import tune_media as tm
from tune_media.encoding.decode import decode_video
from tune_media.encoding.encoder import EncodedVideo

LOSSLESS = 0


def clip(level: int = 0) -> tm.Video:
    """Return a clip of four grey frames, each a little lighter than the one before."""
    return tm.Video((np.full((16, 24, 3), level + 10 * index, np.uint8) for index in range(4)), fps=10)


def shown(clips: Mapping[str, EncodedVideo]) -> dict[str, tuple[EncodedVideo, list[bytes]]]:
    """Return, for each clip, all but the bytes of its file, and its decoded frames."""
    return {name: (replace(clip, data=b""), frames_in(clip)) for name, clip in clips.items()}


def frames_in(clip: EncodedVideo) -> list[bytes]:
    """Return the bytes of each decoded frame."""
    return [np.ascontiguousarray(frame).tobytes() for frame in decode_video(clip.data)]
