"""The line of text above a clip in TensorBoard's Images tab, which itself shows neither returns nor lengths."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_HEIGHT, _FONT_SIZE = 16, 12  # pixels
_PAPER, _INK = (255, 255, 255), (20, 20, 20)


def caption_of(facts: Mapping[str, Any], step: int) -> str:
    """Return what the caption of a clip says.

    >>> caption_of({"episode_return": 231.0, "episode_length": 231}, step=4000)
    'return 231, length 231, step 4000'
    >>> caption_of({}, step=3)
    'step 3'
    """
    told = []
    if isinstance(facts.get("episode_return"), (int, float)):
        told.append(f"return {facts['episode_return']:.6g}")
    if facts.get("episode_length") is not None:
        told.append(f"length {facts['episode_length']}")
    return ", ".join([*told, f"step {step}"])


def caption_strip(text: str, width: int) -> npt.NDArray[np.uint8] | None:
    """Draw a caption as a strip of pixels, HWC uint8; None if Pillow is not installed, which draws it."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        return None
    strip = Image.new("RGB", (width, _HEIGHT), _PAPER)
    ImageDraw.Draw(strip).text((3, 1), text, _INK, _font())
    return np.asarray(strip)


@functools.cache
def _font() -> Any:
    """Return Pillow's own font, which takes longer to read than to draw with."""
    from PIL import ImageFont

    return ImageFont.load_default(_FONT_SIZE)
