"""The best clips of trials side by side in one video, for papers and chat: ``tune-media grid``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tune_media.encoding import tiling
from tune_media.encoding.gif import gif_from_video
from tune_media.recording.overlay import check_can_draw
from tune_media.storage.filesystem import save_file
from tune_media.values.problems import argument, remedy
from tune_media.viewing.grid_choice import Tile


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
    """Write one video of clips as ``encoding.tiling`` makes it; a clip that cannot be read is left out.

    ``path`` is a ``.mp4``, or a ``.gif`` (at most 15 frames per second and 600 frames), and ``columns`` the number of
    clips side by side, by default about as many as there are rows.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() not in (".mp4", ".gif"):
        raise ValueError(f"A grid is written to a .mp4 or a .gif file, got {str(path)!r}.")
    if not tiles:
        raise ValueError("A grid needs at least one clip.")
    check_can_draw()
    players = [tiling.TilePlayer(_tile_of(tile)) for tile in tiles]
    playing = [player for player in players if player.can_play]
    if not playing:
        raise ValueError(f"No clip of the grid can be read: {players[0].error}")
    try:
        columns = columns or math.ceil(math.sqrt(len(playing)))
        clip = tiling.tiled(playing, width=width, columns=columns, progress=progress)
    except tiling.TooLargeError as error:
        less = "Choose another " + argument("width=") + " or " + argument("columns=") + ", or fewer clips."
        raise ValueError(f"The grid would have {error}. " + remedy(less)) from error
    save_file(path, clip.data if path.suffix.lower() == ".mp4" else gif_from_video(clip.data, clip.width))
    shown = [tile for tile, player in zip(tiles, players, strict=True) if player.can_play]
    return WrittenGrid(path, shown, [player.problem for player in players if player.problem])


def _tile_of(tile: Tile) -> tiling.Tile:
    row = tile.row
    size = {"width": row.get("width", 1), "height": row.get("height", 1), "count": row.get("frames", 1)}
    shown = tile.title, tile.caption, bool(tile.mark), row.frames()
    return tiling.Tile(*shown, **size, fps=float(row.get("fps") or 30))
