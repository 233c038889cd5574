"""The clips of one running episode, one for each view, encoded frame by frame as they are rendered."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tune_media.encoding.encoder import EncodedVideo, VideoEncoder
from tune_media.encoding.frame_checks import FrameChecks, check_of_all
from tune_media.encoding.frames import Frame, as_rgb, resize, target_size
from tune_media.recording.overlay import Overlay
from tune_media.steps import StepFacts
from tune_media.values.options import VideoOptions

Render = Callable[[], Mapping[str, Any]]
"""Returns the current frames of an env by the name of their view; the name of the only view is the empty string."""

Pictures = dict[str, tuple[int | None, int]]
"""What a tape holds of an episode's frames, by view: how many of the first ones (None: all), and their checksum."""

MOST_BEGUN = 32
"""How many frames of an episode are rendered where it runs, once its env is proven: with MuJoCo one takes 40 ms."""


class Frames(enum.Enum):
    """What becomes of the frames of an episode while it runs."""

    ENCODED = "encoded"
    CHECKED = "checked"
    """They are rendered, and only their checksums are kept: the clip is made of the tape, and must have the same."""
    BEGUN = "begun"
    """The same for the first ones, often ``MOST_BEGUN``, to see whether a replay shows the same."""
    LEFT_OUT = "left out"
    """They are rendered of the tape."""


class Clips:
    """The clips of one episode.

    Args:
        options: Size, speed, quality and overlays.
        render: Returns the current frames; called for each step whose frame is kept.
        fps: Env steps per second, unless the options say otherwise.
        frames: ``ENCODED``: there are clips in the end. ``CHECKED`` or ``BEGUN``: only the checksums of their frames.
        are_lean: Whether they are encoded in little memory, into larger files; see ``VideoEncoder``.
        are_enough: Asked before each frame but the first ``MOST_BEGUN``; from a yes on, ``frames`` is ``BEGUN``.

    Attributes:
        frames: See above.
        are_cut: Whether the frames after some point are missing for lack of memory.
    """

    def __init__(
        self,
        options: VideoOptions,
        render: Render,
        fps: float,
        *,
        frames: Frames = Frames.ENCODED,
        are_lean: bool = False,
        are_enough: Callable[[], bool] | None = None,
    ) -> None:
        self._are_enough = are_enough
        self._options, self._render, self._fps = options, render, (options.fps or fps) / options.every
        self.frames, self._are_lean = frames, are_lean
        self._most = options.max_frames
        if frames is Frames.BEGUN:
            self._most = min(options.max_frames or MOST_BEGUN, MOST_BEGUN)
        self._encoders: dict[str, VideoEncoder | FrameChecks] = {}
        self._overlays: dict[str, Overlay] = {}
        self._skipped: StepFacts | None = None  # the last step, if its frame was not kept
        self.are_cut = False

    @property
    def are_encoded(self) -> bool:
        """Whether there are clips in the end."""
        return self.frames is Frames.ENCODED

    @property
    def nbytes(self) -> int:
        """The memory that they take until they are finished, roughly."""
        return sum(encoder.nbytes for encoder in self._encoders.values())

    def cut(self, why: str) -> None:
        """Leave out all frames after this point, and note why."""
        self.are_cut = True
        for encoder in self._encoders.values():
            encoder.cut(why)

    def feed(self, facts: StepFacts, *, picture: bool = True) -> None:
        """Render and encode the current frame of each view, unless ``every`` skips it.

        Args:
            facts: The step that led to the frame.
            picture: False if the env already shows something else; the frame is missing.

        Raises:
            Exception: Whatever rendering raises; ``FrameError`` if there is no frame.
        """
        self._skipped = facts if picture and facts.step % self._options.every else None
        for overlay in self._overlays.values():
            overlay.follow(facts)
        if picture and self._skipped is None:
            self._encode(facts)

    def feed_last(self) -> None:
        """Encode the frame of the last step if it was skipped. The env must still show it.

        Raises:
            Exception: As of ``feed``.
        """
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
        if self._are_enough is not None and facts.step >= MOST_BEGUN and self._are_enough():
            self._end_here()
            return
        frames = self._render()
        for view, picture in frames.items():
            if view not in self._encoders:
                self._encoders[view] = self._new_encoder()
                self._overlays[view] = Overlay(self._options.overlay)
                self._overlays[view].follow(facts)
                if facts.step:
                    self._encoders[view].add_note(f"this view began at step {facts.step}")
            self._encoders[view].feed(self._drawn(view, picture, facts) if self._options.overlay else picture)
        for view in self._encoders.keys() - frames.keys():
            self._encoders[view].add_note("this view ended before the episode")

    def _end_here(self) -> None:
        """Encode nothing, and render no more: the clip is made of the tape, and must begin with these frames."""
        self.frames, self._are_enough, self._most = Frames.BEGUN, None, 0
        for view, encoder in self._encoders.items():
            if isinstance(encoder, VideoEncoder):
                encoder.cancel()
                self._encoders[view] = FrameChecks(checks=encoder.checks)

    def _new_encoder(self) -> VideoEncoder | FrameChecks:
        if not self.are_encoded:
            return FrameChecks(self._most)
        return VideoEncoder(self._fps, **self._options.encoder_keywords(), is_lean=self._are_lean)

    @property
    def are_full(self) -> bool:
        """Whether no more frames are wanted."""
        most = self._most
        return most is not None and bool(self._encoders) and all(e.frames >= most for e in self._encoders.values())

    def _drawn(self, view: str, picture: Any, facts: StepFacts) -> Frame:
        rgb = as_rgb(picture)
        height, width = rgb.shape[:2]
        wanted = target_size(width, height, self._options.width, self._options.height)
        if self._options.width or self._options.height:  # text is drawn at the size at which people read it
            rgb = resize(rgb, height=wanted[1], width=wanted[0])
        return self._overlays[view].draw(rgb, facts)

    def finish(self) -> dict[str, EncodedVideo]:
        """Return the finished clips by view; none if they are not encoded."""
        stride, encoders = self._options.every, self._encoders.items()
        return {
            view: replace(encoder.finish(), frame_stride=stride)
            for view, encoder in encoders
            if isinstance(encoder, VideoEncoder)
        }

    def checks(self) -> dict[str, tuple[int, ...]]:
        """Return the CRC-32C of the pixels of each frame so far, by view."""
        return {view: tuple(encoder.checks) for view, encoder in self._encoders.items()}

    def cancel(self) -> None:
        """Drop everything that has been encoded."""
        for encoder in self._encoders.values():
            encoder.cancel()


def pictures_of(checks: Mapping[str, Sequence[int]], *, are_all: bool) -> Pictures:
    """Return what a tape holds of the frames that were rendered.

    Args:
        checks: The checksum of each frame, by view.
        are_all: Whether the episode has no others.

    Example:
        >>> pictures_of({"": (1, 2)}, are_all=True) == pictures_of({"": (2, 1)}, are_all=True)
        False
    """
    return {view: (None if are_all else len(frames), check_of_all(frames)) for view, frames in checks.items()}


def has_all(pictures: Pictures) -> bool:
    """Say whether these are of all frames of an episode."""
    return any(count is None for count, _ in pictures.values())


def shows(checks: Mapping[str, Sequence[int]], pictures: Pictures) -> bool:
    """Say whether clips show the frames that ``pictures_of`` was given: all, or the first ones.

    Example:
        >>> shows({"": (1, 2, 3)}, pictures_of({"": (1, 2)}, are_all=False))
        True
        >>> shows({"": (1, 2, 3)}, pictures_of({"": (1, 2)}, are_all=True))
        False
    """
    if has_all(pictures) and checks.keys() != pictures.keys():
        return False
    return all(check_of_all(checks.get(view, ())[:count]) == check for view, (count, check) in pictures.items())
