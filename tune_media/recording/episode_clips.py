"""The clips of one running episode, one for each view, encoded or held frame by frame as they are rendered."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tune_media.encoding.encoder import EncodedVideo, VideoEncoder
from tune_media.encoding.frames import Frame, as_rgb, resize, target_size
from tune_media.recording.overlay import Overlay
from tune_media.recording.pictures import Pictures
from tune_media.steps import StepFacts
from tune_media.values.options import VideoOptions

Render = Callable[[], Mapping[str, Any]]
"""Returns the current frames of an env by the name of their view; the name of the only view is the empty string."""


class Texts(Protocol):
    """The texts of ``overlay=`` functions."""

    @property
    def note(self) -> str | None:
        """What is odd about them."""

    def of(self, facts: StepFacts) -> Sequence[str]:
        """Return the text of each function at a step."""


class Clips:
    """The clips of one episode; ``render`` is called for each step whose frame is kept."""

    def __init__(
        self,
        options: VideoOptions,
        render: Render,
        fps: float,
        *,
        are_encoded: bool = True,
        are_lean: bool = False,
        holds: bool = False,
        texts: Texts | None = None,
    ) -> None:
        self._options, self._render, self._fps = options, render, (options.fps or fps) / options.every
        # if they are not encoded, only the checksums of the frames are kept
        self.are_encoded, self._are_lean, self._holds, self._texts = are_encoded, are_lean, holds, texts
        self.pictures = Pictures()  # the checksums of all frames so far
        self.rewards = array("d")  # of each step so far, beginning with 0 for the reset; incomplete if they are cut
        self._encoders: dict[str, VideoEncoder] = {}
        self._overlays: dict[str, Overlay] = {}
        self._skipped: StepFacts | None = None  # the last step, if its frame was not kept
        self._last: StepFacts | None = None
        self._between = self._shown = 0  # frames inside of steps so far, and all
        self.are_cut = False  # whether the frames after some point are missing for lack of memory

    @property
    def nbytes(self) -> int:
        """The memory that they take until they are finished, roughly."""
        return 8 * len(self.rewards) + sum(encoder.nbytes for encoder in self._encoders.values())

    def cut(self, why: str) -> None:
        """Leave out all frames after this point, and note why."""
        self.are_cut = True
        del self.rewards[:]
        for encoder in self._encoders.values():
            encoder.cut(why)

    def feed(self, facts: StepFacts, *, picture: bool = True) -> None:
        """Render and encode the current frame of each view, unless ``every`` skips it; not ``picture``: it is missing.

        Raises whatever rendering raises; FrameError if there is no frame.
        """
        self.rewards.append(facts.reward)
        self._last = facts
        self._skipped = facts if picture and (facts.step + self._between) % self._options.every else None
        for overlay in self._overlays.values():
            overlay.follow(facts)
        if picture and self._skipped is None:
            self._encode(facts)

    def feed_between(self) -> None:
        """Render and encode a frame inside of a step, of an env that simulates several; ``every`` counts it."""
        if self._last is not None:
            self._between += 1
            if (self._last.step + self._between) % self._options.every == 0:
                self._encode(self._last)

    def feed_last(self) -> None:
        """Encode the frame of the last step if it was skipped. The env must still show it."""
        facts, self._skipped = self._skipped, None
        if facts is not None:
            self._encode(facts)

    def _encode(self, facts: StepFacts) -> None:
        if self.are_cut:
            return
        if self.are_full:
            for encoder in self._encoders.values():
                encoder.cut()
            return
        frames = self._render()
        self._shown += 1
        self.pictures.add(facts.step, frames)
        if not self.are_encoded:
            return
        for view, picture in frames.items():
            if view not in self._encoders:
                keywords = {**self._options.encoder_keywords(), "is_lean": self._are_lean, "holds": self._holds}
                self._encoders[view] = VideoEncoder(self._fps, **keywords)
                self._overlays[view] = Overlay(self._options.overlay)
                self._overlays[view].follow(facts)
                if facts.step:
                    self._encoders[view].add_note(f"this view began at step {facts.step}")
            drawn = self._drawn(view, picture, facts) if self._options.overlay else picture
            self._encoders[view].feed(drawn, undrawn=picture)
        for view in self._encoders.keys() - frames.keys():
            self._encoders[view].add_note("this view ended before the episode")

    @property
    def are_full(self) -> bool:
        """Whether no more frames are wanted."""
        most, encoders = self._options.max_frames, self._encoders.values()
        if most is None:
            return False
        if encoders:
            return all(clip.frames >= most for clip in encoders)
        return not self.are_encoded and self._shown >= most

    def _drawn(self, view: str, picture: Any, facts: StepFacts) -> Frame:
        rgb = as_rgb(picture)
        height, width = rgb.shape[:2]
        if self._options.width or self._options.height:  # text is drawn at the size at which people read it
            width, height = target_size(width, height, self._options.width, self._options.height)
            rgb = resize(rgb, height, width)
        return self._overlays[view].draw(rgb, facts, () if self._texts is None else self._texts.of(facts))

    def held(self) -> dict[str, VideoEncoder]:
        """Return the ended clips by view if the frames of all views are held; if not, ``finish`` has to follow."""
        encoders = self._ended()
        return encoders if all(encoder.end() for encoder in encoders.values()) else {}

    def finish(self) -> dict[str, EncodedVideo]:
        """Return the finished clips by view; none if they are not encoded."""
        return {view: encoder.finish() for view, encoder in self._ended().items()}

    def _ended(self) -> dict[str, VideoEncoder]:
        for encoder in self._encoders.values():
            encoder.frame_stride = None if self._between else self._options.every
            if self._texts is not None and self._texts.note is not None:
                encoder.add_note(self._texts.note)
        return self._encoders

    def cancel(self) -> None:
        """Drop everything that has been encoded."""
        for encoder in self._encoders.values():
            encoder.cancel()
