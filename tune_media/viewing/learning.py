"""Watch it learn: the clips of one seed through all checkpoints of a trial, as one clip and as one picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tune_media.encoding import EncodedVideo, VideoEncoder, resize, target_size
from tune_media.values.image import Image
from tune_media.values.number import counted
from tune_media.viewing.catalog_row import CatalogRow
from tune_media.viewing.filmstrip import Strip, filmstrip
from tune_media.viewing.labels import INK, PALE, Color, label

_LEAST_WIDTH = 320  # at which the captions can be read, pixels
_HELD_SECONDS = 0.5  # the last frame of each clip


def learning_clip(rows: Sequence[CatalogRow]) -> EncodedVideo:
    """Return one clip in which clips play one after the other, each under its iteration and its return.

    Args:
        rows: The clips, in the order of the training. All are shown at the size and the speed of the first one.

    Raises:
        FileNotFoundError: A file has been deleted.
        ImportError: Pillow is not installed; it draws the captions.
    """
    first = rows[0]
    fps, wanted = float(first.get("fps") or 30), max(_LEAST_WIDTH, int(first["width"]))
    width, height = target_size(int(first["width"]), int(first["height"]), wanted, None)
    encoder = VideoEncoder(fps)
    for row in rows:
        caption = label(_caption(row, rows), width)
        picture = caption
        for frame in row.frames():
            shown = frame if frame.shape[:2] == (height, width) else resize(frame, height=height, width=width)
            picture = np.concatenate([caption, shown])
            encoder.feed(picture)
        for _ in range(round(_HELD_SECONDS * fps)):
            encoder.feed(picture)
    return encoder.finish()


def learning_picture(rows: Sequence[CatalogRow]) -> Image:
    """Return frames of clips as one picture: a row for each clip, under its iteration and its return.

    Args:
        rows: The clips, in the order of the training.

    Raises:
        FileNotFoundError: A file has been deleted.
        ImportError: Pillow is not installed; it draws the captions.
    """
    return filmstrip([Strip(row.read_bytes(), row, _caption(row, rows), row["file"]) for row in rows])


def _caption(row: CatalogRow, rows: Sequence[CatalogRow]) -> list[tuple[str, Color]]:
    title = f"iteration {row['training_iteration']} of {rows[-1]['training_iteration']}"
    return [(title, INK), (f"return {row['episode_return']:g}, {counted(row['episode_length'], 'step')}", PALE)]
