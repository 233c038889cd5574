"""The details of an episode: its record, series, rewards, the actions of its tape, and its trajectory if kept."""

from __future__ import annotations

import json
import logging
import posixpath
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow.fs

from tune_media.experiment.trial_files import Line, TrialFiles
from tune_media.replay.tape import Actions, Tape
from tune_media.storage import episode_files
from tune_media.storage.filesystem import file_info, open_file, read_if_there
from tune_media.values import strict_json
from tune_media.values.number import as_number
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)

_FACTS = ("trial_id", "section", "recorder", "training_iteration", "step", "episode_id")
_MAX_NUMBERS = 200_000  # of a trajectory that go to the browser
_MAX_ACTIONS = 16  # elements of a vector
_ROUND = ("section", "training_iteration")
_REWARD, _ACTION = "reward", "action"
_PARTS = ("series", "every", "values", "metrics", "actions")


def episode_details(trial: TrialFiles, line: Line, *, with_steps: bool = True) -> dict[str, Any]:
    """Return everything known of a clip's episode.

    It is ``record`` (the index line), ``start`` (the checksum of its reset; None without a tape), ``series`` (lists of
    numbers by name; the rewards are among them), ``every`` (the stride of thinned series), ``values``, ``metrics``,
    ``actions`` (of an episode that has a tape, lists of numbers by name, one a step), ``steps`` (columns by name, row t
    belongs to frame t) and ``steps_note``.
    """
    details: dict[str, Any] = {"record": strict_json.finite(line), "start": None, **{name: {} for name in _PARTS}}
    episode = line.get("episode_id")
    if not isinstance(episode, str):
        return details
    if trial.is_loop and "episode_return" not in line:  # it was broken off, so that none of its many reports has it
        return details
    reports = [one for one in trial.report_lines if all(one.get(name) == line.get(name) for name in _ROUND)]
    recorded = as_number(line.get("time"))  # a loop outside Tune has many reports: the first one after the clip has it
    for found in sorted(reports, key=lambda one: ((time := as_number(one.get("time"))) < recorded, time)):
        report = found["path"]
        parquet = episode_files.parquet_name(report)
        row = _read(_from_parquet, trial, parquet, episode) or _read(_from_json, trial, report, episode)
        if row:
            details |= row | (_read(_steps, trial, episode_files.steps_name(report), episode) if with_steps else {})
            break
    return details


def taped_details(trial: TrialFiles, report: str, episode: str) -> dict[str, Any] | None:
    """Return the details of an episode that has a tape and may have no clip; None if its report lacks the tape."""
    parquet = episode_files.parquet_name(report)
    record = _read(_record, trial, parquet, episode)
    if not record:
        return None
    details = {"record": record, "start": None, **{name: {} for name in _PARTS}}
    row = _read(_from_parquet, trial, parquet, episode)
    return details | row | _read(_steps, trial, episode_files.steps_name(report), episode)


def values_at(details: Mapping[str, Any], step: int | None) -> dict[str, Any]:
    """Return the values of a step by name: ``reward``, ``action`` (or its elements), and those that were collected.

    The reward and the action are those that led to the step, so that step 0 has none.

    >>> details = {"series": {"reward": [1.0, 2.0], "angle": [0.0, 0.1, 0.2]}, "actions": {"action": [3, 4]}}
    >>> values_at({"record": {"episode_length": 2}, **details}, 2)
    {'reward': 2.0, 'angle': 0.2, 'action': 4}
    """
    if step is None or not details:
        return {}
    found, length, every = {}, details["record"].get("episode_length"), details.get("every", {})
    for name, values in details.get("series", {}).items():
        stride = every.get(name, 1)
        place, rest = divmod(step - (stride == 1 and len(values) == length), stride)
        if rest == 0 and 0 <= place < len(values):
            found[name] = values[place]
    columns = details.get("steps", {})
    kept = {name: values for name, values in columns.items() if name.split("/")[0] in (_REWARD, _ACTION)}
    rows = columns.get("episode_step", ())
    for of_steps, place in ((details.get("actions", {}), step - 1), (kept, rows.index(step) if step in rows else -1)):
        found |= {name: values[place] for name, values in of_steps.items() if step and 0 <= place < len(values)}
    return found


def _read(
    read: Callable[[pyarrow.fs.FileSystem, str, str], dict[str, Any] | None], trial: TrialFiles, name: str, episode: str
) -> dict[str, Any]:
    """Return the facts of an episode in a file; none, with a warning, if the file is gone or broken."""
    try:
        filesystem, folder = trial.place
        return read(filesystem, posixpath.join(folder, name), episode) or {}
    except Exception as error:
        trial.pass_over(name, error)
        return {}


def _from_parquet(filesystem: pyarrow.fs.FileSystem, path: str, episode: str) -> dict[str, Any] | None:
    names = ["episode_id", "series", "every", "lists", "values", "metrics", "tape", "rewards"]
    row = _rows(filesystem, path, episode, names)
    if not row:
        return None
    found: dict[str, Any] = strict_json.finite(episode_files.values_of(row[0])) | {"actions": {}}
    rewards, content = row[0].get("rewards"), row[0].get("tape")
    if content:
        try:
            tape = Tape.unpacked(content)
        except ValueError as error:  # of another version
            logger.info("tune_media: the steps of a tape are not shown: %s", error_text(error))
        else:
            rewards = tape.rewards.tolist() if tape.rewards else rewards
            found |= {"actions": _numbers_of(tape.actions), "start": tape.checks[0] if len(tape.checks) else None}
    if rewards:
        found["series"] = {_REWARD: strict_json.finite(rewards[:_MAX_NUMBERS])} | found["series"]
    return found


def _record(filesystem: pyarrow.fs.FileSystem, path: str, episode: str) -> dict[str, Any] | None:
    """Return the facts of an episode that has a tape."""
    with open_file(filesystem, path) as file:
        found = next((row for row in episode_files.taped_rows(file) if row["episode_id"] == episode), None)
    return found and strict_json.finite(
        {name: value for name, value in found.items() if name not in ("metrics", "tape_bytes")}
    )


def _numbers_of(actions: Actions) -> dict[str, list[Any]]:
    """Return actions as a list for each element of a vector; none of other actions than numbers."""
    try:
        table = np.array([actions[step] for step in range(min(len(actions), _MAX_NUMBERS))])
    except ValueError as error:  # they have different lengths
        logger.info("tune_media: the actions of an episode are not shown: %s", error_text(error))
        return {}
    if table.dtype.kind not in "biuf" or not table.size:
        return {}
    if table.ndim == 1:
        return {"action": strict_json.finite(table.tolist())}
    columns = table.reshape(len(table), -1)[:, :_MAX_ACTIONS].T.tolist()
    return {f"action/{number}": strict_json.finite(values) for number, values in enumerate(columns)}


def _from_json(filesystem: pyarrow.fs.FileSystem, path: str, episode: str) -> dict[str, Any] | None:
    rows = strict_json.parse_json(read_if_there(filesystem, path) or b"[]")
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    found = next((row for row in rows if row.get("episode_id") == episode), None)
    return found and {
        name: strict_json.finite(found.get(name, {})) for name in ("series", "every", "values", "metrics")
    }


def _steps(filesystem: pyarrow.fs.FileSystem, path: str, episode: str) -> dict[str, Any]:
    rows = _rows(filesystem, path, episode)
    if not rows:
        return {}
    kept = [{name: strict_json.finite(value) for name, value in row.items() if name not in _FACTS} for row in rows]
    width = max(1, len(json.dumps(kept[0])) // 8)
    most = max(1, _MAX_NUMBERS // width)
    note = f"the first {most} of {len(kept)} steps; all are in {posixpath.basename(path)}" if len(kept) > most else None
    kept = kept[:most]
    return {"steps": {name: [row[name] for row in kept] for name in kept[0]}, "steps_note": note}


def _rows(
    filesystem: pyarrow.fs.FileSystem, path: str, episode: str, columns: list[str] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of an episode in a Parquet file; none if there is no such file."""
    if file_info(filesystem, path) is None:
        return []
    with open_file(filesystem, path) as file:
        return episode_files.parquet_rows(file, episode, columns)
