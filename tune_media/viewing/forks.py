"""Forks of episodes, as the viewer shows them: which trials continue an episode, and which of its steps is to blame."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from tune_media.experiment.results import json_file
from tune_media.experiment.state import Listings
from tune_media.experiment.trial_files import TrialFiles
from tune_media.values.safe_names import safe_name
from tune_media.values.secrets import error_text
from tune_media.values.strict_json import finite

logger = logging.getLogger(__name__)

EVALUATIONS = "evaluations"
"""The folder of an experiment that holds its evaluations."""
ORIGINAL = "original"
"""The trial of a fork that is the episode itself."""
FACTS_FILE = "evaluation.json"
BLAME_FILE = "blame.json"
FORKED_AT = "forked_at"
_MAX_ID = 40


def evaluations_of(experiment: str) -> str:
    """Return the folder of an experiment's evaluations; of an evaluation, the folder that it is in.

    >>> evaluations_of("/runs/mine"), evaluations_of("/runs/mine/evaluations/last")
    ('/runs/mine/evaluations', '/runs/mine/evaluations')
    """
    folder = posixpath.dirname(experiment.rstrip("/"))
    return folder if posixpath.basename(folder) == EVALUATIONS else posixpath.join(experiment, EVALUATIONS)


def blame_name(episode: str) -> str:
    """Return how the names of the folders begin that say which step of an episode is to blame.

    >>> blame_name("5c1e")
    'blame-5c1e'
    """
    return f"blame-{short_id(episode)}"


def short_id(episode: str) -> str:
    """Return the id of an episode as a part of a folder's name."""
    return safe_name(episode, max_length=_MAX_ID)


def forks_in(trials: Sequence[TrialFiles]) -> dict[str, dict[str, Any]]:
    """Return which trials are forks, by id: ``from``, an episode; ``at``, the step, None: the episode itself.

    One file of each experiment is read, if its hyperparameters look like those of a fork.

    >>> forks_in([])
    {}
    """
    known: dict[tuple[int, str], Mapping[str, Any]] = {}
    found = {}
    for trial in trials:
        at, place = trial.config.get(FORKED_AT), (id(trial.filesystem), trial.experiment)
        if not isinstance(at, int):
            continue
        if place not in known:
            known[place] = json_file(trial.filesystem, posixpath.join(trial.experiment, FACTS_FILE))
        episode = known[place].get("forked_from")
        if isinstance(episode, str):
            is_original = posixpath.basename(trial.path.rstrip("/")) == ORIGINAL
            found[trial.id] = {"from": episode, "at": None if is_original else at}
    return found


def blames_of(trial: TrialFiles, episode: str, listings: Listings) -> list[dict[str, Any]]:
    """Return what ``tune_media.blame`` found of an episode, once for each policy; one folder is listed for it.

    Args:
        trial: The trial that has the episode.
        episode: Its id.
        listings: Lists the folder.

    Returns:
        ``sentence``, ``policy``, ``metric``, ``step``, ``between``, ``threshold``, as in ``blame.json``, and ``curve``,
        a list of [steps, value, low, high], the last of which is the episode itself.
    """
    folder, begins = evaluations_of(trial.experiment), f"{blame_name(episode)}-"
    try:
        listed = [info for info in listings.of(trial.filesystem, folder) if info.base_name.startswith(begins)]
    except OSError as error:  # the clip is shown without
        _warn(folder, error)
        return []
    found = []
    for path in sorted(posixpath.join(info.path, BLAME_FILE) for info in listed):
        try:
            known = json_file(trial.filesystem, path)
            found += [_shown(known)] if known.get("forked_from") == episode else []
        except (OSError, LookupError, TypeError) as error:  # of one file; the others are shown
            _warn(path, error)
    return found


def _warn(path: str, error: Exception) -> None:
    logger.warning("tune_media: cannot read which step is to blame in %r: %s", path, error_text(error))


def _shown(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows of a ``blame.json``: no whole path, since a gallery is for others, too."""
    policy = str(known["policy"])
    name = posixpath.basename(policy.rstrip("/"))
    sentence = str(known["sentence"]).replace(policy, name).replace(f"episode {known['forked_from']}", "this episode")
    points = [*known["curve"], known["original"]]
    return {
        "sentence": sentence,
        "policy": name,
        **{fact: finite(known[fact]) for fact in ("metric", "step", "between", "threshold")},
        "curve": [[finite(point[fact]) for fact in ("at", "value", "low", "high")] for point in points],
    }
