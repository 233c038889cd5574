"""Frames of clips in rows, as one picture: ``tune-media filmstrip`` and ``CatalogRow.filmstrip``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tune_media.encoding import labels
from tune_media.recording.overlay import check_can_draw
from tune_media.values import checks
from tune_media.values.image import Image
from tune_media.values.problems import argument, remedy

_Picture = npt.NDArray[np.uint8]
_GAP = 4
_NARROWEST = 16  # a frame, pixels
_NARROWEST_ROW = 64
_MOST_PIXELS = 250_000_000  # of a picture that FFmpeg encodes


@dataclass(frozen=True)
class Strip:
    """A row of the picture: a clip, with lines of text above it."""

    content: bytes  # of the clip's file
    facts: Mapping[str, Any]  # its index line, as far as it is known: ``frame_stride``, ``episode_length``
    lines: Sequence[tuple[str, labels.Color]] = ()
    name: str = ""  # of the clip's file, for the message of an error


def filmstrip(strips: Sequence[Strip], *, frames: int = 8, width: int = 1600) -> Image:
    """Return frames of clips as one picture: a row for each clip, from its first to its last frame.

    Under each frame is the env step that it shows, or the number of the frame if the stride of the frames is not known.

    A clip has ``frames`` of them, evenly spread; fewer if it has fewer, or if they would be narrower than 16 pixels.
    """
    if not strips:
        raise ValueError("A filmstrip needs at least one clip.")
    sizes = {"frames": frames, "width": width}
    checks.check_each("filmstrip", sizes, dict.fromkeys(sizes, checks.above_0(whole=True)))
    if width < _NARROWEST_ROW:
        raise ValueError(argument("filmstrip(width=...)") + f" takes at least {_NARROWEST_ROW} pixels, got {width}.")
    check_can_draw()
    frames = _in_a_row(frames, width)
    cell = (int(width) - _GAP) // frames - _GAP
    rows = [_row(strip, frames, cell, width) for strip in strips]
    height = sum(len(row) for row in rows)
    if width * height > _MOST_PIXELS:
        less = "choose a smaller " + argument("width=") + ", more " + argument("frames=") + ", or fewer clips."
        size = f"The filmstrip would have {width} x {height} pixels, and a picture has at most {_MOST_PIXELS:,}: "
        raise ValueError(size + remedy(less))
    return Image(np.concatenate(rows))


def _row(strip: Strip, frames: int, cell: int, width: int) -> _Picture:
    from tune_media.encoding.frames import resize

    chosen = list(_chosen(strip, frames, width))
    height = max(1, round(cell * chosen[0][1].shape[0] / chosen[0][1].shape[1]))
    top = labels.LINE * len(strip.lines) + _GAP
    row = np.full((top + height + labels.LINE + _GAP, width, 3), labels.PAPER, np.uint8)
    if strip.lines:
        row[_GAP:top, _GAP : width - _GAP] = labels.label(strip.lines, width - 2 * _GAP)
    for place, (number, picture) in enumerate(chosen):
        left = _GAP + place * (cell + _GAP)
        row[top : top + height, left : left + cell] = resize(picture, height=height, width=cell)
        step = step_of(strip.facts, number)
        caption = f"frame {number + 1}" if step is None else f"step {step}"
        under = slice(top + height, top + height + labels.LINE)
        row[under, left : left + cell] = labels.label([(caption, labels.PALE)], cell)
    return row


def frame_numbers(strip: Strip, frames: int, width: int) -> list[int]:
    """Return the numbers of the frames of a clip that a row shows, from 0 on."""
    from tune_media.encoding.decode import probe_video

    count, most = probe_video(strip.content, strip.name).frames, _in_a_row(frames, width)
    return sorted({round(number * (count - 1) / max(1, most - 1)) for number in range(most)})


def _in_a_row(frames: int, width: int) -> int:
    return max(1, min(int(frames), (int(width) - _GAP) // (_NARROWEST + _GAP)))


def _chosen(strip: Strip, frames: int, width: int) -> Iterator[tuple[int, _Picture]]:
    """Yield the frames of a row with their numbers."""
    from tune_media.encoding.decode import decode_video

    wanted = frame_numbers(strip, frames, width)
    frames_of_clip = enumerate(decode_video(strip.content, strip.name))
    yield from ((number, frame) for number, frame in frames_of_clip if number in wanted)


def step_of(facts: Mapping[str, Any], number: int) -> int | None:
    """Return the env step that a frame shows; None if the stride of the frames is not known.

    >>> step_of({"frame_stride": 3, "episode_length": 10}, 4), step_of({}, 4)
    (10, None)
    """
    stride = facts.get("frame_stride")
    if not isinstance(stride, int):
        return None
    return int(min(number * stride, facts.get("episode_length") or number * stride))
