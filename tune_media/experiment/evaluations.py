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
_MAX_ID = 40


def evaluations_of(experiment: str) -> str:
    """Return the folder of an experiment's evaluations; of an evaluation, the folder that it is in.

    >>> evaluations_of("/runs/mine"), evaluations_of("/runs/mine/evaluations/last")
    ('/runs/mine/evaluations', '/runs/mine/evaluations')
    """
    folder = posixpath.dirname(experiment.rstrip("/"))
    return folder if posixpath.basename(folder) == EVALUATIONS else posixpath.join(experiment, EVALUATIONS)


def short_id(episode: str) -> str:
    """Return the id of an episode as a part of a folder's name."""
    return safe_name(episode, max_length=_MAX_ID)


def forks_in(trials: Sequence[TrialFiles]) -> dict[str, dict[str, Any]]:
    """Return the forks among trials, by id: ``from``, an episode, and ``at``, the step, or None for the episode itself.

    One file of each experiment is read, if its hyperparameters look like those of a fork.

    >>> forks_in([])
    {}
    """
    facts_files: dict[tuple[int, str], Mapping[str, Any]] = {}
    forks = {}
    for trial in trials:
        step, place = trial.config.get(FORKED_AT), (id(trial.filesystem), trial.experiment)
        if not isinstance(step, int):
            continue
        if place not in facts_files:
            facts_files[place] = json_file(trial.filesystem, posixpath.join(trial.experiment, FACTS_FILE))
        episode = facts_files[place].get("forked_from")
        if isinstance(episode, str):
            is_original = posixpath.basename(trial.path.rstrip("/")) == ORIGINAL
            forks[trial.id] = {"from": episode, "at": None if is_original else step}
    return forks
