"""Recognises pictures that people report as raw arrays, as the heatmap example in RLlib's documentation does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tune_media.results.raw_clips import CHANNELS, MIN_FLOAT_PIXELS, MIN_PIXELS, are_probabilities


def raw_pixels(value: Any) -> npt.NDArray[np.uint8] | None:
    """Return the pixels of a raw picture as HWC uint8, or None if the value is something else.

    A picture has three axes, HWC or CHW, with 1, 3 or 4 channels, and at least 4 pixels in each direction. It is uint8,
    or at least 16x16 floats that are in 0..1, or whole and in 0..255. Floats that add up to 1 along an axis are
    probabilities, and arrays with negative numbers are something else.
    """
    if not isinstance(value, np.ndarray) or value.ndim != 3 or not (value.dtype == np.uint8 or value.dtype.kind == "f"):
        return None
    least = MIN_PIXELS if value.dtype == np.uint8 else MIN_FLOAT_PIXELS
    if value.shape[2] in CHANNELS and min(value.shape[:2]) >= least:
        pixels = value
    elif value.shape[0] in CHANNELS and min(value.shape[1:]) >= least:
        pixels = value.transpose(1, 2, 0)
    else:
        return None
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    return _from_floats(pixels.astype(np.float64))


def _from_floats(pixels: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8] | None:
    low, high = float(pixels.min()), float(pixels.max())
    if not (low >= 0 and high <= 255):  # False for NaN, too
        return None
    if high <= 1:
        return None if are_probabilities(pixels) else np.ascontiguousarray((pixels * 255).round().astype(np.uint8))
    return np.ascontiguousarray(pixels.astype(np.uint8)) if np.array_equal(pixels, pixels.round()) else None
