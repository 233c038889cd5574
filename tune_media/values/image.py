"""A picture."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from tune_media.values.checks import a_count, a_text, as_shown
from tune_media.values.medium import Medium, new_id

_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_HEATMAP = 16384  # pixels of a side
_HEAT = ((0, 0, 60), (90, 20, 130), (190, 50, 90), (245, 130, 30), (255, 250, 170))  # from smallest to largest


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Image(Medium):
    """A picture, stored as PNG.

    >>> Image(np.zeros((48, 64, 3), np.uint8), caption="the start")
    Image(64x48)

    Args:
        pixels: HWC uint8 (1, 3 or 4 channels) or HW uint8 (grey).
        caption: A line of text to show with it.

    Raises:
        ValueError: The array has another shape or type.
        TypeError: ``pixels`` is no array, or ``caption`` no text.
    """

    kind: ClassVar[str] = "image"
    suffix = ".png"

    data: bytes
    width: int
    height: int
    caption: str | None
    id: str

    def __init__(self, pixels: npt.ArrayLike, *, caption: str | None = None) -> None:
        from tune_media.encoding.picture_files import (
            png_from_frame,  # loads PyAV, which code that only reads results does not need
        )

        a_text("'the start'", or_none=True).check("Image(caption=...)", caption)
        if isinstance(pixels, (str, bytes)) or pixels is None:
            raise TypeError(f"Image takes HWC or HW uint8 pixels, got {as_shown(pixels)}; Image.from_png takes bytes.")
        shape = np.shape(pixels)
        if len(shape) not in (2, 3):
            raise ValueError(
                f"Image takes one picture, HWC or HW, got shape {shape}. For a clip, use tune_media.Video."
            )
        height, width = shape[:2]
        self._fill(png_from_frame(pixels), width, height, caption)

    @classmethod
    def from_png(cls, data: bytes, *, caption: str | None = None) -> Image:
        """Wrap the bytes of a finished PNG.

        >>> Image.from_png(Image.heatmap([[0, 1]]).data)
        Image(2x1)

        Raises:
            ValueError: They are not a PNG.
        """
        if not isinstance(data, bytes) or data[:8] != _PNG or len(data) < 24:
            raise ValueError(f"Image.from_png takes the bytes of a PNG file, got {as_shown(data)}.")
        image = cls.__new__(cls)
        width, height = struct.unpack(">II", data[16:24])
        a_text("'the start'", or_none=True).check("Image.from_png(caption=...)", caption)
        image._fill(data, width, height, caption)
        return image

    @classmethod
    def heatmap(cls, values: npt.ArrayLike, *, scale: int = 1, caption: str | None = None) -> Image:
        """Draw a table of numbers, from dark (the smallest) to bright (the largest); NaN and infinity are black.

        >>> Image.heatmap([[0, 1, 2], [3, 4, 5]], scale=10)
        Image(30x20)

        Args:
            values: Numbers with two axes: rows from the top, columns from the left.
            scale: Pixels for each number, in both directions.
            caption: A line of text to show with it.

        Raises:
            ValueError: The values are no numbers with two axes, there are none, ``scale`` is no whole number, or a
                side has more than 16,384 pixels.
        """
        a_count("a whole number of pixels from 1").check("Image.heatmap(scale=...)", scale)
        try:
            table = np.asarray(values, np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"Image.heatmap takes a table of numbers, rows of equal length, got {as_shown(values)}."
            ) from None
        if table.ndim != 2 or not table.size:
            raise ValueError(f"Image.heatmap takes a table of numbers (two axes), got shape {table.shape}.")
        if scale * max(table.shape) > _MAX_HEATMAP:
            raise ValueError(
                f"Image.heatmap(scale={scale}) of shape {table.shape} has a side of more than {_MAX_HEATMAP} pixels."
            )
        finite = np.isfinite(table)
        low, high = (table[finite].min(), table[finite].max()) if finite.any() else (0.0, 0.0)
        share = np.where(finite, (table - low) / ((high - low) or 1.0), 0.0)
        stops = np.linspace(0, 1, len(_HEAT))
        channels = [np.interp(share, stops, [colour[i] for colour in _HEAT]) for i in range(3)]
        pixels = np.where(finite[..., None], np.stack(channels, axis=-1), 0).astype(np.uint8)
        return cls(pixels.repeat(scale, axis=0).repeat(scale, axis=1), caption=caption)

    def _fill(self, data: bytes, width: int, height: int, caption: str | None) -> None:
        self._set(data=data, width=width, height=height, caption=caption, id=new_id())

    @override
    def facts(self) -> dict[str, Any]:
        facts = {"format": "png", "width": self.width, "height": self.height, "caption": self.caption}
        return {name: value for name, value in facts.items() if value is not None}

    def _repr_png_(self) -> bytes:
        return self.data  # a notebook shows it

    def __repr__(self) -> str:
        return f"Image({self.width}x{self.height})"
