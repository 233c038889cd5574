"""Clips side by side in one labelled video, for papers and chat: ``tune-media grid``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tune_media.storage.filesystem import save_file
from tune_media.values.problems import argument, remedy
from tune_media.viewing.grid_choice import Tile
from tune_media.viewing.labels import INK, LINE, PALE, PAPER, WINNER, label

_Picture = npt.NDArray[np.uint8]

_GAP = 8
_MAX_FPS = 60.0
_LARGEST = 16384  # a side of the video, pixels: H.264 has no larger ones


@dataclass(frozen=True)
class WrittenGrid:
    """A grid that has been written."""

    path: Path
    tiles: Sequence[Tile]  # that are shown
    problems: Sequence[str]  # clips that could not be read, or not to their end, each as a sentence


def write_grid(
    tiles: Sequence[Tile],
    path: str | Path,
    *,
    width: int = 1280,
    columns: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> WrittenGrid:
    """Write one video in which all clips play at the same time, each at its own speed.

    A clip that ends before the others holds its last frame. A clip that cannot be read is left out. Frames are decoded,
    drawn and encoded one at a time.

    ``path`` is a ``.mp4``, or a ``.gif`` (at most 15 frames per second and 600 frames), ``width`` that of the video in
    pixels, and ``columns`` the number of clips side by side, by default about as many as there are rows. ``progress``
    is called after each frame with the number of frames that are done, and of all.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() not in (".mp4", ".gif"):
        raise ValueError(f"A grid is written to a .mp4 or a .gif file, got {str(path)!r}.")
    if not tiles:
        raise ValueError("A grid needs at least one clip.")
    from tune_media.encoding.encoder import VideoEncoder
    from tune_media.encoding.gif import gif_from_video

    players = [_TilePlayer(tile) for tile in tiles]
    playing = [player for player in players if player.can_play]
    if not playing:
        raise ValueError(f"No clip of the grid can be read: {players[0].error}")
    grid = _Grid(playing, width, columns or math.ceil(math.sqrt(len(playing))))
    fps = min(_MAX_FPS, max(player.fps for player in playing))
    total = max(1, math.ceil(max(player.tile.row.get("frames", 1) / player.fps for player in playing) * fps))
    encoder = VideoEncoder(fps)
    for number in range(total):
        encoder.feed(grid.at(number / fps))
        progress(number + 1, total)
    clip = encoder.finish()
    save_file(path, clip.data if path.suffix.lower() == ".mp4" else gif_from_video(clip.data, clip.width))
    problems = [player.problem for player in players if player.problem]
    return WrittenGrid(path, [player.tile for player in playing], problems)


class _Grid:
    """The picture in which the clips are painted; only clips with a new frame are painted anew."""

    def __init__(self, players: Sequence[_TilePlayer], width: int, columns: int) -> None:
        tiles = [player.tile for player in players]
        columns = min(columns, len(tiles))
        self._tile_width = max(32, (width - (columns + 1) * _GAP) // columns)
        ratio = max(tile.row.get("height", 1) / tile.row.get("width", 1) for tile in tiles)
        self._tile_height = max(16, round(self._tile_width * ratio))
        rows = math.ceil(len(tiles) / columns)
        step_x, step_y = self._tile_width + _GAP, self._tile_height + 2 * LINE + _GAP
        size = (rows * step_y + _GAP, columns * step_x + _GAP, 3)
        if max(size) > _LARGEST:
            raise ValueError(
                f"The grid would have {size[1]} x {size[0]} pixels; a side has at most {_LARGEST}. "
                + remedy("Choose another " + argument("width=") + " or " + argument("columns=") + ", or fewer clips.")
            )
        self._canvas = np.full((size[0] + size[0] % 2, size[1] + size[1] % 2, 3), PAPER, np.uint8)
        self._players = []
        for number, player in enumerate(players):
            left, top = _GAP + number % columns * step_x, _GAP + number // columns * step_y
            tile = player.tile
            lines = [(tile.title, INK), (tile.caption, WINNER if tile.mark else PALE)]
            self._canvas[top : top + 2 * LINE, left : left + self._tile_width] = label(lines, self._tile_width)
            self._players.append((player, left, top + 2 * LINE))

    def at(self, seconds: float) -> _Picture:
        """Return the picture at a time."""
        for player, left, top in self._players:
            frame = player.new_frame(seconds)
            if frame is not None:
                self._paint(frame, left, top)
        return self._canvas

    def _paint(self, frame: _Picture, left: int, top: int) -> None:
        from tune_media.encoding.frames import resize

        height, width = frame.shape[:2]
        scale = min(self._tile_width / width, self._tile_height / height)
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
        left, top = left + (self._tile_width - width) // 2, top + (self._tile_height - height) // 2
        self._canvas[top : top + height, left : left + width] = resize(frame, height=height, width=width)


class _TilePlayer:
    """Decodes one clip as far as it is needed; ``error`` says why it cannot be read, or not to its end."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        self.fps = float(tile.row.get("fps") or 30)
        self.error = ""
        self._frames = tile.row.frames()
        self._number, self._is_over = 0, False
        self._unseen = self._next()
        self.can_play = self._unseen is not None  # its first frame can be decoded

    @property
    def problem(self) -> str:
        """A sentence about the error, or nothing if there is none."""
        fate = f"stops at frame {self._number + 1}" if self.can_play else "is left out"
        return f"A clip {fate}: {self.error}" if self.error else ""

    def new_frame(self, seconds: float) -> _Picture | None:
        """Return the frame at a time if it is another than the last one; None if not, or if the clip is over."""
        frame, self._unseen = self._unseen, None
        while not self._is_over and self._number < math.floor(seconds * self.fps + 1e-6):
            following = self._next()
            if following is None:
                self._is_over = True
            else:
                frame, self._number = following, self._number + 1
        return frame

    def _next(self) -> _Picture | None:
        try:
            return next(self._frames, None)
        except (OSError, ValueError) as error:
            self.error = str(error)
            return None
