"""The tiled clip of a round: the clips that its selectors kept, side by side, made when they are stored.

``python -m tune_media.values.tiled`` is the process that makes one of the clips' files, beside training.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from tune_media.values.child_process import stand_back
from tune_media.values.file_medium import FileMedium
from tune_media.values.medium import Medium, joined, new_id
from tune_media.values.plain import pack, unpack
from tune_media.values.secrets import error_text
from tune_media.values.video import Video

MOST_TILES = 4
_NARROWEST, _WIDEST = 160, 640  # a tile, pixels: the lines above it are to be read
_MOST_WIDTH = 1280


@dataclass(frozen=True)
class ClipTile:
    """A kept episode: its clip, or why it has none."""

    title: str  # the selectors that chose it
    caption: str
    clip: Video | None
    why: str = ""


class TiledClips(Medium):
    """The clips of a round that are to be tiled: a picture of clips, and no episode.

    The logger callbacks make it of the clips' files, beside training; elsewhere ``content()`` does.
    """

    kind: ClassVar[str] = "tiled"
    tiles: tuple[ClipTile, ...]

    def __init__(self, tiles: Sequence[ClipTile]) -> None:
        left_out = len(tiles) - MOST_TILES
        note = f"{left_out} more clip(s) are left out" if left_out > 0 else None
        self._set(tiles=tuple(tiles[:MOST_TILES]), id=new_id(), note=note)

    @property
    @override
    def suffix(self) -> str:
        return ".mp4"

    @property
    @override
    def is_rendered(self) -> bool:
        return False

    @override
    def content(self) -> bytes:
        tiles = [(tile.title, tile.caption, tile.clip and tile.clip.content(), tile.why) for tile in self.tiles]
        return tiled_clip(tiles, self.id, self.note).data

    def __repr__(self) -> str:
        return f"TiledClips({', '.join(tile.title for tile in self.tiles)})"


def tiled_clip(tiles: Sequence[Sequence[Any]], id: str, note: str | None) -> FileMedium:
    """Return the finished medium; a tile is a title, a caption, the clip's file or None, and why there is none.

    Raises ValueError if no clip can be read.
    """
    from tune_media.encoding import tiling

    made = [
        tiling.Tile(title, caption, why=why) if data is None else tiling.Tile.of_file(title, caption, data)
        for title, caption, data, why in tiles
    ]
    players = [tiling.TilePlayer(tile) for tile in made]
    widths = [player.tile.width for player in players if player.can_play]
    if not widths:
        raise ValueError(f"none of its clips can be read: {players[0].error}")
    columns = 2 if len(players) == MOST_TILES else len(players)
    width = min(_MOST_WIDTH, columns * min(_WIDEST, max(_NARROWEST, *widths)))
    clip = tiling.tiled(players, width=width, columns=columns)
    facts = {"format": "mp4", "width": clip.width, "height": clip.height, "frames": clip.frames, "fps": clip.fps}
    problems = [f"{player.tile.title}: {player.error}" for player in players if player.error]
    return FileMedium(TiledClips.kind, id, ".mp4", clip.data, facts, joined(note, *problems))


def main() -> None:
    """Answer one request on the standard input: the arguments of ``tiled_clip``; an error is answered as its text."""
    stand_back(int(sys.argv[1]))
    try:
        answer: Any = tiled_clip(*unpack(sys.stdin.buffer.read()))
    except Exception as error:
        answer = error_text(error)
    sys.stdout.buffer.write(pack(answer))


if __name__ == "__main__":
    main()
