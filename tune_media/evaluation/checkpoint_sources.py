"""The policies that a user names: of an experiment's trials, of another program's files, or a single one."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tune_media.evaluation.checkpoints import CheckpointSeries, StoredCheckpoint, checkpoint_at
from tune_media.evaluation.request import ALL
from tune_media.evaluation.sides import Side
from tune_media.experiment import evaluations
from tune_media.experiment.named import Named
from tune_media.experiment.places import Folder
from tune_media.experiment.state import Snapshots
from tune_media.experiment.trial_files import TrialFiles, trials_named
from tune_media.storage.trial_folder import PARAMS
from tune_media.values import checks
from tune_media.values.problems import argument, remedy
from tune_media.viewing.catalog import Catalog, load


@dataclass(frozen=True)
class Sources:
    """The policies to play, and the folder for ``evaluations``; ``only``: the name of the one that was named itself."""

    folder: Folder
    series: list[CheckpointSeries]
    only: str | None = None


def find_sources(
    source: Named, trials: str | Iterable[str], which: str, *, is_foreign: bool = False, waits: bool = False
) -> Sources:
    """Return the policies that a source means; if it ``waits``, some are still to come. Raises ValueError, OSError."""
    if not isinstance(trials, Iterable):
        raise TypeError(checks.refusal("evaluate(trials=...)", "'all', a name, or several", trials))
    has_all = trials == ALL or list(trials) == [ALL]
    checkpoint = _only_checkpoint(source, is_foreign)
    if not has_all:
        _check_has_trials(source, checkpoint)
    if checkpoint is not None:
        return _of_one(checkpoint)
    if source.pattern:
        return _of_pattern(source, waits)
    catalog = _catalog(source, has_all and not source.part and (is_foreign or waits))
    chosen = [] if catalog is None else chosen_trials(catalog, source.part or trials)
    if is_foreign and (which == ALL or not chosen) and _is_no_sweep(source, chosen):
        return _of_folder(source.place, which)
    return _of_trials(source, chosen)


def _check_has_trials(source: Named, checkpoint: StoredCheckpoint | None) -> None:
    """Raise ValueError unless a source has trials of which some can be chosen."""
    if source.part or source.pattern or checkpoint is not None:
        means = "names a trial" if source.part else "is a pattern" if source.pattern else "is one checkpoint"
        raise ValueError(f"{source.text!r} {means}: " + remedy("leave out " + argument("trials=, or --trials") + "."))


def side_of(source: Named, which: str = "last", *, is_foreign: bool = False) -> Side:
    """Return the one policy that a source means: of an experiment, its winner's. Raises ValueError, OSError.

    If checkpoints are of another library (``is_foreign``), any file or folder can be one.
    """
    if which == ALL:
        raise ValueError(argument("checkpoint=") + " takes 'last', 'best' or the number of one checkpoint, got 'all'.")
    if source.pattern:
        raise ValueError(f"{source.text!r} is a pattern, and one policy is compared: " + remedy("name its file."))
    only = _only_checkpoint(source, is_foreign)
    catalog = _catalog(source, is_foreign and not source.part) if only is None else None
    if catalog is None:
        only = only or StoredCheckpoint(source.place.filesystem, source.place.path, 0)
        series = CheckpointSeries(_trial_of(only), only=only)
        return Side(source.text, series.trial, *series.chosen(which))
    is_evaluation = posixpath.basename(posixpath.dirname(source.place.path.rstrip("/"))) == evaluations.EVALUATIONS
    trial = _trial_meant(source, catalog, is_evaluation)
    if is_evaluation:
        return Side(source.text, trial, None)
    checkpoints = CheckpointSeries(trial).chosen(which)
    if not checkpoints:
        raise ValueError(f"trial {trial.name} of {source.text!r} has no checkpoint {which!r}.")
    return Side(source.text, trial, checkpoints[-1])


def _trial_meant(source: Named, catalog: Catalog, is_evaluation: bool) -> TrialFiles:
    """Return the trial that a source names, or else the winner; of an evaluation, its only one. Raises ValueError."""
    there = [trial for trial in catalog.trials if not trial.is_abandoned]
    if source.part:
        return trials_named(source.part, there)[0]
    if is_evaluation and len(there) > 1:
        names = checks.name_some(trial.name for trial in there)
        several = f"the evaluation {source.text!r} has {len(there)} trials ({names}): "
        raise ValueError(several + remedy(f"name one, {source.text}:TRIAL."))
    return chosen_trials(catalog, "best")[0]


def chosen_trials(catalog: Catalog, trials: str | Iterable[str]) -> list[TrialFiles]:
    """Return the trials that are wanted, each once. Raises ValueError."""
    there = [trial for trial in catalog.trials if not trial.is_abandoned]
    chosen: list[TrialFiles] = []
    for name in [trials] if isinstance(trials, str) else list(trials):
        chosen += there if name == ALL else _trials_meant(str(name), catalog, there)
    if not chosen:
        raise ValueError(f"there is no trial in {catalog.path!r}")
    return list(dict.fromkeys(chosen))


def _trials_meant(name: str, catalog: Catalog, there: list[TrialFiles]) -> list[TrialFiles]:
    kind, _, count = name.partition(":")
    if kind != "best" or any(trial.name == name for trial in there):
        return trials_named(name, there)
    if count and not (count.isdecimal() and int(count)):
        raise ValueError(checks.refusal("evaluate(trials=...)", "a number after best:, such as best:5", name))
    ranked = [trial for trial in catalog.winner_first() if not trial.is_abandoned]
    return ranked[: int(count or 1)]


def _only_checkpoint(source: Named, is_foreign: bool) -> StoredCheckpoint | None:
    """Return the checkpoint that a source is; None: it has some in it. Raises ValueError if RLlib has no such ones."""
    is_file = source.is_file
    if not is_foreign and (source.pattern or is_file):
        kind, functions = "a pattern" if source.pattern else "a file", argument("policy=") + " and " + argument("env=")
        what_to_do = remedy("pass " + functions + " if it holds the policy of another library.")
        raise ValueError(f"{source.text!r} is {kind}; " + what_to_do)
    if source.part or source.pattern or len(source.places) > 1:
        return None
    place = source.place
    return StoredCheckpoint(place.filesystem, place.path, 0) if is_file else checkpoint_at(place.filesystem, place.path)


def _catalog(source: Named, may_be_none: bool) -> Catalog | None:
    """Return the trials in the places of a source; None: there are none, which may be."""
    try:
        catalog = load(list(source.places))
    except ValueError:
        if not may_be_none:
            raise
        return None
    return None if may_be_none and not catalog.trials else catalog


def _is_no_sweep(source: Named, trials: Sequence[TrialFiles]) -> bool:
    """Return whether a folder is of another program: no trial has a checkpoint of Tune's, nor will it get one."""
    if source.part or len(source.places) > 1 or any(CheckpointSeries(trial).there() for trial in trials):
        return False
    return not Snapshots().of(source.place.filesystem, source.place.path).trials


def _of_trials(source: Named, trials: Sequence[TrialFiles]) -> Sources:
    """Return the checkpoints of trials, which must be of one experiment."""
    experiments = {trial.experiment for trial in trials} or {source.place.path}
    if len(experiments) > 1:
        got = f"{len(experiments)}: {checks.name_some(experiments)}"
        raise ValueError(f"evaluate takes the trials of one experiment, got {got}.")
    return Sources(Folder(source.place.filesystem, experiments.pop()), [CheckpointSeries(trial) for trial in trials])


def _of_folder(folder: Folder, which: str) -> Sources:
    """Return the files of another program in a folder; unless all are wanted, the folder is one policy."""
    if which == ALL:
        return Sources(folder, [CheckpointSeries(_trial(folder.name, folder), "*")])
    return _of_one(StoredCheckpoint(folder.filesystem, folder.path, 0))


def _of_pattern(source: Named, waits: bool) -> Sources:
    """Return the files of a pattern, by folder: the steps of a training, or, unless it ``waits``, single policies."""
    steps: list[CheckpointSeries] = []
    single: list[CheckpointSeries] = []
    for path, folder in source.folders():
        series = CheckpointSeries(_trial(path or folder.name, folder), posixpath.basename(source.pattern))
        if series.there() or (waits and not path):
            steps.append(series)
        elif not waits and evaluations.EVALUATIONS not in path.split("/"):
            single += _without_number(series, path)
    if not (waits or steps or single):
        raise FileNotFoundError(f"Nothing matches {source.text!r}; " + remedy("pass a pattern of files."))
    return Sources(source.place, [*steps, *single])


def _without_number(series: CheckpointSeries, path: str) -> Iterator[CheckpointSeries]:
    """Yield each file of a series on its own: as the trial in whose folder it is, or, of several, by its name."""
    files = [file for file in series.without_number() if file.name != evaluations.EVALUATIONS]
    for file in files:
        own = _trial(posixpath.join(path, file.name), Folder(file.filesystem, file.path))
        yield CheckpointSeries(series.trial if len(files) == 1 else own, only=file)


def _of_one(checkpoint: StoredCheckpoint) -> Sources:
    """Return a checkpoint alone, in the folder that its trial is in."""
    series = CheckpointSeries(_trial_of(checkpoint), only=checkpoint)
    return Sources(Folder(checkpoint.filesystem, series.trial.experiment), [series], checkpoint.name)


def _trial_of(checkpoint: StoredCheckpoint) -> TrialFiles:
    """Return the trial in whose folder a checkpoint is; if it is in none, its own folder or file."""
    folder = Folder(checkpoint.filesystem, posixpath.dirname(checkpoint.path.rstrip("/")))
    own = folder if folder.has_file(PARAMS) else Folder(checkpoint.filesystem, checkpoint.path)
    return _trial(own.name, own)


def _trial(path: str, folder: Folder) -> TrialFiles:
    return TrialFiles(path.replace("/", "_"), folder.filesystem, folder.path)
