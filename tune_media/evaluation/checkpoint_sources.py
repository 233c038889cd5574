"""What an evaluation plays: the checkpoints of an experiment's trials, of another program, or a single one."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.evaluation.checkpoints import CheckpointSeries, checkpoint_at
from tune_media.evaluation.request import ALL
from tune_media.evaluation.sides import WANTED, side_of
from tune_media.experiment.places import Folder, find_folders, folder_at
from tune_media.experiment.state import Snapshots
from tune_media.experiment.trial_files import TrialFiles, trials_named
from tune_media.values.checks import name_some
from tune_media.values.problems import argument, remedy
from tune_media.values.safe_names import name_digest
from tune_media.viewing.catalog import Catalog, load


@dataclass(frozen=True)
class Sources:
    """What is played, and in whose folder ``evaluations`` it goes; ``digest`` tells a single policy from others."""

    folder: Folder
    series: list[CheckpointSeries]
    digest: str = ""


def find_sources(
    source: Any,
    trials: str | Iterable[str],
    which: str,
    filesystem: pyarrow.fs.FileSystem | None = None,
    *,
    is_foreign: bool = False,
    waits: bool = False,
) -> Sources:
    """Return what a source means. Raises FileNotFoundError, ValueError, OSError.

    Args:
        source: What ``tune_media.gate`` takes, with all trials of an experiment; or, of another library, a pattern such
            as ``models/*.zip``.
        trials: The trials of an experiment, as of ``tune_media.evaluate``.
        which: The checkpoint; if it is ``all``, a folder of another program has several.
        filesystem: A pyarrow filesystem that it is on.
        is_foreign: Whether the policies are of another library than RLlib.
        waits: Whether an experiment may have no trial yet.
    """
    has_all = trials == ALL or list(trials) == [ALL]
    if isinstance(source, (str, Path)):
        text = str(source)
        before, pattern = posixpath.split(text)
        if is_foreign and "*" in pattern:
            (folder,) = find_folders(before or ".", filesystem, wanted=WANTED)
            return _of_folder(folder, pattern)
        folder = folder_at(text, filesystem)
        is_there, is_file = folder.is_there, folder.is_file  # each asks the storage
        if is_file and not is_foreign:
            raise FileNotFoundError(
                f"{text!r} is a file; "
                + remedy(f"pass {WANTED}. If it holds the policy of another library, pass ")
                + remedy(argument("policy=") + " and " + argument("env=") + ", too.")
            )
        is_one = is_file or (is_there and checkpoint_at(folder.filesystem, folder.path) is not None)
        names_trial = not is_one and not is_there and ":" in pattern
        if (is_one or names_trial) and not has_all:
            what = "is one checkpoint" if is_one else "names a trial"
            raise ValueError(f"{text!r} {what}: " + remedy("leave out " + argument("trials=, or --trials") + "."))
        if is_one:
            return _of_one(text, filesystem, is_foreign=is_foreign)
        if names_trial:
            source, _, trials = text.rpartition(":")
            has_all = False
    (folder, *others) = find_folders(source, filesystem, wanted=WANTED)
    try:
        chosen = chosen_trials(load(source, filesystem), trials)
    except ValueError:
        if not (has_all and (is_foreign or waits)):
            raise
        chosen = []
    series = [CheckpointSeries(trial) for trial in chosen]
    has_none = is_foreign and not others and not any(of_trial.there() for of_trial in series)
    if has_none and not Snapshots().of(folder.filesystem, folder.path).trials:  # no sweep that is still to save some
        return _of_folder(folder, "*") if which == ALL else _of_one(str(source), filesystem, is_foreign=True)
    experiments = {trial.experiment for trial in chosen} or {folder.path}
    if len(experiments) > 1:
        raise ValueError(
            f"evaluate takes the trials of one experiment, got {len(experiments)}: {name_some(experiments)}."
        )
    return Sources(Folder(folder.filesystem, experiments.pop()), series)


def chosen_trials(catalog: Catalog, trials: str | Iterable[str]) -> list[TrialFiles]:
    """Return the trials that are wanted, each once. Raises ValueError."""
    names = [trials] if isinstance(trials, str) else list(trials)
    there = [trial for trial in catalog.trials if not trial.is_abandoned]
    chosen: list[TrialFiles] = []
    for name in names:
        kind, _, count = str(name).partition(":")
        if name == "all":
            chosen += there
        elif kind == "best" and not any(trial.name == name for trial in there):
            if count and not (count.isdecimal() and int(count)):
                raise ValueError(
                    argument("evaluate(trials=...)") + f" takes a number after best:, such as best:5, got {name!r}."
                )
            ranked = [trial for trial in catalog.winner_first() if not trial.is_abandoned]
            chosen += ranked[: int(count or 1)]
        else:
            chosen += trials_named(str(name), there)
    if not chosen:
        raise ValueError(f"there is no trial in {catalog.path!r}")
    return list(dict.fromkeys(chosen))


def _of_folder(folder: Folder, pattern: str) -> Sources:
    trial = TrialFiles(folder.name, folder.filesystem, folder.path)
    return Sources(folder, [CheckpointSeries(trial, pattern)])


def _of_one(source: str, filesystem: pyarrow.fs.FileSystem | None, *, is_foreign: bool) -> Sources:
    side = side_of(source, filesystem=filesystem, is_foreign=is_foreign)
    folder = Folder(side.trial.filesystem, side.trial.experiment)
    digest = name_digest(str(side.facts()))[:6]  # a file may be another policy next time
    return Sources(folder, [CheckpointSeries(side.trial, only=side.checkpoint)], digest)
