"""The line of text above a clip in TensorBoard's Images tab, which itself shows neither returns nor lengths."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

_HEIGHT, _FONT_SIZE, _MARGIN = 16, 12, 3  # pixels
# Of a GIF's 256 colours, text needs these four. The hundred greys of smooth letters doubled the time of a small clip's.
_SHADES = np.array([[20], [98], [177], [255]], np.uint8).repeat(3, axis=1)


def caption_strip(text: str, width: int) -> npt.NDArray[np.uint8] | None:
    """Draw a caption as a strip of pixels, HWC uint8, or None if Pillow is not installed.

    A caption that is wider than the clip is broken at its commas.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        return None
    lines = [text] if _font().getlength(text) <= width - 2 * _MARGIN else text.split(", ")
    strip = Image.new("L", (width, _HEIGHT * len(lines)), 255)
    for number, line in enumerate(lines):
        ImageDraw.Draw(strip).text((_MARGIN, number * _HEIGHT + 1), line, 0, _font())
    shades: npt.NDArray[np.uint8] = _SHADES[np.asarray(strip) // 64]
    return shades


@functools.cache
def _font() -> Any:
    """Return Pillow's own font, which takes longer to read than to draw with."""
    from PIL import ImageFont

    return ImageFont.load_default(_FONT_SIZE)
