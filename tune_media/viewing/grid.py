"""Clips side by side in one labelled video, for papers and chat: ``tune-media grid``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tune_media.viewing.grid_choice import Tile
from tune_media.viewing.labels import INK, LINE, PALE, PAPER, WINNER, label

_Picture = npt.NDArray[np.uint8]

_GAP = 8
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
        step_x, step_y = self._tile_width + _GAP, self._tile_height + 2 * LINE + _GAP
        size = (rows * step_y + _GAP, columns * step_x + _GAP, 3)
        self._canvas = np.full((size[0] + size[0] % 2, size[1] + size[1] % 2, 3), PAPER, np.uint8)
        self._players = []
        for number, tile in enumerate(tiles):
            left, top = _GAP + number % columns * step_x, _GAP + number // columns * step_y
            self._label(tile, left, top)
            self._players.append((_Player(tile), left, top + 2 * LINE))

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
        lines = [(tile.title, INK), (tile.caption, WINNER if tile.mark else PALE)]
        self._canvas[top : top + 2 * LINE, left : left + self._tile_width] = label(lines, self._tile_width)


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
