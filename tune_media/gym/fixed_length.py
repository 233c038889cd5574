"""Clips that are not whole episodes: they begin at a step, or end after a number of frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tune_media.encoding.encoder import EncodedVideo, VideoEncoder
from tune_media.values.options import VideoOptions
from tune_media.values.problems import FrameError


class FixedLengthClips:
    """The clips that are being encoded now, at most one for each sub-env.

    A clip of ``length`` frames continues over resets; 0: it ends with its episode. ``frames`` returns those
    of a sub-env; ``save`` gets the sub-env, the name, the clip, and whether it is whole.
    """

    def __init__(
        self,
        frames: Callable[[int], Mapping[str, Any]],
        video: VideoOptions,
        length: int,
        save: Callable[[int, str, EncodedVideo, bool], None],
    ) -> None:
        self._frames, self._video, self._length, self._save = frames, video, length, save
        self.end_with_episodes = length == 0
        self._clips: dict[int, tuple[str, VideoEncoder]] = {}
        self._fed: dict[int, int] = {}  # by sub-env: the frames that were offered to its clip

    def __contains__(self, index: int) -> bool:
        return index in self._clips

    def __len__(self) -> int:
        return len(self._clips)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the clips that are being encoded: FFmpeg holds them, and a copy cannot have them."""
        return {**self.__dict__, "_clips": {}}

    def open(self, index: int, name: str, fps: float) -> None:
        """Start a clip of a sub-env. One that is still being encoded ends before it is whole."""
        self.close(index, whole=False)
        fps = self._video.fps or fps
        self._clips[index] = (name, VideoEncoder(fps / self._video.every, **self._video.encoder_keywords()))
        self._fed[index] = 0

    def feed(self, index: int) -> None:
        """Add the current frame to a sub-env's clip, unless ``every`` skips it; save a full clip, drop a failed one."""
        if index in self._clips:
            self._fed[index] += 1
            if (self._fed[index] - 1) % self._video.every == 0:
                self._encode(index)

    def feed_last(self, index: int) -> None:
        """Add the frame that a sub-env shows to its clip if it was skipped and the clip ends with its episode."""
        if self.end_with_episodes and index in self._clips and (self._fed[index] - 1) % self._video.every:
            self._fed[index] = 1  # it is not skipped any more
            self._encode(index)

    def _encode(self, index: int) -> None:
        _, encoder = self._clips[index]
        try:
            views = self._frames(index)
            if len(views) > 1:
                raise FrameError(
                    f"frame= returned several views ({', '.join(map(repr, views))}), which are for clips of whole "
                    "episodes; return one picture, or leave video_length and step_trigger out"
                )
            encoder.feed(*views.values())
        except Exception:
            del self._clips[index]
            encoder.cancel()
            raise
        if 0 < self._length <= encoder.frames:
            self.close(index, whole=True)

    def close(self, index: int, *, whole: bool) -> None:
        """End the clip of a sub-env, if there is one, and save it. Raises OSError."""
        name, encoder = self._clips.pop(index, ("", None))
        if encoder is not None and encoder.frames > 0:
            self._save(index, name, encoder.finish(), whole)
