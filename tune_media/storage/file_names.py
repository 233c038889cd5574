"""The names of media files: step, id and suffix, in folders made of the section and the key."""

from __future__ import annotations

import functools
import re

from tune_media.values.medium import Medium
from tune_media.values.safe_names import name_digest, safe_name

_OWN_ID = re.compile(r"[0-9a-f]{32}")
ID_DIGITS = 12
_MAX_PART = 60
_MAX_KEY = 500  # characters; object stores allow 1,024 for this and the trial folder's path together


def media_path(section: str, key: str, step: int, medium: Medium, *, whole_id: bool = False) -> str:
    """Return the path of a medium in its trial's folder: section, key, step, and its id's first characters.

    With ``whole_id`` a hash of all its characters stands for these.
    """
    id = name_digest(f"{medium.id} in full")[:ID_DIGITS] if whole_id else safe_id(medium.id)
    return f"media/{safe_key(section)}/{safe_key(key)}/step_{step:09d}-{id}{safe_suffix(medium.suffix)}"


@functools.lru_cache(maxsize=1024)
def safe_key(key: str) -> str:
    """Turn a key into path parts that every filesystem takes; the index keeps the key itself.

    >>> safe_key("episodes/best of 3?")
    'episodes/best_of_3_'
    """
    path = "/".join(_safe_part(part) for part in key.split("/") if part) or "_"
    if len(path) <= _MAX_KEY:
        return path
    return f"{path[: _MAX_KEY - _MAX_PART].rpartition('/')[0]}/{name_digest(key)}"


def safe_id(id: str) -> str:
    """Return the 12 characters that stand for an id in a file name: its first ones, or a hash of a foreign id.

    >>> safe_id("0123456789abcdef0123456789abcdef")
    '0123456789ab'
    """
    return id[:ID_DIGITS] if _OWN_ID.fullmatch(id) else name_digest(id)


@functools.lru_cache(maxsize=1024)
def safe_suffix(suffix: str) -> str:
    """Return a file name suffix that has only letters and digits.

    >>> safe_suffix(".mp4"), safe_suffix("/../x"), safe_suffix("")
    ('.mp4', '.x', '.bin')
    """
    clean = re.sub(r"[^0-9A-Za-z]", "", suffix)[:12]
    return f".{clean}" if clean else ".bin"


def _safe_part(part: str) -> str:
    clean = safe_name(part).lstrip(".") or "_"
    if len(clean) <= _MAX_PART:
        return clean
    digest = name_digest(part)[:8]
    return f"{clean[: _MAX_PART - len(digest) - 1]}-{digest}"
