"""The names of clips that no index lists, as recorders give them: section, key, and which folders hold them."""

from __future__ import annotations

import posixpath
import re

from tune_media.values.sections import EVALUATION, TRAIN

KEY = "clips"
"""The key of all clips of a folder, whatever their names begin with: runs beside each other have different prefixes."""

_EVALUATES = re.compile(r"(eval|evaluation|test|val|validation|play)(?![A-Za-z])", re.IGNORECASE)
_PART = re.compile(r"videos?|eval|train|play|media|files|scope|videos_step_\d{1,15}")
_CLIP = re.compile(r"[^/.][^/]*\.(?:mp4|webm|gif)", re.IGNORECASE)


def section_of(name: str) -> str:
    """Return the section of the clips whose names begin so.

    >>> section_of("rl-video"), section_of("eval"), section_of("test_hard"), section_of("evaluate-this")
    ('train', 'evaluation', 'evaluation', 'train')
    """
    return EVALUATION if _EVALUATES.match(name) else TRAIN


def is_part(name: str) -> bool:
    """Return whether a folder's name is one of a part of the run in the folder above.

    >>> is_part("videos"), is_part("videos_step_5000"), is_part("seed_1")
    (True, True, False)
    """
    return _PART.fullmatch(name) is not None


def is_clip_name(path: str) -> bool:
    """Return whether a path in a folder is one that a clip without an index may have.

    >>> is_clip_name("rl-video-episode-0.mp4"), is_clip_name("videos/train/a.webm"), is_clip_name("b.gif")
    (True, True, True)
    >>> is_clip_name("holiday.avi"), is_clip_name("private/rl-video-episode-0.mp4"), is_clip_name(".a.mp4")
    (False, False, False)
    """
    folder, name = posixpath.split(path)
    return _CLIP.fullmatch(name) is not None and all(map(is_part, filter(None, folder.split("/"))))
