"""Clips side by side in one labelled video, for papers and chat: ``tune-media grid``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tune_media.viewing.grid_choice import Tile

_Picture = npt.NDArray[np.uint8]

_PAPER, _INK, _PALE, _WINNER = (250, 250, 248), (25, 25, 30), (95, 95, 105), (0, 135, 90)
_GAP = 8
_LINE = 18  # height of a line of the label, pixels
_MAX_FPS = 60.0


def write_grid(
    tiles: Sequence[Tile],
    path: str | Path,
    *,
    width: int = 1280,
    columns: int | None = None,
    fps: float | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write one video in which all clips play at the same time, each at its own speed.

    A clip that ends before the others holds its last frame. Frames are decoded, drawn and encoded one at a time.

    Args:
        tiles: The clips and their labels, from ``choose_tiles``.
        path: Where to write: a ``.mp4``, or a ``.gif`` (at most 15 frames per second and 600 frames).
        width: Width of the video, pixels.
        columns: Number of clips side by side. None: about as many as there are rows.
        fps: Frames per second. None: the largest of the clips', at most 60.
        progress: Called after each frame with the number of frames that are done, and of all.

    Returns:
        The path.

    Raises:
        ValueError: ``path`` is neither ``.mp4`` nor ``.gif``, or there is no tile.
        ImportError: Pillow is not installed; it draws the labels.
    """
    path = Path(path).expanduser()
    if path.suffix not in (".mp4", ".gif"):
        raise ValueError(f"A grid is written to a .mp4 or a .gif file, got {str(path)!r}.")
    if not tiles:
        raise ValueError("A grid needs at least one clip.")
    from tune_media.encoding import VideoEncoder, gif_from_video

    grid = _Grid(tiles, width, columns or math.ceil(math.sqrt(len(tiles))))
    fps = fps or min(_MAX_FPS, max(float(tile.row.get("fps") or 30) for tile in tiles))
    total = max(1, math.ceil(max(tile.row.get("frames", 1) / float(tile.row.get("fps") or 30) for tile in tiles) * fps))
    encoder = VideoEncoder(fps)
    for number in range(total):
        encoder.feed(grid.at(number / fps))
        progress(number + 1, total)
    clip = encoder.finish()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(clip.data if path.suffix == ".mp4" else gif_from_video(clip.data, clip.width))
    return path


class _Grid:
    """The picture in which the clips are painted; only clips with a new frame are painted anew."""

    def __init__(self, tiles: Sequence[Tile], width: int, columns: int) -> None:
        columns = min(columns, len(tiles))
        self._tile_width = max(32, (width - (columns + 1) * _GAP) // columns)
        ratio = max(tile.row.get("height", 1) / tile.row.get("width", 1) for tile in tiles)
        self._tile_height = max(16, round(self._tile_width * ratio))
        rows = math.ceil(len(tiles) / columns)
        step_x, step_y = self._tile_width + _GAP, self._tile_height + 2 * _LINE + _GAP
        size = (rows * step_y + _GAP, columns * step_x + _GAP, 3)
        self._canvas = np.full((size[0] + size[0] % 2, size[1] + size[1] % 2, 3), _PAPER, np.uint8)
        self._players = []
        for number, tile in enumerate(tiles):
            left, top = _GAP + number % columns * step_x, _GAP + number // columns * step_y
            self._label(tile, left, top)
            self._players.append((_Player(tile), left, top + 2 * _LINE))

    def at(self, seconds: float) -> _Picture:
        """Return the picture at a time."""
        for player, left, top in self._players:
            frame = player.new_frame(seconds)
            if frame is not None:
                self._paint(frame, left, top)
        return self._canvas

    def _paint(self, frame: _Picture, left: int, top: int) -> None:
        from tune_media.encoding import resize

        height, width = frame.shape[:2]
        scale = min(self._tile_width / width, self._tile_height / height)
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
        left, top = left + (self._tile_width - width) // 2, top + (self._tile_height - height) // 2
        self._canvas[top : top + height, left : left + width] = resize(frame, height=height, width=width)

    def _label(self, tile: Tile, left: int, top: int) -> None:
        image, draw, font = _pillow()
        strip = image.new("RGB", (self._tile_width, 2 * _LINE), _PAPER)
        pen = draw.Draw(strip)
        color = _WINNER if tile.mark else _PALE
        title = _fitting_title(tile.title, lambda text: bool(pen.textlength(text, font) <= self._tile_width))
        for line, (text, ink) in enumerate(((title, _INK), (tile.caption, color))):
            pen.text((0, line * _LINE + 1), _fitting(text, self._tile_width, pen, font), ink, font)
        self._canvas[top : top + 2 * _LINE, left : left + self._tile_width] = np.asarray(strip)


class _Player:
    """Decodes one clip as far as it is needed."""

    def __init__(self, tile: Tile) -> None:
        self._frames: Iterator[_Picture] = tile.row.frames()
        self._fps = float(tile.row.get("fps") or 30)
        self._at = -1

    def new_frame(self, seconds: float) -> _Picture | None:
        """Return the frame at a time if it is another than the last one; None if not, or if the clip is over."""
        frame = None
        while self._at < math.floor(seconds * self._fps + 1e-6):
            following = next(self._frames, None)
            if following is None:
                self._at = 2**62
                return frame
            frame, self._at = following, self._at + 1
        return frame


def _pillow() -> tuple[Any, Any, Any]:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise ImportError("A grid's labels are drawn with Pillow: pip install 'tune-media[overlay]'") from error
    return Image, ImageDraw, ImageFont.load_default(_LINE - 4)


def _fitting_title(text: str, fits: Callable[[str], bool]) -> str:
    """Return ``name=value  name=value`` with shorter names, until it fits: the values tell trials apart.

    >>> _fitting_title("learning_rate=0.001  gamma=0.9", lambda text: len(text) <= 24)
    'learni…=0.001  gamma=0.9'
    """
    pairs = [part.rpartition("=") for part in text.split("  ")]
    while not fits(text) and max(len(name) for name, _, _ in pairs) > 2:
        at = max(range(len(pairs)), key=lambda number: len(pairs[number][0]))
        name, equals, value = pairs[at]
        pairs[at] = f"{name.rstrip('…')[: len(name) - 2]}…", equals, value
        text = "  ".join(map("".join, pairs))
    return text


def _fitting(text: str, width: int, pen: Any, font: Any) -> str:
    """Return a text, cut at its end if it is too wide."""
    while text and pen.textlength(text, font) > width:
        text = text[:-2] + "…" if len(text) > 2 else ""
    return text
