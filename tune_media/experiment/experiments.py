"""Finds the trials in a folder, whoever wrote them, and tells which of them are one experiment."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow.fs

from tune_media.experiment.places import Folder, TrialFolders, find_folders, folder_at
from tune_media.experiment.trial_files import TrialFiles, Version
from tune_media.foreign.configs import params_of_name
from tune_media.foreign.finding import DEEPEST, RunFolder, find_runs
from tune_media.foreign.reading import env_id_of
from tune_media.foreign.run_files import RunFiles
from tune_media.storage.filesystem import as_argument, is_local
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.checks import did_you_mean, first_names
from tune_media.values.number import counted
from tune_media.values.problems import remedy

_LONG = 0.1  # seconds of a look at all folders
_SEED = re.compile(r"(?:seed|s)?[_=-]?\d{1,3}", re.IGNORECASE)
_TRACKERS = frozenset(("mlartifacts", "mlruns", "wandb"))
"""Their folders may have the runs of others a second time, which are no second runs."""


@dataclass(frozen=True)
class FoundTrial:
    """A folder of a trial.

    Attributes:
        version: Of the files whose change is a change of its media.
        files: Those of a run of another tool; None if Tune or a recorder of ours wrote it.
        experiment: The name of its experiment.
    """

    path: str
    version: Version
    files: RunFiles | None
    experiment: str

    @property
    def shows_clips(self) -> bool:
        """Whether it may have clips."""
        return self.files is None or bool(self.files.clips)


@dataclass(frozen=True)
class Experiment:
    """Some trials that belong together."""

    name: str
    runs: int
    newest: float
    """When the last of its files was written, Unix time in seconds; 0 if it is not known."""
    has_ours: bool = True
    """Whether Tune or a recorder of ours wrote any of its trials: no other has tapes."""

    @property
    def shown_time(self) -> str:
        """When that was, in local time; empty if it is not known."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.newest)) if self.newest else ""


@dataclass(frozen=True)
class FoundTrials:
    """The trials in a folder; ``is_begun``: Tune has begun an experiment in it, which may have none yet."""

    trials: Sequence[FoundTrial] = ()
    is_begun: bool = False
    refused: dict[str, OSError] = field(default_factory=dict)  # why a folder cannot be listed, or a trial not be read

    @property
    def experiments(self) -> list[Experiment]:
        """The experiments that they are, the newest first."""
        found: dict[str, list[FoundTrial]] = {}
        for trial in self.trials:
            found.setdefault(trial.experiment, []).append(trial)
        times = {name: max(trial.version[1] for trial in trials) / 1e9 for name, trials in found.items()}
        experiments = [
            Experiment(name, len(trials), times[name], any(trial.files is None for trial in trials))
            for name, trials in found.items()
        ]
        return sorted(experiments, key=lambda experiment: (-experiment.newest, experiment.name))

    def of(self, experiment: str) -> list[FoundTrial]:
        """Return the trials of an experiment, or all if the name is empty."""
        return [trial for trial in self.trials if experiment in ("", trial.experiment)]


class SeveralExperimentsError(ValueError):
    """A folder has several experiments, and one is wanted."""

    def __init__(self, folder: Folder, experiments: Sequence[Experiment]) -> None:
        self.folder, self.experiments = folder, experiments
        names = first_names([f"{one.name} ({counted(one.runs, 'run')})" for one in experiments], 10)
        told = f"{folder.path!r} has {len(experiments)} experiments, whose runs are not compared: {names}; "
        super().__init__(told + remedy(f"pass one of them, such as {self.argument_of(experiments[0])}."))

    def argument_of(self, experiment: Experiment) -> str:
        """Return what to pass for one of them."""
        return as_argument(self.folder.filesystem, f"{self.folder.path}:{experiment.name}")


@dataclass
class TrialFinder:
    """Finds the trials in folders, again and again; what files say of a run's task is read once.

    Attributes:
        rest: Seconds until the next look, so that looks take a tenth of the time; 0: they are fast, or far.
    """

    rest: float = 0.0
    _rests: dict[str, float] = field(default_factory=dict)  # by the folder's path
    _env_ids: dict[str, tuple[Version, str | None]] = field(default_factory=dict)  # by path, with the version read

    def find(self, folder: Folder, known: Iterable[TrialFiles] = ()) -> FoundTrials:
        """Return the trials in a folder; of ``known`` ones of ours, few files are asked for.

        OSError is raised if no trial is found, and the filesystem answers for no folder of a level: it is away.
        """
        begin = time.monotonic()
        look = TrialFolders(folder.filesystem, [trial for trial in known if trial.run is None])
        found = find_runs(folder.filesystem, folder.path, look.known)
        asked = list(dict.fromkeys((*found.trials, *found.inside)))
        with ThreadPoolExecutor(pyarrow.io_thread_count(), "tune_media-find") as pool:
            versions = look.versions(asked, frozenset(found.trials), pool)
        refused = found.refused | {path: v for path, v in versions.items() if isinstance(v, OSError)}
        of_ours = {path: v for path, v in versions.items() if not isinstance(v, OSError)}
        runs = [run for run in found.runs if run.is_sure or not versions]  # beside a sweep, others may be figures
        if not runs and not of_ours and (found.is_away or versions):
            raise next(iter(refused.values()))
        for path, why in found.passed_over:
            warn_passed_over(path, why)
        names = self._experiments(folder, of_ours, runs)
        trials = [FoundTrial(path, version, None, names[path]) for path, version in of_ours.items()]
        trials += [FoundTrial(run.path, run.files.version, run.files, names[run.path]) for run in runs]
        duration = time.monotonic() - begin
        self._rests[folder.path] = 10 * duration if duration > _LONG and is_local(folder.filesystem) else 0.0
        self.rest = sum(self._rests.values())
        return FoundTrials(trials, bool(found.experiments), refused)

    def _experiments(self, folder: Folder, trials: Iterable[str], runs: Sequence[RunFolder]) -> dict[str, str]:
        """Return the name of each trial's experiment, by path.

        Runs of one task are one; if no file names the task, the runs in one folder. Trials of ours belong to such runs
        if these have the task in the trial's name, or lie beside it; others are one in a folder of experiments.
        """
        names = {run.path: self._name(folder, run) for run in runs}
        known = set(names.values())
        for path in trials:
            task = params_of_name(posixpath.basename(path)).get("env_id")
            beside = _below(folder, posixpath.dirname(path)) or folder.name
            around = "/".join(_below(folder, path).split("/")[:-2]) or folder.name
            names[path] = next((name for name in (task, beside) if name in known), around)
        return names

    def _name(self, folder: Folder, run: RunFolder) -> str:
        version, env_id = self._env_ids.get(run.path, (None, None))
        if env_id is None and version != run.files.version:
            env_id = env_id_of(run.files)
            self._env_ids[run.path] = run.files.version, env_id
        beside = posixpath.dirname(run.name)
        tracker = next((part for part in run.name.split("/") if part in _TRACKERS), "")
        while not tracker and _SEED.fullmatch(
            posixpath.basename(beside)
        ):  # Tianshou's runs lie in a folder for each seed
            beside = posixpath.dirname(beside)
        beside = beside or folder.name
        return beside if env_id is None else posixpath.join(tracker, env_id)


def no_experiment(folder: Folder) -> ValueError:
    """Return the error of a folder that holds no trial."""
    return ValueError(
        f"{folder.path!r} is not an experiment: neither it nor a folder in it, to {DEEPEST} levels below, has "
        "trials of Ray Tune, or clips of another recorder (.mp4, .webm or .gif), or another tool's files of a run. "
        + remedy("Pass the experiment's folder, which tuner.fit() prints, or the folder of the clips.")
    )


def experiment_at(path: str) -> Folder:
    """Return the folder of one experiment. Raises ValueError if it has none, or several."""
    folder, experiments = experiments_at(path)
    if len(experiments) > 1:
        raise SeveralExperimentsError(folder, experiments)
    return folder


def experiments_at(path: str, *, wait: bool = False) -> tuple[Folder, list[Experiment]]:
    """Return a folder and its experiments; none of them with ``wait``, with which the folder may come later.

    Raises ValueError if it has none, or none of the name in ``path``.
    """
    if wait:
        return folder_at(path), []
    (folder,) = find_folders(path)
    found = TrialFinder().find(folder)
    if folder.experiment or len(found.experiments) < 2:
        one_experiment(folder, found)
    return folder, [one for one in found.experiments if folder.experiment in ("", one.name)]


def one_experiment(folder: Folder, found: FoundTrials) -> list[FoundTrial]:
    """Return the trials of the experiment that a folder names. Raises ValueError if it is none, or has several."""
    trials = found.of(folder.experiment)
    if not trials and folder.experiment:
        there = did_you_mean(folder.experiment, [one.name for one in found.experiments])
        raise ValueError(f"{folder.path!r} has no experiment {folder.experiment!r}; {there}")
    if not trials and not found.is_begun:
        raise no_experiment(folder)
    if not folder.experiment and len({trial.experiment for trial in trials}) > 1:
        raise SeveralExperimentsError(folder, found.experiments)
    return trials


def _below(folder: Folder, path: str) -> str:
    """Return a path below a folder; empty for its own."""
    name = posixpath.relpath(path, folder.path)
    return "" if name == "." else name
