"""The checksum of the pixels of a frame."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from crc32c import crc32c


def frame_check(rgb: npt.NDArray[np.uint8]) -> int:
    """Return the CRC-32C of the pixels of a frame.

    Example:
        >>> frame_check(np.zeros((1, 1, 3), np.uint8)) == frame_check(np.ones((1, 1, 3), np.uint8))
        False
    """
    return int(crc32c(np.ascontiguousarray(rgb).data))
