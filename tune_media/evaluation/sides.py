"""What is compared: a checkpoint, a trial's checkpoint, or the episodes of an evaluation that is there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.fs

from tune_media.evaluation.checkpoints import StoredCheckpoint, content_digest
from tune_media.evaluation.evaluation_part import EvaluationPart
from tune_media.experiment import evaluations
from tune_media.experiment.places import Folder
from tune_media.experiment.trial_files import TrialFiles
from tune_media.replay.recipe import LoadedRecipe
from tune_media.storage import episode_files
from tune_media.storage.filesystem import json_object
from tune_media.values import checks
from tune_media.values.foreign import shown, without_address
from tune_media.values.number import counted
from tune_media.values.problems import argument, remedy
from tune_media.values.secrets import error_text
from tune_media.viewing.taped_episodes import TapedEpisode

_VERSIONED = re.compile(r"\S+-v\d+\W*$")  # an env's id, and not the name of its class


@dataclass(frozen=True)
class Side:
    """One of two policies that are compared, under the name that was given.

    ``trial`` has the files of its trial; of an evaluation, those of the evaluated trial, and ``checkpoint`` is None.
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
            several = f"episodes of {len(iterations)} checkpoints, and one can be compared: "
            text = f"trial {self.trial.name} of the evaluation {self.name!r} has {several}"
            raise ValueError(text + remedy("name a checkpoint's folder instead."))
        return sorted(row["seed"] for row in rows)

    def copied_to(self, place: Folder, folder: str) -> StoredCheckpoint:
        """Copy an evaluation's episodes to a folder; return a checkpoint for them, which is not there."""
        own = self.trial.filesystem
        recipes = posixpath.join(posixpath.dirname(self.trial.path.rstrip("/")), episode_files.RECIPE_FOLDER)
        targets = {recipes: posixpath.join(place.path, episode_files.RECIPE_FOLDER), self.trial.path: folder}
        for source, target in targets.items():
            if Folder(own, source).is_there:
                place.filesystem.create_dir(target)
                pyarrow.fs.copy_files(source, target, source_filesystem=own, destination_filesystem=place.filesystem)
        iteration = TapedEpisode.of_trial(self.trial)[0].row["training_iteration"]
        return StoredCheckpoint(self.trial.filesystem, self.trial.path, 0, iteration, iteration)

    def facts(self) -> dict[str, Any]:
        """Return its identity as JSON: digests that are equal for copies; of an evaluation, of its episodes, too."""
        if self.checkpoint is not None:
            return {"checkpoint": self.checkpoint.digest()}
        results = map(json_object, self.trial.result_lines())
        played = next((result["digest"] for result in results if result.get("digest")), None)
        episodes = content_digest(self.trial.filesystem, self.trial.path, (episode_files.FOLDER,))
        return {"episodes": episodes, "checkpoint": played}


def are_same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Return whether the ``facts`` of two sides are of one policy.

    >>> are_same({"checkpoint": "a"}, {"episodes": "b", "checkpoint": "a"}), are_same({"checkpoint": None}, {})
    (True, False)
    """
    return any(ours[key] is not None and ours[key] == theirs.get(key) for key in ours)


def check_same_env(base: Side, candidate: Side, overrides: Mapping[str, Any], *, is_given: bool) -> None:
    """Raise ValueError if both trials store their env, and they differ, unless an argument makes them the same."""
    params = [side.trial.read_config() for side in (base, candidate)]  # of an evaluation, as it was evaluated
    ours, theirs = (config.get("env") for config in params)
    if not is_given and None not in (ours, theirs) and ours != theirs:
        raise ValueError(
            f"the base was trained in the env {ours!r}, and the candidate in {theirs!r}: returns of two envs cannot be "
            "compared. "
            + remedy("If both can play in one env, pass a function that makes it: " + argument("env=, or --env") + ".")
        )
    configs = [own if isinstance(own := config.get("env_config"), dict) else {} for config in params]
    for key in dict.fromkeys(key for config in configs for key in config if key != "render_mode"):
        value, other_value = (config.get(key) for config in configs)
        if key not in overrides and value != other_value:
            differ = f"the base plays with {key}={value!r} in its env_config, and the candidate with {other_value!r}: "
            what_to_do = f"pass one value for both, env_config={{{key!r}: ...}}, or --env-config {key}=..."
            raise ValueError(differ + remedy(what_to_do))


def envs_differ(ours: bytes, theirs: bytes) -> str | None:
    """Return how the envs of two recipes differ, or None. Reading a recipe runs its code, which may raise anything."""
    base, candidate = LoadedRecipe.of(ours), LoadedRecipe.of(theirs)
    key = _differing_key(base.config, candidate.config)
    if key is not None:
        values = [shown(recipe.config.get(key)) for recipe in (base, candidate)]
        return f"their env_config: {key} is {values[0]} for the base, and {values[1]} for the candidate"
    wrappers = [recipe.facts["wrappers"] for recipe in (base, candidate)]
    names = [" around ".join(of_env) for of_env in wrappers]
    told = f"the base plays in {names[0]}, and the candidate in {names[1]}"
    if _layers(wrappers[0]) != _layers(wrappers[1]):
        return f"their wrappers: {told}"
    sources = base.facts["sources"], candidate.facts["sources"]
    edited = [name for name in sources[0] if sources[1].get(name, sources[0][name]) != sources[0][name]]
    if edited:
        return f"the code of {checks.name_some(edited)}"
    codes = [set(code.values()) for code in sources]
    has_other_code = all(codes) and codes[0].isdisjoint(codes[1])
    ids = [_VERSIONED.findall(name) for name in names]
    has_other_id = all(ids) and ids[0] != ids[1]
    return f"the env itself: {told}" if has_other_code or has_other_id else None


def evaluations_with(part: EvaluationPart, seeds: Collection[int]) -> list[str]:
    """Return which evaluations of a part's trial had some of these seeds, and may have chosen it by them, as notes."""
    notes = []
    try:
        for name, shared in _shared_seeds(part, seeds):
            notes.append(
                f"the evaluation {name} has {shared} of these {counted(len(seeds), 'seed')}: if it chose the "
                "candidate, its lead is overstated; take seeds that chose nothing"
            )
    except OSError as error:  # of the storage: the verdict stays
        notes.append(f"whether evaluations had some of these seeds is not known ({error_text(error)})")
    return notes


def _shared_seeds(part: EvaluationPart, seeds: Collection[int]) -> Iterator[tuple[str, int]]:
    """Yield the names of a trial's evaluations that had some of these seeds, and how many."""
    experiment, name = posixpath.split(part.trial.path.rstrip("/"))
    folders = Folder(part.trial.filesystem, evaluations.evaluations_of(experiment))
    for evaluation in folders.subfolders() if folders.is_there else []:
        own = TrialFiles(name, part.trial.filesystem, f"{evaluation.path}/{name}{part.condition.suffix}")
        if shared := len({episode.row["seed"] for episode in TapedEpisode.of_trial(own.read())} & set(seeds)):
            yield evaluation.name, shared


def _differing_key(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """Return the first key with two values; how an env is rendered changes no episode."""
    for key in {**ours, **theirs}:
        values = [without_address(shown(config.get(key))) for config in (ours, theirs)]
        if key != "render_mode" and values[0] != values[1]:
            return key
    return None


def _layers(wrappers: Sequence[str]) -> list[str]:
    """Return the wrappers that may change how an env plays; the env itself is named by its id or by its class.

    >>> _layers(["OrderEnforcing", "TimeLimit", "CartPoleEnv"]), _layers(["TimeLimit", "CartPole-v1"])
    (['TimeLimit'], ['TimeLimit'])
    """
    return [name for name in wrappers[:-1] if name not in ("OrderEnforcing", "PassiveEnvChecker")]
