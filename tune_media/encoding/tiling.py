"""Clips side by side in one labelled video: ``tune-media grid``, and the tiled clip of a round."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tune_media.encoding.decode import decode_video, probe_video
from tune_media.encoding.encoder import EncodedVideo, VideoEncoder
from tune_media.encoding.frames import Frame, resize
from tune_media.encoding.labels import INK, LINE, PALE, PAPER, WINNER, label, paragraph

_LARGEST = 16384  # a side of the video, pixels: H.264 has no larger ones
_GAP = 8
_MAX_FPS = 60.0


class TooLargeError(ValueError):
    """H.264 has no video of this size."""


@dataclass(frozen=True)
class Tile:
    """A clip of a tiled video, with the two lines above it."""

    title: str  # such as ``lr=0.001  gamma=0.98``: names are shortened first
    caption: str = ""
    is_marked: bool = False
    frames: Iterator[Frame] = field(default_factory=lambda: iter(()))
    width: int = 1
    height: int = 1
    count: int = 1  # of its frames
    fps: float = 30.0
    why: str = ""  # there is no clip: shown in its place

    @classmethod
    def of_file(cls, title: str, caption: str, data: bytes) -> Tile:
        """Return the tile of a clip's file, or one that says why it cannot be read."""
        try:
            clip = probe_video(data)
        except ValueError as error:
            return cls(title, caption, why=str(error))
        size = {"width": clip.width, "height": clip.height, "count": clip.frames, "fps": clip.fps or 30.0}
        return cls(title, caption, frames=decode_video(data), **size)  # type: ignore[arg-type]


class TilePlayer:
    """Decodes one clip as far as it is needed; ``error`` says why it cannot be read, or not to its end."""

    def __init__(self, tile: Tile) -> None:
        self.tile, self.error = tile, tile.why
        self._number, self._is_over = 0, False
        self._unseen = self._next()
        self.can_play = self._unseen is not None  # its first frame can be decoded

    @property
    def problem(self) -> str:
        """A sentence about the error, or nothing if there is none."""
        fate = f"stops at frame {self._number + 1}" if self.can_play else "is left out"
        return f"A clip {fate}: {self.error}" if self.error else ""

    def new_frame(self, seconds: float) -> Frame | None:
        """Return the frame at a time if it is another than the last one; None if not, or if the clip is over."""
        frame, self._unseen = self._unseen, None
        while not self._is_over and self._number < math.floor(seconds * self.tile.fps + 1e-6):
            following = self._next()
            if following is None:
                self._is_over = True
            else:
                frame, self._number = following, self._number + 1
        return frame

    def _next(self) -> Frame | None:
        try:
            return next(self.tile.frames, None)
        except (OSError, ValueError) as error:
            self.error = str(error)
            return None


def tiled(
    players: Sequence[TilePlayer],
    *,
    width: int,
    columns: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EncodedVideo:
    """Return one video in which all clips play at the same time, each at its own speed; at least one can play.

    A clip that ends before the others holds its last frame; in place of one that cannot play is the reason. Frames are
    decoded, drawn and encoded one at a time. ``width`` is that of the video, pixels. ``progress`` is called after each
    frame with the number of frames that are done, and of all. Raises TooLargeError.
    """
    canvas = _Canvas(players, width, columns)
    playing = [player.tile for player in players if player.can_play]
    fps = min(_MAX_FPS, max(tile.fps for tile in playing))
    total = max(1, math.ceil(max(tile.count / tile.fps for tile in playing) * fps))
    encoder = VideoEncoder(fps)
    for number in range(total):
        encoder.feed(canvas.at(number / fps))
        progress(number + 1, total)
    return encoder.finish()


class _Canvas:
    """The picture in which the clips are painted; only clips with a new frame are painted anew."""

    def __init__(self, players: Sequence[TilePlayer], width: int, columns: int) -> None:
        columns = min(columns, len(players))
        self._tile_width = max(32, (width - (columns + 1) * _GAP) // columns)
        ratio = max(player.tile.height / player.tile.width for player in players if player.can_play)
        self._tile_height = max(16, round(self._tile_width * ratio))
        rows = math.ceil(len(players) / columns)
        step_x, step_y = self._tile_width + _GAP, self._tile_height + 2 * LINE + _GAP
        size = (rows * step_y + _GAP, columns * step_x + _GAP, 3)
        if max(size) > _LARGEST:
            raise TooLargeError(f"{size[1]} x {size[0]} pixels; a side has at most {_LARGEST}")
        self._picture = np.full((size[0] + size[0] % 2, size[1] + size[1] % 2, 3), PAPER, np.uint8)
        self._players = []
        for number, player in enumerate(players):
            left, top = _GAP + number % columns * step_x, _GAP + number // columns * step_y
            tile = player.tile
            lines = [(tile.title, INK), (tile.caption, WINNER if tile.is_marked else PALE)]
            self._picture[top : top + 2 * LINE, left : left + self._tile_width] = label(lines, self._tile_width)
            top += 2 * LINE
            if player.can_play:
                self._players.append((player, left, top))
            else:
                note = paragraph(player.error, self._tile_width, self._tile_height)
                self._picture[top : top + self._tile_height, left : left + self._tile_width] = note

    def at(self, seconds: float) -> Frame:
        """Return the picture at a time."""
        for player, left, top in self._players:
            frame = player.new_frame(seconds)
            if frame is not None:
                self._paint(frame, left, top)
        return self._picture

    def _paint(self, frame: Frame, left: int, top: int) -> None:
        height, width = frame.shape[:2]
        scale = min(self._tile_width / width, self._tile_height / height)
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
        left, top = left + (self._tile_width - width) // 2, top + (self._tile_height - height) // 2
        self._picture[top : top + height, left : left + width] = resize(frame, height=height, width=width)
