"""The names of clips that no index lists, as recorders give them: section, key, and which folders hold them."""

from __future__ import annotations

import posixpath
import re

from tune_media.values.sections import EVALUATION, TRAIN

KEY = "clips"
"""The key of all clips of a folder, whatever their names begin with: runs beside each other have different prefixes."""

_EVALUATES = re.compile(r"(eval|evaluation|test|val|validation|play)(?![A-Za-z])", re.IGNORECASE)
_PART = re.compile(
    r"(?:(?:train|test|eval|rl)_)?videos?|videos_step_\d{1,15}|eval|train|test|play|media|files|scope|artifacts"
)
_ALL_BELOW = re.compile(r"(?:.*/)?(?:files/media|scope|artifacts|videos_step_\d{1,15})(?:/[^/.][^/]*)+")
_CLIP = re.compile(r"(?:[^/.][^/]*/)*[^/.][^/]*\.(?:mp4|webm|gif)", re.IGNORECASE)


def section_of(name: str) -> str:
    """Return the section of the clips whose names begin so.

    >>> section_of("rl-video"), section_of("eval"), section_of("test_hard"), section_of("evaluate-this")
    ('train', 'evaluation', 'evaluation', 'train')
    """
    return EVALUATION if _EVALUATES.match(name) else TRAIN


def is_part(path: str) -> bool:
    """Return whether a folder in a run's folder is a part of the run, by its path there.

    In some parts all folders are: of LeRobot's tasks, of the names that W&B and DreamerV3 log under, of artifacts.

    >>> is_part("videos"), is_part("eval/videos_step_5000"), is_part("seed_1"), is_part("videos/lift")
    (True, True, False, False)
    >>> is_part("eval/videos_step_5000/lift_0"), is_part("files/media/videos/a/b"), is_part("artifacts/.x")
    (True, True, False)
    """
    return _PART.fullmatch(posixpath.basename(path)) is not None or _ALL_BELOW.fullmatch(path) is not None


def is_clip_name(path: str) -> bool:
    """Return whether a path in a run's folder is one that a clip without an index may have.

    >>> is_clip_name("rl-video-episode-0.mp4"), is_clip_name("videos/lift_0/a.webm"), is_clip_name("b.gif")
    (True, True, True)
    >>> is_clip_name("holiday.avi"), is_clip_name(".a.mp4"), is_clip_name("videos/../a.mp4"), is_clip_name("/a.mp4")
    (False, False, False, False)
    """
    return _CLIP.fullmatch(path) is not None
