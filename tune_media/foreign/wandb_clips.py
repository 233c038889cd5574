"""The clips in the rows that a run of W&B has logged: their step, which their names lack, and what our captions say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tune_media.foreign.clip_facts import fact_value

LOGGED = b"video-file"
"""In each row with a clip."""
_AXES = ("media_step", "global_step", "_step")
"""The first is ours, since clips come a row later than their result; the second is TensorBoard's."""
_OUR_CAPTION = re.compile(
    r"return (?P<episode_return>-?[\d.]+(?:e[-+]?\d+)?), length (?P<episode_length>\d{1,15})(?:, |$)"
)


def clips_in_rows(rows: Iterable[Mapping[str, Any]], clips: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the facts of the clips of a run that rows name; a clip that is in several has the first one's step.

    >>> row = {"eval/video/path": "media/videos/eval/video_0_1.mp4", "eval/video/_type": "video-file", "_step": 8}
    >>> clips_in_rows([row, {**row, "_step": 16}], ["files/media/videos/eval/video_0_1.mp4"])
    {'files/media/videos/eval/video_0_1.mp4': {'step': 8}}
    """
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        step = fact_value("step", next((row[name] for name in _AXES if name in row), None))
        for path, caption in _media(row):
            clip = next((clip for clip in (f"files/{path}", path) if clip in clips), None)
            if clip is not None:
                facts: dict[str, Any] = {} if step is None else {"step": step}
                if ours := _OUR_CAPTION.match(caption):
                    facts["episode_return"] = float(ours["episode_return"])
                    facts["episode_length"] = int(ours["episode_length"])
                found.setdefault(clip, facts)
    return found


def _media(row: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the caption of each file in a row, whose names W&B may have joined with slashes."""
    for key, value in row.items():
        outer, _, last = key.rpartition("/")
        if last == "path" and isinstance(value, str):
            yield value, str(row.get(f"{outer}/caption" if outer else "caption", ""))
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                yield from _media(item)
