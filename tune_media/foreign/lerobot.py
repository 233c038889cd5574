"""LeRobot's evaluations: ``eval_info.json`` in the folder of the clips or above it, and the clips of its training.

Until September 2025 it has ``per_episode``, a list of episodes, since then ``per_task``, with lists of numbers for each
task; the n-th of ``video_paths`` is of the n-th episode. The training writes no such file: there, the seed of the n-th
episode is n more than that of ``train_config.json``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from tune_media.foreign.clip_facts import as_facts, fact_value, facts_of
from tune_media.foreign.clip_paths import named_clip
from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.told import Episode, Told, unread
from tune_media.storage.clip_names import is_part
from tune_media.values.clip_columns import Columns
from tune_media.values.strict_json import parse_json

INFO, _CONFIG = "eval_info.json", "train_config.json"
FILES = (INFO, _CONFIG, "eval_episode_*.mp4")
_TRAININGS = re.compile(r"eval/videos_step_\d+/(?:[^/]+/)?eval_episode_(?P<episode>\d{1,9})\.mp4")
_STEP = re.compile(r"(?:^|/)videos_step_(\d{1,15})(?:/|$)")
_LISTS = ("sum_rewards", "max_rewards", "successes")


def read_lerobot(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the episodes of all evaluations of a run, and the facts of their clips."""
    infos = [path for path in paths if posixpath.basename(path) == INFO]
    outer = None if infos else _from_above(files)
    if outer is None:
        return _read(files, paths, infos, columns or {})
    told = _read(outer, [], [INFO], columns or {})
    start = f"{posixpath.basename(files.folder)}/"
    return replace(told, clips={clip.removeprefix(start): facts for clip, facts in told.clips.items()})


def _read(files: RunFiles, paths: Sequence[str], infos: Sequence[str], columns: Columns) -> Told:
    clips, not_understood = dict(_seeds_of_training(files, paths)), list[str]()
    names, episodes, known = set[str](), list[Episode](), frozenset(files.clips)
    for path in infos:
        try:
            plays = list(rows_of_info(parse_json(files.read(path))))
        except (OSError, ValueError) as error:
            not_understood.append(unread(path, error))
            continue
        for row, video in plays:
            step = _STEP.search(video) or _STEP.search(path)
            number = int(step[1]) if step else None
            found = facts_of(row, columns)
            names.update(row)
            episodes.append(_episode({fact: value for fact, (value, _) in found.items()}, row, number))
            clip = named_clip(known, video, posixpath.dirname(path))
            if clip is not None:
                clips[clip] = as_facts(found, path) | ({} if number is None else {"step": number})
    episodes.sort(key=lambda episode: episode.step or 0)
    return Told(
        episodes=episodes, tag="sum_reward", clips=clips, columns=frozenset(names), not_understood=not_understood
    )


def _from_above(files: RunFiles) -> RunFiles | None:
    """Return the files of a part that was given alone as the folder above has them, if an evaluation is there."""
    above, name = posixpath.split(files.folder)
    if not is_part(name):
        return None
    info = files.filesystem.get_file_info(posixpath.join(above, INFO))
    infos = {f"{name}/{path}": info for path, info in files.infos.items()}
    return RunFiles(files.filesystem, above, {**infos, INFO: info}) if info.is_file else None


def _seeds_of_training(files: RunFiles, paths: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the seed of each clip of an evaluation within the training."""
    configs = [path for path in paths if posixpath.basename(path) == _CONFIG]
    try:
        config = parse_json(files.read(configs[-1])) if configs else None
    except (OSError, ValueError):  # the reader of hyperparameters says it
        return
    seed = config.get("seed") if isinstance(config, dict) else None
    for clip in files.clips:
        if isinstance(seed, int) and (match := _TRAININGS.fullmatch(clip)):
            yield clip, {"seed": seed + int(match["episode"])}


def rows_of_info(info: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each episode as a row, with its task if there are several, and the path of its clip, or an empty one."""
    for metrics, task in _metrics_of_tasks(info):
        lists = {name: metrics[name] for name in _LISTS if isinstance(metrics.get(name), list)}
        rows = metrics.get("per_episode")
        if not isinstance(rows, list):
            rows = [dict(zip(lists, row, strict=True)) for row in zip_longest(*lists.values())]
        videos = metrics.get("video_paths")
        for row, video in zip_longest(rows, videos if isinstance(videos, list) else ()):
            if isinstance(row, dict):
                yield {**row, **task}, video if isinstance(video, str) else ""


def _metrics_of_tasks(info: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the numbers of each task, with its name if there are several."""
    tasks = info.get("per_task") if isinstance(info, dict) else []
    if not isinstance(tasks, list):
        yield info, {}
        return
    for task in tasks:
        if isinstance(task, dict) and isinstance(metrics := task.get("metrics"), dict):
            yield metrics, {name: task[name] for name in ("task_group", "task_id") if name in task}


def _episode(facts: Mapping[str, Any], row: Mapping[str, Any], step: int | None) -> Episode:
    most = next((fact_value("return", row[name]) for name in ("max_reward", "max_rewards") if name in row), None)
    return Episode(
        episode_return=facts.get("return"),
        seed=facts.get("seed"),
        success=facts.get("success"),
        step=step,
        metrics={} if most is None else {"max_reward": float(most)},
    )
