"""The evaluations of an experiment: their folder and facts, and which of their trials continue an episode (forks)."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.filesystem import json_file
from tune_media.values.safe_names import safe_name

EVALUATIONS = "evaluations"
"""The folder of an experiment that holds its evaluations."""
ORIGINAL = "original"
"""The trial of a fork that is the episode itself."""
FACTS_FILE = "evaluation.json"
FORKED_AT = "forked_at"
CONDITIONS = "conditions"
_Place = tuple[int, str]  # the id of a filesystem, and an experiment there
_MAX_ID = 40
_MAX_LABEL = 60


def evaluations_of(experiment: str) -> str:
    """Return the folder of an experiment's evaluations; of an evaluation, the folder that it is in.

    >>> evaluations_of("/runs/mine"), evaluations_of("/runs/mine/evaluations/last")
    ('/runs/mine/evaluations', '/runs/mine/evaluations')
    """
    if _is_evaluation(experiment):
        return posixpath.dirname(experiment.rstrip("/"))
    return posixpath.join(experiment, EVALUATIONS)


def _is_evaluation(experiment: str) -> bool:
    return posixpath.basename(posixpath.dirname(experiment.rstrip("/"))) == EVALUATIONS


def first_condition(trials: Sequence[TrialFiles]) -> tuple[str | None, list[bool]]:
    """Return the condition by which evaluated trials are judged, and which trials were played under it.

    It is that of the training, else the one that was evaluated first, if one of them was played under it; None if there
    are not several.

    >>> first_condition([])
    (None, [])
    """
    facts = _facts_of([trial for trial in trials if _is_evaluation(trial.experiment)])
    places = [_place_of(trial) for trial in trials]
    known = {place: facts.get(place, {}).get(CONDITIONS) or [] for place in places}  # the conditions of each experiment
    played: list[tuple[_Place, str | None]] = []  # the experiment and the condition of each trial
    for trial, place in zip(trials, places, strict=True):
        fitting = [label for label in known[place] if trial.path.rstrip("/").endswith(suffix_of(label))]
        played.append((place, max(fitting, key=len, default=None)))
    there = set(played)
    firsts = {
        place: first_of([label for label in labels if (place, label) in there]) for place, labels in known.items()
    }
    first = next((firsts[place] for place, _ in played if len(known[place]) > 1), None)
    return first, [label in (None, firsts[place]) for place, label in played]


def first_of(conditions: Sequence[str]) -> str:
    """Return the condition that says which policy is the best: that of the training, else the first one.

    >>> first_of(["wind=5", ""]), first_of(["wind=0", "wind=5"])
    ('', 'wind=0')
    """
    return "" if "" in conditions else next(iter(conditions), "")


def suffix_of(condition: str) -> str:
    """Return the end of the name of a trial's folder under a condition.

    >>> suffix_of("wind=5"), suffix_of("")
    ('_wind=5', '')
    """
    return "_" + safe_name(condition, max_length=_MAX_LABEL) if condition else ""


def short_id(episode: str) -> str:
    """Return the id of an episode as a part of a folder's name."""
    return safe_name(episode, max_length=_MAX_ID)


def forks_in(trials: Sequence[TrialFiles]) -> dict[str, dict[str, Any]]:
    """Return the forks among trials, by id: ``from``, an episode, and ``at``, the step, or None for the episode itself.

    One file of each experiment is read, if its hyperparameters look like those of a fork.

    >>> forks_in([])
    {}
    """
    forked = [trial for trial in trials if isinstance(trial.config.get(FORKED_AT), int)]
    facts, forks = _facts_of(forked), {}
    for trial in forked:
        episode = facts[_place_of(trial)].get("forked_from")
        if isinstance(episode, str):
            is_original = posixpath.basename(trial.path.rstrip("/")) == ORIGINAL
            forks[trial.id] = {"from": episode, "at": None if is_original else trial.config[FORKED_AT]}
    return forks


def _facts_of(trials: Sequence[TrialFiles]) -> dict[_Place, Mapping[str, Any]]:
    """Return what was asked for in the evaluations of some trials; each file is read once."""
    places = {_place_of(trial): trial for trial in trials}
    return {
        place: json_file(trial.filesystem, posixpath.join(trial.experiment, FACTS_FILE))
        for place, trial in places.items()
    }


def _place_of(trial: TrialFiles) -> _Place:
    return id(trial.filesystem), trial.experiment
