"""The checksums of the frames of a clip, which is encoded elsewhere or not at all."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from tune_media.encoding.frames import as_rgb


class FrameChecks:
    """Takes the place of a ``VideoEncoder`` where only the checksums of the frames are wanted: a few bytes a frame.

    Args:
        max_frames: Frames after which nothing is added, as for ``VideoEncoder``. None: never.
        checks: Those of the frames before.

    Attributes:
        checks: The CRC-32C of the pixels of each frame.

    Example:
        >>> frames = FrameChecks(max_frames=2)
        >>> for _ in range(3):
        ...     frames.feed(np.zeros((48, 64, 3), np.uint8))
        >>> frames.frames
        2
    """

    def __init__(self, max_frames: int | None = None, checks: Sequence[int] = ()) -> None:
        self._max_frames = max_frames
        self.checks = list(checks)

    @property
    def frames(self) -> int:
        """Number of frames so far."""
        return len(self.checks)

    @property
    def nbytes(self) -> int:
        """The memory that it takes, roughly."""
        return 40 * len(self.checks)

    def feed(self, frame: npt.ArrayLike) -> None:
        """Add a frame, as ``VideoEncoder.feed`` takes it; the array can be reused afterwards.

        Raises:
            ValueError: The array is not a picture.
        """
        if self._max_frames is None or self.frames < self._max_frames:
            self.checks.append(frame_check(as_rgb(frame)))

    def cut(self, why: str = "") -> None:
        """Do nothing: whoever makes the clip notes that it is cut."""

    def add_note(self, text: str) -> None:
        """Do nothing: whoever makes the clip notes the same."""

    def cancel(self) -> None:
        """Drop the checksums."""
        self.checks = []


def frame_check(rgb: npt.NDArray[np.uint8]) -> int:
    """Return the CRC-32C of the pixels of a frame.

    Example:
        >>> frame_check(np.zeros((1, 1, 3), np.uint8)) == frame_check(np.ones((1, 1, 3), np.uint8))
        False
    """
    return int(crc32c(np.ascontiguousarray(rgb).data))


def check_of_all(checks: Sequence[int]) -> int:
    """Return one checksum for those of all frames of a clip.

    Example:
        >>> check_of_all([1, 2]) == check_of_all([1, 2, 2])
        False
    """
    return int(crc32c(array("I", checks).tobytes()))
