"""Clips as the pictures that they show: x264's files of the same pictures may differ by a bit on a busy machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tune_media.encoding import EncodedVideo, decode_video


def shown(clips: Mapping[str, EncodedVideo]) -> dict[str, tuple[EncodedVideo, list[bytes]]]:
    """Return, for each clip, all but the bytes of its file, and its decoded frames."""
    return {name: (replace(clip, data=b""), frames_in(clip)) for name, clip in clips.items()}


def frames_in(clip: EncodedVideo) -> list[bytes]:
    """Return the bytes of each decoded frame."""
    return [np.ascontiguousarray(frame).tobytes() for frame in decode_video(clip.data)]
