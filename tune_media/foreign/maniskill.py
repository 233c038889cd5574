"""ManiSkill's recordings: the JSON file beside ``0.mp4``, ``1.mp4``, ... with the episodes of its trajectories."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tune_media.foreign.clip_facts import as_facts, fact_value, facts_of
from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.told import Episode, Told, unread
from tune_media.values.clip_columns import Columns
from tune_media.values.strict_json import parse_json

FILES = ("trajectory*.json", "[0-9]*_[0-9]*.json")
"""The name that people give, and the time of the beginning, which is the default."""
_CLIP = re.compile(r"\d{1,9}\.mp4")


def read_maniskill(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the task and the episodes of a run; of a clip, those facts of its episode that no table can have."""
    env_id, episodes, not_understood = None, list[Episode](), list[str]()
    clips: dict[str, Mapping[str, Any]] = {}
    for path in paths:
        try:
            recording = parse_json(files.read(path))
        except (OSError, ValueError) as error:
            not_understood.append(unread(path, error))
            continue
        rows = _episodes(recording)
        info = recording.get("env_info") if rows else None
        env_id = env_id or (info.get("env_id") if isinstance(info, dict) else None)
        found = [facts_of(row, columns or {}) for row in rows]
        for row, facts in zip(rows, found, strict=True):
            seed, success = (facts[fact][0] if fact in facts else None for fact in ("seed", "success"))
            length = fact_value("step", row.get("elapsed_steps"))
            episodes.append(Episode(length=None if length is None else int(length), seed=seed, success=success))
        shown = _clips_of(files, path, rows)
        clips |= {clip: as_facts(facts, path) for clip, facts in zip(shown, found, strict=False)}
    return Told(env_id=env_id, episodes=episodes, clips=clips, not_understood=not_understood)


def _episodes(recording: Any) -> list[dict[str, Any]]:
    """Return the episodes of a recording, each with one seed; none of another JSON file."""
    if not isinstance(recording, dict) or "env_info" not in recording:
        return []
    episodes = recording.get("episodes")
    rows = [row for row in episodes if isinstance(row, dict)] if isinstance(episodes, list) else []
    seeds = [row.get("episode_seed") for row in rows]  # of one env, it may be a list of one
    seeds = [seed[0] if isinstance(seed, list) and len(seed) == 1 else seed for seed in seeds]
    return [{**row, "episode_seed": seed} for row, seed in zip(rows, seeds, strict=True)]


def _clips_of(files: RunFiles, path: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the clips of the episodes, in their order, if each shows one of them.

    They do if one env ran, of which alone the arguments of the reset are known, and if there are as many.
    """
    place = posixpath.dirname(path)
    names = [posixpath.basename(clip) for clip in files.clips if posixpath.dirname(clip) == place]
    numbered = sorted(filter(_CLIP.fullmatch, names), key=lambda name: int(name.partition(".")[0]))
    is_one_env = all(row.get("reset_kwargs", True) for row in rows)
    return [posixpath.join(place, name) for name in numbered] if is_one_env and len(numbered) == len(rows) else []
