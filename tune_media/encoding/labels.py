"""Lines of text in pictures: the labels of tiled clips and filmstrips. Pillow draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

PAPER, INK, PALE, WINNER = (250, 250, 248), (25, 25, 30), (95, 95, 105), (0, 135, 90)
LINE = 18  # height of a line, pixels

Color = tuple[int, int, int]


def label(lines: Sequence[tuple[str, Color]], width: int) -> npt.NDArray[np.uint8]:
    """Return lines of text as a picture, (lines * LINE, width, 3); texts that are too wide are cut.

    Of the first one, ``name=value  name=value``, names are shortened first.
    """
    from PIL import Image, ImageDraw

    strip, font = Image.new("RGB", (width, len(lines) * LINE), PAPER), _font()
    pen = ImageDraw.Draw(strip)
    for number, (text, ink) in enumerate(lines):
        short = text if number else _fitting_title(text, lambda some: bool(pen.textlength(some, font) <= width))
        pen.text((0, number * LINE + 1), _fitting(short, width, pen, font), ink, font)
    return np.asarray(strip, np.uint8)


def paragraph(text: str, width: int, height: int) -> npt.NDArray[np.uint8]:
    """Return a text as a picture, (height, width, 3), in lines that are broken between words."""
    lines: list[str] = []
    for word in text.split():
        if lines and _font().getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    picture = np.full((height, width, 3), PAPER, np.uint8)
    drawn = label([(line, PALE) for line in lines], width)[:height] if lines else picture
    picture[: len(drawn)] = drawn
    return picture


def _font() -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(LINE - 4)


def _fitting_title(text: str, fits: Callable[[str], bool]) -> str:
    """Return ``name=value  name=value`` with shorter names, until it fits: the values tell trials apart.

    >>> _fitting_title("learning_rate=0.001  gamma=0.9", lambda text: len(text) <= 24)
    'learni…=0.001  gamma=0.9'
    """
    pairs = [part.rpartition("=") for part in text.split("  ")]
    while not fits(text) and max(len(name) for name, _, _ in pairs) > 2:
        longest = max(range(len(pairs)), key=lambda number: len(pairs[number][0]))
        name, equals, value = pairs[longest]
        pairs[longest] = f"{name.rstrip('…')[: len(name) - 2]}…", equals, value
        text = "  ".join(map("".join, pairs))
    return text


def _fitting(text: str, width: int, pen: Any, font: Any) -> str:
    """Return a text, cut at its end if it is too wide."""
    while text and pen.textlength(text, font) > width:
        text = text[:-2] + "…" if len(text) > 2 else ""
    return text
