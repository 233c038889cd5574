"""The clips in the rows that a run has logged to W&B or Trackio: step, section, and the return in a caption as ours."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tune_media.foreign.clip_facts import fact_value
from tune_media.foreign.clip_paths import section_of_path

LOGGED = b"video-file"
"""In each row of W&B with a clip."""
_AXES = ("media_step", "global_step", "_step")
"""The first is ours, since clips come a row later than their result; the second is TensorBoard's."""
_CAPTION = re.compile(
    r"return (?P<episode_return>-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?:, length (?P<episode_length>\d{1,15}))?(?:, |$)"
)
_PATHS = ("path", "file_path")  # W&B's, and Trackio's


def clips_in_rows(rows: Iterable[Mapping[str, Any]], clips: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the facts of the clips of a run that rows name; of a clip that is in several, the first one's.

    >>> row = {"eval/video/path": "media/videos/eval/video_0_1.mp4", "eval/video/_type": "video-file", "_step": 8}
    >>> clips_in_rows([row, {**row, "_step": 16}], ["files/media/videos/eval/video_0_1.mp4"])
    {'files/media/videos/eval/video_0_1.mp4': {'step': 8, 'section': 'evaluation'}}
    >>> row = {"video": {"file_path": "walkers/ppo/40/a.mp4", "caption": "return 3.5, step 40"}, "_step": 40}
    >>> clips_in_rows([row], ["40/a.mp4"])
    {'40/a.mp4': {'step': 40, 'section': 'train', 'episode_return': 3.5}}
    """
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        step = fact_value("step", next((row[name] for name in _AXES if name in row), None))
        for name, path, caption in _media(row):
            ends = (f"files/{path}", path, "/".join(path.split("/")[-2:]))  # W&B's; Trackio's has project and run, too
            clip = next((clip for clip in ends if clip in clips), None)
            if clip is not None:
                facts = {} if step is None else {"step": step}
                found.setdefault(clip, {**facts, "section": section_of_path(f"{name}/"), **_told(caption)})
    return found


def _told(caption: str) -> dict[str, Any]:
    match = _CAPTION.match(caption)
    if match is None:
        return {}
    length = match["episode_length"]
    return {"episode_return": float(match["episode_return"])} | ({"episode_length": int(length)} if length else {})


def _media(row: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield name, path and caption of each file in a row, whose names W&B may have joined with slashes."""
    for key, value in row.items():
        outer, _, last = key.rpartition("/")
        if last in _PATHS and isinstance(value, str):
            yield outer or name, value, str(row.get(f"{outer}/caption" if outer else "caption", ""))
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                yield from _media(item, key)
