"""The episodes that evaluations and gates have played before of the same checkpoints: how low the worst one was.

Never those of training, nor of early evaluations: how low an untrained policy falls says nothing of a trained one.
"""

from __future__ import annotations

import itertools
import math
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tune_media.evaluation.gate_folder import FACTS_FILE as GATE_FACTS
from tune_media.evaluation.gate_request import GateRequest
from tune_media.evaluation.measure import SUCCESS, SUCCESS_COLUMNS, Measure
from tune_media.evaluation.request import EnvCondition
from tune_media.evaluation.sides import Side
from tune_media.experiment import evaluations
from tune_media.experiment.places import Folder
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage import episode_files
from tune_media.storage.filesystem import json_file, json_object
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values import strict_json
from tune_media.values.secrets import error_text

_SAME = ("explore", "connectors", "env", "policy")  # arguments with other values play other episodes
_OF_SUCCESS = ("success", "success_when")  # those that say when an episode succeeds
_OF_METRIC = ("episode_return", "episode_length", *SUCCESS_COLUMNS.values(), "metrics")
_COLUMNS = ("section", "training_iteration", "seed", "explored", *_OF_METRIC)
_MOST_FOLDERS, _MOST_GATES = 1000, 300  # that are looked at, by name the last ones
_LATE = 0.9  # of the iterations before a checkpoint: evaluations after these show how low it falls


@dataclass(frozen=True)
class Earlier:
    """Episodes of one checkpoint that an evaluation or a gate has played."""

    request: Mapping[str, Any]  # what that was asked for, as JSON
    trial: TrialFiles
    result: Mapping[str, Any]  # of the checkpoint: ``digest``, ``explored``, ``connectors``, ``config``, ...

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of its episodes; of files that cannot be read there are none, with a warning."""
        iteration = self.result.get("training_iteration")
        return [row for row in _rows(self.trial) if row["training_iteration"] == iteration]


def earlier(experiments: Iterable[Folder], gates: Folder | None = None) -> Iterator[Earlier]:
    """Yield what the evaluations of some experiments, and the gates in a folder, have played and finished.

    It reads no pickle. What cannot be read is passed over, with a warning.
    """
    for experiment in experiments:
        folder = Folder(experiment.filesystem, evaluations.evaluations_of(experiment.path))
        for place in _with_file(folder, evaluations.FACTS_FILE):
            yield from _of(place, json_file(place.filesystem, posixpath.join(place.path, evaluations.FACTS_FILE)))
    for place in [] if gates is None else _with_file(gates, GATE_FACTS)[-_MOST_GATES:]:
        facts = json_file(place.filesystem, posixpath.join(place.path, GATE_FACTS))
        yield from _of(place, request if isinstance(request := facts.get("request"), dict) else {})


def lowest_before(request: GateRequest, facts: Mapping[str, Any], measure: Measure, place: Folder) -> dict[str, Any]:
    """Return what is known of both sides by their earlier episodes, under each condition that has some, as JSON.

    For each role the number of ``episodes``, and the ``worst`` of them. ``facts`` are the request's; ``place`` is the
    folder of the gate. With bounds nothing is read.
    """
    if measure.bounds is not None:
        return {}
    played = list(_played_alike(request, facts, measure, place))
    known: dict[str, Any] = {}
    for condition, (role, side) in itertools.product(request.request.conditions, request.by_role.items()):
        rows = _rows_before(played, facts[role], condition)
        is_as_trained = not condition.overrides and facts["env"] is None and not facts["explore"]
        scores = list(_scores(measure, [*rows, *(_of_training(side) if is_as_trained else [])]))
        if scores:
            of_role = {"episodes": len(scores), "worst": measure.sign * min(scores)}
            known.setdefault(condition.label, {})[role] = of_role
    return known


def scores_before(
    request: GateRequest, facts: Mapping[str, Any], measure: Measure, place: Folder
) -> dict[str, list[float]]:
    """Return the scores of the base's earlier episodes, one of each seed, under each condition."""
    played, of_base = list(_played_alike(request, facts, measure, place)), facts[next(iter(request.by_role))]
    scores = {}
    for condition in request.request.conditions:
        rows = {row["seed"]: row for row in _rows_before(played, of_base, condition)}
        scores[condition.label] = list(_scores(measure, rows.values()))
    return scores


def _rows_before(played: Iterable[Earlier], side: Mapping[str, Any], condition: EnvCondition) -> list[dict[str, Any]]:
    """Return the rows of the episodes of a side, whose facts are given, under a condition."""
    digest, overrides = side.get("checkpoint"), _as_json(dict(condition.overrides))
    own = [one for one in played if one.result["digest"] == digest and _overrides(one) == overrides]
    return [row for one in own for row in one.rows()]


def _played_alike(request: GateRequest, facts: Mapping[str, Any], measure: Measure, place: Folder) -> Iterator[Earlier]:
    """Yield what was played in the same way beside the sides' trainings, and in gates beside this one."""
    same = (*_SAME, *(_OF_SUCCESS if measure.metric == SUCCESS else ()))
    trials = [side.trial for side in request.sides]
    experiments = {trial.experiment: Folder(trial.filesystem, trial.experiment) for trial in trials}
    for one in earlier(experiments.values(), Folder(place.filesystem, posixpath.dirname(place.path.rstrip("/")))):
        if one.result.get("digest") and all(one.request.get(key) == facts.get(key) for key in same):
            yield one


def _of(place: Folder, request: Mapping[str, Any]) -> Iterator[Earlier]:
    """Yield what was played in the folder of an evaluation or of a gate."""
    for folder in place.subfolders():
        trial = TrialFiles(folder.name, folder.filesystem, folder.path)
        try:
            for result in map(json_object, trial.read().result_lines()):
                yield Earlier(request, trial, result)
        except Exception as error:  # of one folder: it is gone, or broken
            warn_passed_over(folder.path, error_text(error))


def _with_file(parent: Folder, name: str) -> list[Folder]:
    """Return the folders in a folder that have a file of this name."""
    try:
        folders = parent.subfolders()[-_MOST_FOLDERS:] if parent.is_there else []
        infos = parent.filesystem.get_file_info([posixpath.join(folder.path, name) for folder in folders])
    except OSError as error:
        warn_passed_over(parent.path, error_text(error))
        return []
    return [folder for folder, info in zip(folders, infos, strict=True) if info.is_file]


def _rows(trial: TrialFiles, after: float = -math.inf) -> Iterator[dict[str, Any]]:
    """Yield the rows of a trial's episodes that were not rolled back, of iterations after one."""
    for line in trial.report_lines:
        iteration = line.get("training_iteration")
        if line.get("rolled_back") or (after > -math.inf and not (isinstance(iteration, int) and iteration > after)):
            continue
        try:
            yield from trial.episodes(line["path"], _COLUMNS).to_pylist()
        except Exception as error:  # of one file
            trial.pass_over(episode_files.parquet_name(line["path"]), error)


def _of_training(side: Side) -> list[dict[str, Any]]:
    """Return the episodes without exploration of the last evaluations before a checkpoint while it was trained."""
    last = 0 if side.checkpoint is None else side.checkpoint.training_iteration
    if not last or not side.is_rllib:
        return []
    trial = TrialFiles(side.trial.name, side.trial.filesystem, side.trial.path)
    try:
        rows = list(_rows(trial.read(), _LATE * last))
    except OSError as error:
        warn_passed_over(trial.path, error_text(error))
        return []
    rows = [row for row in rows if row["section"] == "evaluation" and row["explored"] is False]
    return [row for row in rows if row["training_iteration"] <= last]


def _scores(measure: Measure, rows: Iterable[Mapping[str, Any]]) -> Iterator[float]:
    for row in rows:
        try:
            yield measure.value(row)
        except ValueError:  # it has no such metric, or not a finite one
            continue


def _overrides(one: Earlier) -> Any:
    config = one.result.get("config")
    return config.get("env_config") if isinstance(config, dict) else None


def _as_json(value: Any) -> Any:
    return strict_json.parse_json(strict_json.json_bytes(value))
