"""The clips of one running episode, one for each view, encoded frame by frame as they are rendered."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tune_media.encoding.encoder import EncodedVideo, VideoEncoder
from tune_media.encoding.frames import Frame, as_rgb, resize, target_size
from tune_media.recording.overlay import Overlay
from tune_media.recording.pictures import Pictures
from tune_media.steps import StepFacts
from tune_media.values.options import VideoOptions

Render = Callable[[], Mapping[str, Any]]
"""Returns the current frames of an env by the name of their view; the name of the only view is the empty string."""

MOST_BEGUN = 32
"""How many frames of an episode are rendered at least where it runs, until its env is proven."""


@dataclass(frozen=True)
class Wanted:
    """Which frames of an episode are rendered while it runs, and what becomes of them.

    Attributes:
        are_encoded: Whether they become a clip. If not, only their checksums are kept.
        first: The first step whose frame is rendered.
        count: The number of frames. None: all that follow.
    """

    are_encoded: bool
    first: int = 0
    count: int | None = None


ENCODED, CHECKED = Wanted(True), Wanted(False)
"""All frames, with a clip, and without: then it is made of the tape, and must have the same frames."""


class Clips:
    """The clips of one episode.

    Args:
        render: Returns the current frames; called for each step whose frame is kept.
        fps: Env steps per second, unless the options say otherwise.
        wanted: Which frames are rendered; if they are not encoded, there are only their checksums in the end.
        are_lean: Whether they are encoded in little memory, into larger files; see ``VideoEncoder``.
        are_enough: Asked before each frame but the first ``MOST_BEGUN``; from a yes on, no more are rendered.

    Attributes:
        pictures: The checksums of all frames so far.
        rewards: The reward of each step so far, beginning with 0 for the reset. Some are missing if they are cut.
        are_cut: Whether the frames after some point are missing for lack of memory.
    """

    def __init__(
        self,
        options: VideoOptions,
        render: Render,
        fps: float,
        *,
        wanted: Wanted = ENCODED,
        are_lean: bool = False,
        are_enough: Callable[[], bool] | None = None,
    ) -> None:
        self._are_enough = are_enough
        self._options, self._render, self._fps = options, render, (options.fps or fps) / options.every
        self._wanted, self._are_lean = wanted, are_lean
        self.pictures = Pictures()
        self.rewards = array("d")
        self._encoders: dict[str, VideoEncoder] = {}
        self._left = wanted.count  # frames that are still to be rendered; None: all
        self._overlays: dict[str, Overlay] = {}
        self._skipped: StepFacts | None = None  # the last step, if its frame was not kept
        self._last: StepFacts | None = None
        self._between = 0  # frames inside of steps so far
        self.are_cut = False

    @property
    def are_encoded(self) -> bool:
        """Whether there are clips in the end."""
        return self._wanted.are_encoded

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
        """Render and encode the current frame of each view, unless ``every`` skips it.

        Args:
            picture: False if the env already shows something else; the frame is missing.

        Raises:
            Exception: Whatever rendering raises; ``FrameError`` if there is no frame.
        """
        if not self.are_encoded and (facts.step < self._wanted.first or self._left == 0):
            return
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
        if self.are_cut or self._left == 0:
            return
        if self.are_full:
            for encoder in self._encoders.values():
                encoder.cut()
            return
        if self._are_enough is not None and facts.step >= MOST_BEGUN and self._are_enough():
            self._end_here()
            return
        frames = self._render()
        self.pictures.add(facts.step, frames)
        if not self.are_encoded:
            self._left = None if self._left is None else self._left - 1
            return
        for view, picture in frames.items():
            if view not in self._encoders:
                self._encoders[view] = VideoEncoder(
                    self._fps, **self._options.encoder_keywords(), is_lean=self._are_lean
                )
                self._overlays[view] = Overlay(self._options.overlay)
                self._overlays[view].follow(facts)
                if facts.step:
                    self._encoders[view].add_note(f"this view began at step {facts.step}")
            self._encoders[view].feed(
                self._drawn(view, picture, facts) if self._options.overlay else picture, undrawn=picture
            )
        for view in self._encoders.keys() - frames.keys():
            self._encoders[view].add_note("this view ended before the episode")

    def _end_here(self) -> None:
        """Encode nothing, and render no more: the clip is made of the tape, and must begin with these frames."""
        self._wanted, self._are_enough, self._left = Wanted(False), None, 0
        for encoder in self._encoders.values():
            encoder.cancel()
        self._encoders.clear()

    @property
    def begins_late(self) -> bool:
        """Whether the first frames are not rendered."""
        return self._wanted.first > 0

    @property
    def are_part(self) -> bool:
        """Whether only some frames in a row were to be rendered."""
        return self.begins_late or self._wanted.count is not None

    @property
    def are_all(self) -> bool:
        """Whether every frame of the episode was rendered, if it has ended."""
        return not self.are_cut and self._wanted.first == 0 and self._left is None and not self.are_full

    @property
    def are_full(self) -> bool:
        """Whether no more frames are wanted."""
        most, encoders = self._options.max_frames, self._encoders.values()
        return most is not None and bool(encoders) and all(encoder.frames >= most for encoder in encoders)

    def _drawn(self, view: str, picture: Any, facts: StepFacts) -> Frame:
        rgb = as_rgb(picture)
        height, width = rgb.shape[:2]
        wanted = target_size(width, height, self._options.width, self._options.height)
        if self._options.width or self._options.height:  # text is drawn at the size at which people read it
            rgb = resize(rgb, height=wanted[1], width=wanted[0])
        return self._overlays[view].draw(rgb, facts)

    def finish(self) -> dict[str, EncodedVideo]:
        """Return the finished clips by view; none if they are not encoded."""
        stride = None if self._between else self._options.every
        return {view: replace(encoder.finish(), frame_stride=stride) for view, encoder in self._encoders.items()}

    def cancel(self) -> None:
        """Drop everything that has been encoded."""
        for encoder in self._encoders.values():
            encoder.cancel()
