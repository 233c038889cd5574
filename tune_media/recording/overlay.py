"""Text and a small curve drawn into the frames: step, reward, return, action, or anything a function says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tune_media.encoding.frames import Frame
from tune_media.steps import StepFacts
from tune_media.values.convert import as_array
from tune_media.values.installing import pip_install

_MIN_FONT_PIXELS = 9
_FONT_SHARE = 22  # a line of text is this part of the picture's height
_CURVE_SHARE = 6
_DIM = 0.35
_CURVE_POINTS = 600
_ACTION_CHARACTERS = 40

Part = str | Callable[[StepFacts], str]  # one of ``values.options.OVERLAYS``, or a function that returns the text


def check_can_draw() -> None:
    """Check that text can be drawn into pictures. Raises ImportError without Pillow."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise ImportError("Text is drawn with Pillow: " + pip_install("overlay")) from error


class Overlay:
    """Draws into the frames of one episode."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)
        self._curve = _Curve()
        self._fonts: dict[int, Any] = {}

    def follow(self, facts: StepFacts) -> None:
        """Add a step to the curve. Call it once for each step, before ``draw`` if its frame is kept."""
        if "curve" in self._parts:
            self._curve.add(facts.episode_return)

    def draw(self, frame: Frame, facts: StepFacts, texts: Sequence[str] = ()) -> Frame:
        """Return the frame (HWC uint8, three channels) with the overlay; ``texts`` are those of the functions."""
        from PIL import Image, ImageDraw, ImageFont

        picture = Image.fromarray(frame)
        draw = ImageDraw.Draw(picture)
        size = max(_MIN_FONT_PIXELS, frame.shape[0] // _FONT_SHARE)
        if size not in self._fonts:
            self._fonts[size] = ImageFont.load_default(size)
        font = self._fonts[size]
        top = 0
        for line in self._lines(facts, texts, lambda text: draw.textlength(text, font), frame.shape[1] - 4):
            _, _, right, lower = map(int, draw.textbbox((2, top + 1), line, font))
            box = (0, top, min(frame.shape[1], right + 3), lower + 2)
            _darken(picture, box)
            draw.text((2, top + 1), line, (255, 255, 255), font)
            top = box[3]
        if "curve" in self._parts:
            self._draw_curve(picture, draw)
        return np.asarray(picture)

    def _lines(self, facts: StepFacts, texts: Sequence[str], width_of: Callable[[str], float], width: int) -> list[str]:
        """Put as many parts into a line as fit."""
        lines, of_functions = list[str](), iter(texts)
        for part in self._parts:
            text = next(of_functions) if callable(part) else _value(part, facts)
            if text and lines and width_of(f"{lines[-1]}  {text}") <= width:
                lines[-1] += f"  {text}"
            elif text:
                lines.append(text)
        return lines

    def _draw_curve(self, picture: Any, draw: Any) -> None:
        width, height = picture.size
        top = height - max(8, height // _CURVE_SHARE)
        _darken(picture, (0, top, width, height))
        low, span = self._curve.least, (self._curve.largest - self._curve.least) or 1.0
        last = max(1, len(self._curve.values) - 1)
        points = [
            (x * (width - 1) / last, height - 2 - (value - low) / span * (height - top - 4))
            for x, value in enumerate(self._curve.values)
        ]
        draw.line(points, (255, 210, 60), max(1, height // 200))


def _value(part: str, facts: StepFacts) -> str:
    if part == "step":
        return f"t {facts.step}"
    if part == "reward":
        return f"r {facts.reward:.3g}"
    if part == "return":
        return f"R {facts.episode_return:.4g}"
    return f"a {_short(facts.action)}" if part == "action" and facts.action is not None else ""


class _Curve:
    """The return so far, in few points however long the episode is."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.least, self.largest = math.inf, -math.inf
        self._stride, self._count = 1, 0

    def add(self, value: float) -> None:
        if not math.isfinite(value):
            return
        self.least, self.largest = min(self.least, value), max(self.largest, value)
        if self._count % self._stride == 0:
            self.values.append(value)
        if len(self.values) > _CURVE_POINTS:
            self.values = self.values[::2]
            self._stride *= 2
        self._count += 1


def _short(action: Any) -> str:
    if isinstance(action, dict):
        return " ".join(f"{name}:{_short(value)}" for name, value in action.items())[:_ACTION_CHARACTERS]
    if isinstance(action, (tuple, list)):
        return " ".join(_short(value) for value in action)[:_ACTION_CHARACTERS]
    array = as_array(action)
    if array.dtype.kind not in "biuf":
        return str(action)[:_ACTION_CHARACTERS]
    if array.ndim == 0:
        return f"{array.item():.3g}" if array.dtype.kind == "f" else str(array.item())
    return " ".join(f"{value:.2g}" for value in array.ravel()[:4]) + (" …" if array.size > 4 else "")


def _darken(picture: Any, box: tuple[int, int, int, int]) -> None:
    region = picture.crop(box)
    picture.paste(region.point(lambda value: int(value * _DIM)), box)
