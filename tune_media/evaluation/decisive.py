"""The seeds on which two policies differ most, and both clips, cut around the first step at which they differ."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tune_media.encoding.decode import decode_video
from tune_media.encoding.encoder import encode_video
from tune_media.encoding.picture_files import jpeg_from_frame
from tune_media.replay.tape import Tape, are_equal
from tune_media.storage.index_lines import Line
from tune_media.values.secrets import error_text
from tune_media.viewing.single_page import data_uri
from tune_media.viewing.taped_episodes import TapedEpisode

logger = logging.getLogger("tune_media")

_BEFORE = 1.0  # seconds of the clip before the first difference, and after the end of the shorter episode
_MOST_FRAMES = 300
_HEIGHT = 320  # pixels, at most
_ROUNDING = 1e-6  # of the largest value of an action's element: steps.js has it, too


@dataclass(frozen=True)
class CutClip:
    """A part of a clip."""

    src: str  # the clip as a data URI
    start: str  # its first frame as a data URI, shown until the clip plays
    end: str  # its last frame as a data URI, for print
    first: int  # the step that its first frame shows
    last: int  # the step that its last frame shows
    stride: int  # the number of steps between two frames
    frames: int
    fps: float
    length: int  # the number of steps of the whole episode


def decisive_seeds(scores: Mapping[int, tuple[float, float]]) -> list[int]:
    """Return the seeds on which two scores differ by more than rounding, the largest difference first.

    >>> decisive_seeds({0: (1.0, 1.0), 1: (1.0, 3.0), 2: (9.0, 4.0), 3: (0.3, 0.1 + 0.2)})
    [2, 1]
    """
    differing = [seed for seed, both in scores.items() if not math.isclose(*both, rel_tol=1e-10, abs_tol=1e-12)]
    return sorted(differing, key=lambda seed: -abs(scores[seed][1] - scores[seed][0]))


@dataclass(frozen=True)
class DecisiveSeed:
    """What the base and the candidate did on a seed."""

    differs_at: int | None  # the first step at which the actions, or what the env returned, differ; None: not known
    clips: tuple[CutClip | None, CutClip | None]  # None: there is none


def differs_at(*episodes: TapedEpisode | None) -> int | None:
    """Return the first step at which two episodes differ; None if there are not two, or a tape cannot be read."""
    try:
        tapes = [Tape.unpacked(episode.tape()) for episode in episodes if episode is not None]
    except (OSError, ValueError) as error:
        logger.warning("tune_media: where two episodes begin to differ is not known: %s", error_text(error))
        return None
    return first_difference(*tapes) if len(tapes) == 2 else None


def decisive(base: TapedEpisode | None, candidate: TapedEpisode | None) -> DecisiveSeed:
    """Return both stored clips of a seed; an episode without a tape is None. Raises OSError, ValueError."""
    both, differs = (base, candidate), differs_at(base, candidate)
    lines = [None if episode is None else _line(episode) for episode in both]
    shorter = min((line["frames"] for line in lines if line is not None), default=0)
    ours, theirs = (
        None if episode is None or line is None else _cut(episode, line, differs or 0, shorter)
        for episode, line in zip(both, lines, strict=True)
    )
    return DecisiveSeed(differs, (ours, theirs))


def first_difference(ours: Tape, theirs: Tape) -> int:
    """Return the first step at which the actions of two tapes differ by more than rounding.

    If no action differs, it is the first step at which their envs returned something else. Of most steps a tape has one
    byte of the checksum, which is the same of two other observations once in 256 times; the next step tells.
    """
    shorter = min(len(ours), len(theirs))
    acted = _differ(*([tape.actions[step] for step in range(shorter)] for tape in (ours, theirs)))
    returned = [bool((ours.checks[step] ^ theirs.checks[step]) & 0xFF) for step in range(shorter + 1)]
    return 1 + acted.index(True) if any(acted) else returned.index(True) if any(returned) else shorter


def _differ(ours: Sequence[Any], theirs: Sequence[Any]) -> list[bool]:
    """Return of each step whether the actions differ: numbers by more than rounding, others at all."""
    try:
        tables = np.array([ours, theirs])
    except ValueError:  # arrays of different lengths
        tables = np.array(None)
    if tables.dtype.kind not in "biuf" or not tables.size:
        return [not are_equal(*both) for both in zip(ours, theirs, strict=True)]
    numbers = tables.astype(float).reshape(2, len(ours), -1)
    most = _ROUNDING * np.nan_to_num(np.abs(numbers), posinf=0).max(axis=(0, 1))
    alike = np.isclose(numbers[0], numbers[1], rtol=0, atol=most, equal_nan=True)
    return [not one for one in alike.all(axis=1)]


def _line(episode: TapedEpisode) -> Line | None:
    """Return the index line of an episode's clip; of several views, the last."""
    path = episode.trial.clip_of(episode.id)
    return None if path is None else episode.trial.line(path)


def _cut(episode: TapedEpisode, line: Line, differs_at: int, shorter: int) -> CutClip:
    """Cut a clip: from a second before the first step that differs to a second after the frames of the shorter one."""
    fps, stride = float(line["fps"]), line.get("frame_stride") or 1
    margin, length = round(_BEFORE * fps), int(episode.row["episode_length"])
    start = max(0, min(differs_at // stride, line["frames"] - 1) - margin)
    stop = min(line["frames"], max(start, shorter) + margin)
    every = -(-(stop - start) // _MOST_FRAMES)
    frames = islice(decode_video(episode.trial.read_media(line["path"])), start, stop)
    made = encode_video(frames, fps, every=every, height=min(_HEIGHT, line["height"] // 2 * 2))
    shown = decode_video(made.data)
    begin = next(shown)
    (end,) = deque(shown, maxlen=1) or (begin,)
    return CutClip(
        data_uri(made.data, "clip.mp4"),
        data_uri(jpeg_from_frame(begin), "start.jpg"),
        data_uri(jpeg_from_frame(end), "end.jpg"),
        start * stride,
        min((stop - 1) * stride, length),
        stride * every,
        made.frames,
        made.fps,
        length,
    )
