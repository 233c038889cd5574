"""The seeds on which two policies differ most, and the clips of both, cut around the first step at which they differ.

Nothing calls it yet: the gate's own page will.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tune_media.encoding.decode import decode_video
from tune_media.encoding.encoder import encode_video
from tune_media.encoding.picture_files import jpeg_from_frame
from tune_media.evaluation.clip_renderer import ClipRenderer
from tune_media.replay.tape import Tape, are_equal
from tune_media.selection import Selector
from tune_media.values.video import Video
from tune_media.viewing.single_page import data_uri
from tune_media.viewing.taped_episodes import TapedEpisode

_BEFORE = 1.0  # seconds of the clip before the first difference, and after the end of the shorter episode
_MOST_FRAMES = 300
_HEIGHT = 320  # pixels, at most
_ROUNDING = 1e-6  # of the largest value of an action's element: steps.js has it, too


@dataclass(frozen=True)
class CutClip:
    """A part of a clip."""

    src: str  # the clip as a data URI
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


def decisive(
    pairs: Sequence[tuple[TapedEpisode | None, TapedEpisode | None]], renderer: ClipRenderer
) -> Iterator[dict[str, Any]]:
    """Yield the clips of pairs of episodes, as JSON; what is missing is among the renderer's problems.

    ``differs_at`` is the first step at which the actions, or what the env returned, differ; None: not known. ``clips``
    has the base's ``CutClip`` and the candidate's; None: there is none. An episode without a tape is None.
    """
    renderer.selectors = (Selector("decisive", list, None),)
    for both in pairs:
        tapes = [None if episode is None else Tape.unpacked(episode.tape()) for episode in both]
        differs_at = None if None in tapes else first_difference(*tapes)  # type: ignore[arg-type]
        videos = [None if episode is None else _video(episode, renderer) for episode in both]
        ends = [video.frames for video in videos if video is not None]
        cut = [
            None if video is None or episode is None else vars(_cut(video, episode, differs_at or 0, min(ends)))
            for video, episode in zip(videos, both, strict=True)
        ]
        yield {"differs_at": differs_at, "clips": cut}


def first_difference(ours: Tape, theirs: Tape) -> int:
    """Return the first step at which the actions of two tapes differ by more than rounding.

    If no action differs, it is the first step at which their envs returned something else. Of most steps a tape has one
    byte of the checksum, which is the same of two other observations once in 256 times; the next step tells.

    >>> ours, theirs = Tape(seed=1), Tape(seed=1)
    >>> for tape, actions in ((ours, [0, 1]), (theirs, [0, 0])):
    ...     tape.began(5)
    ...     for action in actions:
    ...         tape.acts(action)
    ...         tape.has_stepped(7)
    >>> first_difference(ours, theirs)
    2
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


def _video(episode: TapedEpisode, renderer: ClipRenderer) -> Video | None:
    """Return the clip of an episode; of several views, the first."""
    return next((video for _, video in renderer.clips([episode])), None)


def _cut(video: Video, episode: TapedEpisode, differs_at: int, shorter: int) -> CutClip:
    """Cut a clip: from a second before the first step that differs to a second after the frames of the shorter one."""
    stride, margin, length = video.frame_stride or 1, round(_BEFORE * video.fps), int(episode.row["episode_length"])
    start = max(0, min(differs_at // stride, video.frames - 1) - margin)
    stop = min(video.frames, shorter + margin)
    every = -(-(stop - start) // _MOST_FRAMES)
    frames = islice(decode_video(video.data), start, stop)
    made = encode_video(frames, video.fps, every=every, height=min(_HEIGHT, video.height // 2 * 2))
    (end,) = deque(decode_video(made.data), maxlen=1)
    return CutClip(
        data_uri(made.data, "clip.mp4"),
        data_uri(jpeg_from_frame(end), "end.jpg"),
        start * stride,
        min((stop - 1) * stride, length),
        stride * every,
        made.frames,
        made.fps,
        length,
    )
