"""What is compared: a checkpoint, a trial's checkpoint, or the episodes of an evaluation that is there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.fs

from tune_media.evaluation.checkpoints import StoredCheckpoint, checkpoint_at, checkpoints_of, content_digest
from tune_media.evaluation.request import ALL
from tune_media.experiment.places import Folder, find_folders, folder_at
from tune_media.experiment.trial_files import TrialFiles, trials_named
from tune_media.replay.recipe import LoadedRecipe
from tune_media.storage.episode_files import FOLDER, RECIPE_FOLDER
from tune_media.storage.trial_folder import PARAMS
from tune_media.values.checks import name_some
from tune_media.values.foreign import shown, without_address
from tune_media.values.problems import argument, remedy
from tune_media.viewing.catalog import load
from tune_media.viewing.forks import EVALUATIONS
from tune_media.viewing.taped_episodes import TapedEpisode

WANTED = "the folder of an experiment, which tuner.fit() prints, or a checkpoint"
_VERSIONED = re.compile(r"\S+-v\d+\W*$")  # an env's id, and not the name of its class


@dataclass(frozen=True)
class Side:
    """One of two policies that are compared, under the name that was given.

    ``trial`` has the files of its trial; of an evaluation, those of the evaluated trial, and ``checkpoint`` is None.

    >>> Side("a", TrialFiles("a", pyarrow.fs.LocalFileSystem(), "/no/a"), None).is_rllib
    False
    """

    name: str
    trial: TrialFiles
    checkpoint: StoredCheckpoint | None

    @property
    def is_rllib(self) -> bool:
        """Whether its checkpoint looks like one of RLlib's."""
        return self.checkpoint is not None and self.checkpoint.is_rllib

    def seeds(self) -> list[int]:
        """Return the seeds of an evaluation's episodes. Raises ValueError if they are not of one checkpoint."""
        rows = [episode.row for episode in TapedEpisode.of_trial(self.trial)]
        iterations = {row["training_iteration"] for row in rows}
        if len(iterations) != 1:
            raise ValueError(
                f"trial {self.trial.name} of the evaluation {self.name!r} has episodes of {len(iterations)} "
                "checkpoints, and one can be compared: " + remedy("name a checkpoint's folder instead.")
            )
        return sorted(row["seed"] for row in rows)

    def copied_to(self, place: Folder, folder: str) -> StoredCheckpoint:
        """Copy an evaluation's episodes to a folder; return a checkpoint for them, which is not there."""
        recipes = posixpath.join(posixpath.dirname(self.trial.path.rstrip("/")), RECIPE_FOLDER)
        for source, target in ((recipes, posixpath.join(place.path, RECIPE_FOLDER)), (self.trial.path, folder)):
            if Folder(self.trial.filesystem, source).is_there:
                place.filesystem.create_dir(target)
                pyarrow.fs.copy_files(
                    source, target, source_filesystem=self.trial.filesystem, destination_filesystem=place.filesystem
                )
        iteration = TapedEpisode.of_trial(self.trial)[0].row["training_iteration"]
        return StoredCheckpoint(self.trial.filesystem, self.trial.path, 0, iteration, iteration)

    def facts(self) -> dict[str, Any]:
        """Return what tells it from others, as JSON: its content, of which a copy elsewhere has the same."""
        if self.checkpoint is not None:
            return {"checkpoint": self.checkpoint.digest()}
        return {"episodes": content_digest(self.trial.filesystem, self.trial.path, (FOLDER,))}


def side_of(
    source: Any, which: str = "last", filesystem: pyarrow.fs.FileSystem | None = None, *, is_foreign: bool = False
) -> Side:
    """Return the policy that a text names. Raises FileNotFoundError, ValueError, OSError.

    Args:
        source: The folder or URI of a checkpoint; of an experiment, for its winner; ``EXPERIMENT:TRIAL``; or of an
            evaluation in ``evaluations/``, with ``:TRIAL`` if it has several trials.
        which: The checkpoint of a trial: ``last``, ``best``, or a number.
        filesystem: A pyarrow filesystem that it is on.
        is_foreign: Whether checkpoints are of another library: then any file or folder can be one.
    """
    if which == ALL:
        raise ValueError(argument("checkpoint=") + " takes 'last', 'best' or the number of one checkpoint, got 'all'.")
    text, name = str(source), ""
    folder = folder_at(text, filesystem)
    if is_foreign and folder.is_file:
        return _side_of_checkpoint(text, StoredCheckpoint(folder.filesystem, folder.path, 0))
    if folder.is_file:
        files = (
            "pass " + argument("policy=") + " and " + argument("env=") + " if it holds the policy of another library."
        )
        raise ValueError(f"{text!r} is a file; " + remedy(files))
    if not folder.is_there and ":" in posixpath.basename(text):
        before, _, name = text.rpartition(":")
        folder = folder_at(before, filesystem)
    find_folders(folder.path, folder.filesystem, wanted=WANTED)  # raises if there is none
    checkpoint = None if name else checkpoint_at(folder.filesystem, folder.path)
    if checkpoint is not None:
        return _side_of_checkpoint(text, checkpoint)
    try:
        catalog = load(folder.path, folder.filesystem)
    except ValueError:
        if name or not is_foreign:
            raise
        return _side_of_checkpoint(text, StoredCheckpoint(folder.filesystem, folder.path, 0))
    trials = [trial for trial in catalog.winner_first() if not trial.is_abandoned]
    chosen = trials_named(name, trials)[0] if name or not trials else trials[0]
    if posixpath.basename(posixpath.dirname(folder.path.rstrip("/"))) == EVALUATIONS:
        if len(trials) > 1 and not name:
            there = name_some(trial.name for trial in trials)
            raise ValueError(
                f"the evaluation {text!r} has {len(trials)} trials ({there}): " + remedy(f"name one, {text}:TRIAL.")
            )
        return Side(text, chosen, None)
    checkpoints = checkpoints_of(chosen, which)
    if not checkpoints:
        raise ValueError(f"trial {chosen.name} of {text!r} has no checkpoint {which!r}.")
    return Side(text, chosen, checkpoints[-1])


def check_same_env(base: Side, candidate: Side, overrides: Mapping[str, Any], *, is_given: bool) -> None:
    """Raise ValueError unless both sides play in one env, as far as their trials tell.

    Keys in ``overrides`` have one value for both; ``is_given``: a function of the user's makes the env of both.
    """
    params = [side.trial.read_config() for side in (base, candidate)]  # of an evaluation, as it was evaluated
    ours, theirs = (config.get("env") for config in params)
    if not is_given and None not in (ours, theirs) and ours != theirs:
        raise ValueError(
            f"the base was trained in the env {ours!r}, and the candidate in {theirs!r}: returns of two envs cannot be "
            "compared. "
            + remedy("If both can play in one env, pass a function that makes it: " + argument("env=, or --env") + ".")
        )
    configs = [of if isinstance(of := config.get("env_config"), dict) else {} for config in params]
    for key in dict.fromkeys(key for config in configs for key in config if key != "render_mode"):
        value, other_value = (config.get(key) for config in configs)
        if key not in overrides and value != other_value:
            raise ValueError(
                f"the base plays with {key}={value!r} in its env_config, and the candidate with {other_value!r}: "
                + remedy(f"pass one value for both, env_config={{{key!r}: ...}}, or --env-config {key}=...")
            )


def envs_differ(ours: bytes, theirs: bytes) -> str | None:
    """Return how the envs of two recipes differ, or None. Reading a recipe runs its code, which may raise anything."""
    base, candidate = LoadedRecipe.of(ours), LoadedRecipe.of(theirs)
    for key in dict.fromkeys(key for config in (base.config, candidate.config) for key in config):
        if key == "render_mode":  # it changes no episode
            continue
        values = [shown(recipe.config.get(key)) for recipe in (base, candidate)]
        if without_address(values[0]) != without_address(values[1]):
            return f"their env_config: {key} is {values[0]} for the base, and {values[1]} for the candidate"
    wrappers = [recipe.facts["wrappers"] for recipe in (base, candidate)]
    layers, shown_wrappers = [_layers(names) for names in wrappers], [" around ".join(names) for names in wrappers]
    if layers[0] != layers[1]:
        return f"their wrappers: the base plays in {shown_wrappers[0]}, and the candidate in {shown_wrappers[1]}"
    sources = base.facts["sources"], candidate.facts["sources"]
    edited = [name for name in sources[0] if sources[1].get(name, sources[0][name]) != sources[0][name]]
    if edited:
        return f"the code of {name_some(edited)}"
    codes, ids = [set(code.values()) for code in sources], [_VERSIONED.search(text) for text in shown_wrappers]
    has_other_id = ids[0] and ids[1] and ids[0][0] != ids[1][0]
    if has_other_id or (all(codes) and codes[0].isdisjoint(codes[1])):
        return f"the env itself: the base plays in {shown_wrappers[0]}, and the candidate in {shown_wrappers[1]}"
    return None


def _layers(wrappers: Sequence[str]) -> list[str]:
    """Return the wrappers that may change how an env plays; the env itself is named by its id or by its class.

    >>> _layers(["OrderEnforcing", "TimeLimit", "CartPoleEnv"]), _layers(["TimeLimit", "CartPole-v1"])
    (['TimeLimit'], ['TimeLimit'])
    """
    return [name for name in wrappers[:-1] if name not in ("OrderEnforcing", "PassiveEnvChecker")]


def _side_of_checkpoint(name: str, checkpoint: StoredCheckpoint) -> Side:
    """Return a checkpoint as a side, with the trial in whose folder it is; if it is in none, with its own folder."""
    folder = Folder(checkpoint.filesystem, posixpath.dirname(checkpoint.path.rstrip("/")))
    path = folder.path if folder.has_file(PARAMS) else checkpoint.path
    return Side(name, TrialFiles(posixpath.basename(path.rstrip("/")), checkpoint.filesystem, path), checkpoint)
