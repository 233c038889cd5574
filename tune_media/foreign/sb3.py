"""The episodes of Stable-Baselines3: ``monitor.csv`` of its Monitor, and ``evaluations.npz`` of its EvalCallback."""

from __future__ import annotations

import bisect
import contextlib
import csv
import dataclasses
import io
import itertools
import math
import posixpath
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tune_media.foreign.return_tags import return_name, section_of_tag
from tune_media.foreign.run_files import MOST_BYTES, RunFiles, whole_lines
from tune_media.foreign.told import ENV_STEPS, Curve, Episode, Told, unnamed, unread
from tune_media.storage.filesystem import json_object, open_file
from tune_media.storage.passed_over import warn_of_broken_lines
from tune_media.values.clip_columns import Columns
from tune_media.values.number import number_in
from tune_media.values.sections import EVALUATION, TRAIN

EVALUATIONS = "evaluations.npz"
PATTERNS = ("*monitor.csv", EVALUATIONS)
_HEAD_BYTES = 4096
_OF_EPISODES = ("ep_lengths", "successes")  # arrays beside the returns
_RETURN, _LENGTH, _TIME, _SUCCESS = "r", "l", "t", "is_success"
_TAGS = {TRAIN: "rollout/ep_rew_mean", EVALUATION: "eval/mean_reward"}  # of the same numbers in its event files


def read_episodes(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the episodes of the training and of its evaluations; of those in two files only the evaluations' own."""
    evaluations, others = _parted(paths)
    told = _evaluations(files, evaluations[0], columns or {}) if evaluations else Told()
    left = [f"{path}: left out, since the run has {evaluations[0]}, too" for path in evaluations[1:]]
    monitors = [_Monitor.of(files, path, columns or {}) for path in others]
    by_section: dict[str, list[_Monitor]] = {TRAIN: [], EVALUATION: []}
    for monitor in monitors:
        by_section[monitor.section].append(monitor)
    trained = _with_steps([monitor.episodes for monitor in by_section[TRAIN]])
    evaluated = told.episodes or _at_steps_of([monitor.episodes for monitor in by_section[EVALUATION]], trained)
    return dataclasses.replace(
        told,
        env_id=next(filter(None, (monitor.env_id for monitor in itertools.chain(*by_section.values()))), None),
        episodes=[*trained, *evaluated],
        columns=told.columns.union(*(monitor.columns for monitor in monitors)),
        tag=_TAGS[EVALUATION if evaluated else TRAIN],
        train_tag=_TAGS[TRAIN] if trained else "",
        unit=ENV_STEPS,
        not_understood=[*told.not_understood, *left, *(text for own in monitors for text in own.not_understood)],
    )


def _parted(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files of evaluations, the outermost first, and the others."""
    ordered = sorted(paths, key=lambda path: (path.count("/"), path))
    return (
        [path for path in ordered if posixpath.basename(path) == EVALUATIONS],
        [path for path in ordered if posixpath.basename(path) != EVALUATIONS],
    )


@dataclasses.dataclass(frozen=True)
class _Monitor:
    """A file of a Monitor; its episodes have no steps yet, since the env steps of all envs together are the run's."""

    section: str
    env_id: str | None = None
    episodes: Sequence[Episode] = ()
    columns: frozenset[str] = frozenset()
    not_understood: Sequence[str] = ()

    @classmethod
    def of(cls, files: RunFiles, path: str, columns: Columns) -> _Monitor:
        section = section_of_tag(f"{path}/-")
        try:
            head, _, table = whole_lines(files.read(path)).partition("\n")
            if not head.startswith("#"):
                head, table = "", f"{head}\n{table}"
            rows = list(csv.DictReader(io.StringIO(table, newline="")))
        except (OSError, ValueError, csv.Error) as error:
            return cls(section, not_understood=[unread(path, error)])
        header = json_object(head.removeprefix("#").encode())
        env_id, begun = _env_id(header), _number(header.get("t_start"))
        names, column = frozenset(filter(None, rows[0] if rows else ())), columns.get("return", _RETURN)
        if rows and column not in names:
            return cls(section, env_id, (), names, [unnamed(path, "return")])
        found = [_episode(row, section, column, begun) for row in rows]
        broken = [number for number, episode in enumerate(found, 3) if episode is None]
        warn_of_broken_lines(files.full(path), broken, "an episode")
        return cls(section, env_id, [episode for episode in found if episode is not None], names)


def read_head(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Read the task in the first line of a Monitor's file."""
    for path in (path for path in paths if path.endswith(".csv")):
        with contextlib.suppress(OSError), open_file(files.filesystem, files.full(path)) as file:
            head = bytes(file.read(_HEAD_BYTES)).partition(b"\n")[0]
            return Told(env_id=_env_id(json_object(head.removeprefix(b"#"))))
    return Told()


def _env_id(header: Mapping[str, Any]) -> str | None:
    env_id = header.get("env_id")
    return env_id if isinstance(env_id, str) and env_id not in ("", "None") else None


def _episode(row: Mapping[str | None, str | None], section: str, column: str, begun: float | None) -> Episode | None:
    """Return the episode of a row; None if it is not whole."""
    numbers = {name: _number(cell) for name, cell in row.items() if name is not None}
    if None in row.values() or numbers[column] is None or numbers.get(_LENGTH) is None:
        return None
    own = (_RETURN, _LENGTH, _TIME, _SUCCESS)
    success, seconds = str(row.get(_SUCCESS, "")).strip().lower(), numbers.get(_TIME)
    return Episode(
        section,
        numbers[column],
        int(numbers[_LENGTH] or 0),
        success={"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}.get(success),
        finished_at=None if begun is None or seconds is None else begun + seconds,
        metrics={name: number for name, number in numbers.items() if number is not None and name not in own},
    )


def _number(cell: Any) -> float | None:
    number = number_in(cell)
    return number if number is not None and math.isfinite(number) else None


def _with_steps(each: Sequence[Sequence[Episode]]) -> list[Episode]:
    """Return the episodes of the envs of a training in the order in which they ended, with the env steps until then.

    A Monitor that was resumed counts its seconds anew: if they fall, no time is known, and each file keeps its order.
    """
    times = [[episode.finished_at or 0.0 for episode in episodes] for episodes in each]
    is_timed = all(own == sorted(own) and all(own) for own in times)
    keyed = [
        (key, episode)
        for own, episodes in zip(times, each, strict=True)
        for key, episode in zip(itertools.accumulate(own, max), episodes, strict=True)
    ]
    ordered = [episode for _, episode in sorted(keyed, key=lambda item: item[0])]
    steps = itertools.accumulate(episode.length or 0 for episode in ordered)
    return [
        dataclasses.replace(episode, step=step, finished_at=episode.finished_at if is_timed else None)
        for episode, step in zip(ordered, steps, strict=True)
    ]


def _at_steps_of(each: Sequence[Sequence[Episode]], trained: Sequence[Episode]) -> list[Episode]:
    """Return the episodes of evaluations, with the steps of the last training episode that had ended before each.

    If no training is known, the steps are the evaluation's own; if it has no times, nobody knows them.
    """
    evaluated, times = _with_steps(each), [episode.finished_at or 0.0 for episode in trained]
    if not trained:
        return evaluated
    is_timed = all(times) and all(episode.finished_at for episode in evaluated)
    steps = [0.0, *(episode.step or 0.0 for episode in trained)]
    return [
        dataclasses.replace(episode, step=steps[bisect.bisect(times, episode.finished_at or 0.0)] if is_timed else None)
        for episode in evaluated
    ]


_DAMAGED = (  # what NumPy and zipfile raise for a file of which any byte may be another
    *(OSError, ValueError, TypeError, LookupError, EOFError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)


def _arrays(content: bytes, wanted: Collection[str]) -> tuple[frozenset[str], dict[str, Any]]:
    """Return the names of all arrays, and the wanted ones. Raises ValueError if these fill the memory, or _DAMAGED."""
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        size = sum(info.file_size for info in packed.infolist() if info.filename.removesuffix(".npy") in wanted)
    if size > MOST_BYTES:
        raise ValueError(f"it unpacks to {size / 1e6:.0f} MB, which is too much to be read")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return frozenset(file.files), {name: file[name] for name in wanted if name in file.files}


def _evaluations(files: RunFiles, path: str, columns: Columns) -> Told:
    try:
        returns_name, steps_name = columns.get("return", "results"), columns.get("step", "timesteps")
        names, arrays = _arrays(files.read(path), (returns_name, steps_name, *_OF_EPISODES))
        if lacking := [fact for fact, name in (("return", returns_name), ("step", steps_name)) if name not in names]:
            return Told(columns=names, not_understood=[unnamed(path, lacking[0])])
        steps = arrays[steps_name]
        rows = arrays[returns_name].reshape(len(steps), -1).astype(float)
        lengths, successes = map(arrays.get, _OF_EPISODES)
        episodes = [
            Episode(
                EVALUATION,
                float(value),
                None if lengths is None else int(lengths.reshape(rows.shape)[row, number]),
                success=None if successes is None else bool(successes.reshape(rows.shape)[row, number]),
                step=float(steps[row]),
            )
            for (row, number), value in np.ndenumerate(rows)
        ]
        means = [] if not rows.size else rows.mean(axis=1).tolist()
        curve = Curve(return_name(EVALUATION), _TAGS[EVALUATION], ENV_STEPS, [float(step) for step in steps], means)
    except _DAMAGED as error:
        return Told(not_understood=[unread(path, error)])
    return Told(episodes=episodes, columns=names, curves=lambda: [curve] if episodes else [])
