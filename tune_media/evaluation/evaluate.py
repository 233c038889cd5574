"""``tune_media.evaluate``: plays the checkpoints of a finished sweep on the same seeds, fairly."""

from __future__ import annotations

import importlib
import logging
import math
import posixpath
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.fs

from tune_media.evaluation.checkpoints import StoredCheckpoint, checkpoints_of
from tune_media.evaluation.clips import ClipRenderer, clips_there
from tune_media.evaluation.evaluated_trial import RECORDER, SECTION, EvaluatedTrial
from tune_media.evaluation.interval import mean_interval
from tune_media.evaluation.jobs import Job, Played, played_by_tasks, played_here
from tune_media.evaluation.request import (
    Condition,
    Request,
    as_checkpoint,
    as_conditions,
    as_seeds,
    check_name,
)
from tune_media.experiment.params import differing
from tune_media.experiment.results import json_object
from tune_media.experiment.trial_files import TrialFiles
from tune_media.rllib.checkpoint_player import CONNECTORS, PlayedAs, PlayerSettings
from tune_media.selection import Selector, as_selectors
from tune_media.storage.filesystem import read_if_there, write_atomically
from tune_media.values.checks import as_shown, name_some
from tune_media.values.episodes import summarized
from tune_media.values.names import name_digest
from tune_media.values.options import VideoOptions
from tune_media.values.strict_json import json_bytes
from tune_media.viewing.catalog import Catalog, load
from tune_media.viewing.taped_episodes import TapedEpisode

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("tune_media")

FOLDER = "evaluations"
"""The folder of an experiment that holds its evaluations."""
_FACTS_FILE = "evaluation.json"
_VERSION = 1
LoadPolicy = Callable[[str], Callable[[Any], Any]]
"""Loads the policy of a checkpoint's folder: a function of an observation that returns an action."""


@dataclass(frozen=True)
class EvaluatedCheckpoint:
    """One checkpoint under one condition: a line of the table.

    Attributes:
        trial: The name of its trial.
        condition: The change of the env as text; empty: the env is that of the training.
        checkpoint: The name of its folder.
        training_iteration: The iteration after which it was saved.
        episodes: The number of episodes that were played.
        return_mean: The mean of their returns; NaN if there are none.
        return_low, return_high: The 95 % interval of the mean: percentile bootstrap over the episodes.
        explored: Whether the policy explored. None: no episode was played.
        connectors: Whose connectors were used: ``evaluation`` or ``training``. None: the policy has none of RLlib's.
        note: What differs from the policy as it was trained, or None.
        error: Why episodes are missing, or None.
        params: The hyperparameters of the trial that differ between the evaluated trials.
    """

    trial: str
    condition: str
    checkpoint: str
    training_iteration: int
    episodes: int
    return_mean: float = math.nan
    return_low: float = math.nan
    return_high: float = math.nan
    explored: bool | None = None
    connectors: str | None = None
    note: str | None = None
    error: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Evaluation:
    """What an evaluation has found.

    Attributes:
        name: Its name.
        path: Its folder, ``<experiment>/evaluations/<name>``, on ``filesystem``.
        filesystem: The filesystem of the experiment.
        checkpoints: A line for each checkpoint under each condition, in the order of the trials.
        problems: What is missing besides, such as clips, each in a sentence.

    Example:
        ``evaluate("~/ray_results/my_sweep", episodes=40).to_pandas()``
    """

    name: str
    path: str
    filesystem: pyarrow.fs.FileSystem
    checkpoints: list[EvaluatedCheckpoint] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def best(self) -> EvaluatedCheckpoint | None:
        """The checkpoint with the highest mean return in the env of the training, or under the first condition."""
        first = self.checkpoints[0].condition if self.checkpoints else ""
        condition = "" if any(not one.condition for one in self.checkpoints) else first
        known = [one for one in self.checkpoints if one.condition == condition and not math.isnan(one.return_mean)]
        return max(known, key=lambda one: one.return_mean, default=None)

    @property
    def catalog(self) -> Catalog:
        """Its episodes and clips, as ``tune_media.load`` reads them."""
        return load(self.path, self.filesystem)

    def to_pandas(self) -> pd.DataFrame:
        """Return the lines of the table as a DataFrame; a hyperparameter has the column ``config/<name>``."""
        import pandas as pd

        rows = []
        for one in self.checkpoints:
            facts = {name: value for name, value in vars(one).items() if name != "params"}
            rows.append({**facts, **{f"config/{name}": value for name, value in one.params.items()}})
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return f"Evaluation({self.name!r}, {len(self.checkpoints)} checkpoints in {self.path})"


class Progress:
    """Told how far an evaluation is; this one says nothing."""

    def begin(self, name: str, episodes: int, missing: int) -> None:
        """The evaluation with this name has so many episodes, of which some are missing yet."""

    def played(self, episodes: int) -> None:
        """So many more episodes have been played."""

    def finished(self, checkpoint: EvaluatedCheckpoint) -> None:
        """All episodes of a checkpoint have been played, or there will be no more."""


def evaluate(
    source: Any,
    *,
    trials: str | Iterable[str] = "all",
    checkpoint: str | int = "last",
    episodes: int | None = None,
    seeds: Any = None,
    explore: bool | None = None,
    connectors: str | None = None,
    env: Callable[[Any], Any] | str | None = None,
    env_config: Mapping[str, Any] | None = None,
    policy: LoadPolicy | str | None = None,
    workers: int = 0,
    name: str | None = None,
    clips: str | Selector | Iterable[str | Selector] | None = ("best", "worst", "median"),
    video: VideoOptions | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Play the checkpoints of a sweep, each on the same seeds, and file the episodes beside the trials.

    The policy of each checkpoint is loaded into RLlib's own env runner, with its connectors; there is no Algorithm and
    no learner. Episodes with tapes, clips and results go to ``<experiment>/evaluations/<name>``, in the formats of an
    experiment: ``tune_media.load``, ``tune-media watch``, ``gallery``, ``grid`` and ``render`` take that folder. An
    evaluation that was interrupted goes on where it was if it is called again.

    Checkpoints are executable: they hold pickles. Evaluate only experiments of people whom you trust.

    Args:
        source: The experiment's folder, a URI such as ``s3://bucket/experiment``, or the ``ResultGrid``.
        trials: ``"all"``, ``"best:5"`` for the five with the highest scores, a trial's name, a part of it that no
            other has, or several of these.
        checkpoint: ``"last"``, ``"best"`` (by the score of the result that it was saved with), ``"all"``, or a number:
            3 is ``checkpoint_000003``.
        episodes: The number of episodes of each checkpoint; their seeds are 0, 1, ... Default: 40.
        seeds: The seeds instead: ``"0:40"``, 7, or a list. A seed decides the env's reset, and what the policy draws.
        explore: Whether policies explore. None: as in the evaluations of the training; RLlib's explore unless
            ``evaluation_config`` says otherwise.
        connectors: ``"evaluation"``: the connectors of the evaluation env runner, to repeat a trial's own evaluations.
            ``"training"``: those of the training env runner, for the policy as it was trained. They differ in the
            statistics of observation filters, which stay as they are. None: those of the evaluations, if the training
            had evaluations.
        env: Makes the envs instead: a function of the ``env_config``, or ``"module:function"``. It is needed if the
            training script registered its env by name.
        env_config: Keys of the ``env_config`` with other values. A list of values: one evaluation for each, and for
            each combination if there are several keys.
        policy: For checkpoints of other libraries: a function, or ``"module:function"``, that takes a checkpoint's
            folder and returns a function from an observation to an action. It needs ``env``.
        workers: The number of Ray tasks at a time, each with one CPU. 0: everything is played in this process.
        name: The name of the evaluation. None: one that follows from the other arguments.
        clips: The episodes of each checkpoint that become clips, as ``keep=`` of ``record_episodes``. None: no clips.
        video: Size, speed, quality and overlays of the clips.
        filesystem: A pyarrow filesystem that ``source`` is on.
        progress: Told how far it is.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: An argument cannot work, no trial has such a checkpoint, or an evaluation of this name has other
            arguments.
        TypeError: An argument is of the wrong type.
        OSError: The storage does not answer.

    Example:
        ``evaluate("~/ray_results/my_sweep", trials="best:5", seeds="0:100", workers=8).to_pandas()``

        >>> evaluate("results/my_sweep", seeds="first")
        Traceback (most recent call last):
        ValueError: evaluate(seeds=...) takes seeds such as '0:40', 7 or [3, 7], got 'first'.
    """
    request = Request(
        as_checkpoint(checkpoint),
        as_seeds(seeds, episodes),
        _as_flag("explore", explore),
        _as_connectors(connectors),
        _function_name("env", env),
        _function_name("policy", policy),
        as_conditions(env_config),
    )
    selectors = () if clips is None or clips == () else as_selectors(clips)
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 0:
        raise ValueError(f"evaluate(workers=...) takes a number of Ray tasks, got {as_shown(workers)}.")
    if policy is not None and env is None:
        raise ValueError("evaluate(policy=...) needs env=, a function of the env_config that makes the env.")
    catalog = load(source, filesystem)
    chosen = _chosen_trials(catalog, trials)
    found = Evaluation(check_name(request.default_name if name is None else name), "", chosen[0].filesystem)
    experiments = {posixpath.dirname(trial.path.rstrip("/")) for trial in chosen}
    if len(experiments) > 1:
        raise ValueError(
            f"evaluate takes the trials of one experiment, got {len(experiments)}: {name_some(experiments)}."
        )
    found.path = posixpath.join(experiments.pop(), FOLDER, found.name)
    parts = _parts(chosen, request, found)
    _note_request(found, request)
    settings = PlayerSettings(explore, connectors, _function("env", env), {})
    _play(parts, settings, _function("policy", policy), request, workers, found, progress or Progress())
    _finish(parts, selectors, video, request, found)
    found.checkpoints = [part.line() for part in parts]
    return found


@dataclass
class _Part:
    """One checkpoint under one condition.

    Attributes:
        trial: Its trial.
        condition: The condition.
        checkpoint: The checkpoint.
        store: Where its episodes go.
        params: The hyperparameters of the trial that differ between the evaluated trials.
        played_as: What was used to play it; None: no episode has been played.
        error: Why episodes are missing, or None.
    """

    trial: TrialFiles
    condition: Condition
    checkpoint: StoredCheckpoint
    store: EvaluatedTrial
    params: Mapping[str, Any]
    played_as: PlayedAs | None = None
    error: str | None = None

    @property
    def folder_name(self) -> str:
        return f"{posixpath.basename(self.trial.path.rstrip('/'))}{self.condition.suffix}"

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the episodes that are stored."""
        return self.store.episodes(self.checkpoint.training_iteration)

    def missing(self, seeds: Sequence[int]) -> tuple[int, ...]:
        """Return the seeds whose episodes are not stored."""
        there = {row["seed"] for row in self.rows()}
        return tuple(seed for seed in seeds if seed not in there)

    def line(self) -> EvaluatedCheckpoint:
        """Return its line of the table."""
        returns = [float(row["episode_return"]) for row in self.rows()]
        low, high = mean_interval(returns)
        known = self.played_as
        return EvaluatedCheckpoint(
            self.trial.name,
            self.condition.label,
            self.checkpoint.name,
            self.checkpoint.training_iteration,
            len(returns),
            float(np.mean(returns)) if returns else math.nan,
            low,
            high,
            None if known is None else known.explore,
            None if known is None else known.connectors,
            None if known is None else known.note,
            self.error,
            self.params,
        )


def _parts(trials: Sequence[TrialFiles], request: Request, found: Evaluation) -> list[_Part]:
    """Return the parts of an evaluation; trials without such a checkpoint are a problem."""
    parts: list[_Part] = []
    names = differing([trial.params for trial in trials])
    for trial in trials:
        checkpoints = checkpoints_of(trial, request.checkpoint)
        if not checkpoints:
            found.problems.append(f"trial {trial.name} has no checkpoint {request.checkpoint!r}")
        for condition in request.conditions if checkpoints else ():
            folder = posixpath.join(found.path, f"{posixpath.basename(trial.path.rstrip('/'))}{condition.suffix}")
            id = f"{_trial_id(trial)}-{name_digest(f'{found.name} {condition.label}')[:6]}"
            store = EvaluatedTrial(found.filesystem, folder, id)
            params = {name: trial.params.get(name) for name in names}
            for checkpoint in checkpoints:
                part = _Part(trial, condition, checkpoint, store, params)
                known = store.played_as(checkpoint.training_iteration)
                part.played_as = None if known is None else PlayedAs(**known)
                parts.append(part)
    if not parts:
        raise ValueError(
            f"no trial has a checkpoint {request.checkpoint!r}. Tune saves some with "
            "RunConfig(checkpoint_config=CheckpointConfig(checkpoint_frequency=..., checkpoint_at_end=True))"
        )
    return parts


def _play(
    parts: Sequence[_Part],
    settings: PlayerSettings,
    load_policy: LoadPolicy | None,
    request: Request,
    workers: int,
    found: Evaluation,
    progress: Progress,
) -> None:
    """Play the episodes that are missing, and store them as they come."""
    missing = {number: part.missing(request.seeds) for number, part in enumerate(parts)}
    jobs = [
        Job(
            number,
            parts[number].checkpoint,
            PlayerSettings(
                settings.explore, settings.connectors, settings.env, dict(parts[number].condition.overrides)
            ),
            seeds,
            load_policy,
        )
        for number, seeds in missing.items()
        if seeds
    ]
    left = {job.part: len(job.seeds) for job in jobs}
    progress.begin(found.name, len(parts) * len(request.seeds), sum(left.values()))
    for number, part in enumerate(parts):
        if number not in left:
            progress.finished(part.line())
    for played in played_by_tasks(jobs, workers) if workers else played_here(jobs):
        part = parts[played.part]
        _store(part, played)
        progress.played(len(played.episodes))
        left[played.part] -= len(played.episodes)
        if played.error is not None or not left[played.part]:
            progress.finished(part.line())


def _store(part: _Part, played: Played) -> None:
    part.error = played.error or part.error
    part.played_as = played.played_as or part.played_as
    if played.episodes and played.played_as is not None:
        config = part.trial.read_config()
        own = config.get("env_config")
        changed = {**(own if isinstance(own, dict) else {}), **dict(part.condition.overrides)}
        part.store.begin({**config, "env_config": changed} if changed else config)
        part.store.note_played_as(part.checkpoint.training_iteration, vars(played.played_as))
        part.store.add_episodes(
            part.checkpoint.training_iteration, part.checkpoint.step, played.episodes, played.recipes
        )


def _finish(
    parts: Sequence[_Part],
    selectors: Sequence[Selector],
    video: VideoOptions | None,
    request: Request,
    found: Evaluation,
) -> None:
    """Make the clips and write the results of the parts that are whole and have none."""
    with ClipRenderer(selectors, video) as renderer:
        for part in parts:
            iteration = part.checkpoint.training_iteration
            if part.missing(request.seeds) or part.store.result(iteration) is not None or part.played_as is None:
                continue
            if selectors:
                folder = posixpath.join(found.path, part.folder_name)
                trial = TrialFiles(part.folder_name, found.filesystem, folder).read()
                taped = [one for one in TapedEpisode.of_trial(trial) if one.row["training_iteration"] == iteration]
                there = clips_there(part.store.clips(iteration), RECORDER)
                for name, clip in renderer.clips(taped, there):
                    part.store.add_clip(iteration, part.checkpoint.step, name, clip)
            part.store.finish(iteration, _result(part, part.played_as, request))
        found.problems += renderer.problems


def _result(part: _Part, played_as: PlayedAs, request: Request) -> dict[str, Any]:
    """Return the result of a part, in the shape of RLlib's."""
    rows, line = part.rows(), part.line()
    returns = [row["episode_return"] for row in rows]
    env_runners = {
        "episode_return_mean": line.return_mean,
        "episode_return_min": min(returns),
        "episode_return_max": max(returns),
        "episode_return_mean_low": line.return_low,
        "episode_return_mean_high": line.return_high,
        "episode_len_mean": float(np.mean([row["episode_length"] for row in rows])),
        "num_episodes": len(rows),
        "custom_metrics": summarized(dict(row["metrics"]) for row in rows),
    }
    steps = (
        {} if part.checkpoint.step == part.checkpoint.training_iteration else {"timesteps_total": part.checkpoint.step}
    )
    return {
        **steps,
        SECTION: {"env_runners": env_runners},
        "config": {"env_config": dict(part.condition.overrides)},
        "checkpoint": part.checkpoint.name,
        "explored": played_as.explore,
        "connectors": played_as.connectors,
        "note": played_as.note,
        "evaluated_at": time.time(),
        "seeds": len(request.seeds),
    }


def _note_request(found: Evaluation, request: Request) -> None:
    """Write what was asked for; raise if an evaluation of this name was asked for something else."""
    path = posixpath.join(found.path, _FACTS_FILE)
    before = json_object(read_if_there(found.filesystem, path))
    facts = request.facts()
    if before:
        changed = [key for key in facts if before.get(key) != facts[key]]
        if changed:
            told = "; ".join(f"{key} was {_short(before.get(key))} and is {_short(facts[key])}" for key in changed)
            raise ValueError(
                f"there is an evaluation {found.name!r} with other arguments ({told}); pass another name=, or --name."
            )
        return
    write_atomically(found.filesystem, path, json_bytes({"v": _VERSION, **facts}) + b"\n")


def _chosen_trials(catalog: Catalog, trials: str | Iterable[str]) -> list[TrialFiles]:
    """Return the trials that are wanted.

    Raises:
        ValueError: There is no such trial, or several.
    """
    names = [trials] if isinstance(trials, str) else list(trials)
    there = [trial for trial in catalog.trials if not trial.is_abandoned]
    found: list[TrialFiles] = []
    for name in names:
        kind, _, count = str(name).partition(":")
        exact = [trial for trial in there if trial.name == name]
        if exact:
            found += exact
        elif name == "all":
            found += there
        elif kind == "best" and (count.isdecimal() or not count):
            ranked = [trial for trial, _, _ in catalog.best_first() if not trial.is_abandoned]
            found += ranked[: int(count or 1)]
        else:
            matches = [trial for trial in there if str(name) in trial.name]
            if len(matches) != 1:
                known = name_some(trial.name for trial in matches or there)
                raise ValueError(f"{len(matches) or 'no'} trials have {name!r} in their name: {known}")
            found += matches
    if not found:
        raise ValueError(f"there is no trial in {catalog.path!r}")
    return list(dict.fromkeys(found))


def _trial_id(trial: TrialFiles) -> str:
    """Return the id of a trial, out of its index or its results; the name of its folder if neither has one."""
    content = read_if_there(trial.filesystem, posixpath.join(trial.path, "result.json")) or b""
    first = json_object(content.partition(b"\n")[0])
    known = first.get("trial_id") or next(iter(sorted(trial.trial_ids)), None)
    return str(known or posixpath.basename(trial.path.rstrip("/")))


def _as_flag(name: str, value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"evaluate({name}=...) takes True, False or None, got {as_shown(value)}.")
    return value


def _as_connectors(value: Any) -> str | None:
    if value is not None and value not in CONNECTORS:
        raise ValueError(f"evaluate(connectors=...) takes 'evaluation', 'training' or None, got {as_shown(value)}.")
    return None if value is None else str(value)


def _function_name(argument: str, value: Any) -> str | None:
    """Return the name of a function, by which an evaluation that goes on knows it again."""
    if value is None or isinstance(value, str):
        return value
    if not callable(value):
        raise TypeError(f"evaluate({argument}=...) takes a function or 'module:function', got {as_shown(value)}.")
    return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__name__)}"


def _function(argument: str, value: Any) -> Any:
    """Return the function that ``module:function`` names; any other value as it is.

    Raises:
        ValueError: It names none.
    """
    if not isinstance(value, str):
        return value
    module, _, name = value.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"evaluate({argument}=...): {value!r} names no function: pass module:function ({error})"
        ) from error


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(value)})"
