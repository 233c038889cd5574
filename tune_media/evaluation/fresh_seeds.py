"""Seeds on which nothing has been chosen: above all that an experiment's evaluations, or its recorder, have played."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from tune_media.evaluation.evaluation import Evaluation
from tune_media.experiment import evaluations
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage import episode_files
from tune_media.storage.filesystem import folders_in, json_file

FRESH = "fresh"  # in the facts of an evaluation on such seeds, by which nothing was chosen


def fresh_seeds(fresh: Evaluation, trial: TrialFiles, count: int) -> tuple[int, ...]:
    """Return as many seeds, for an evaluation of a trial's checkpoint; those that it was begun with, if it was."""
    begun = json_file(fresh.filesystem, posixpath.join(fresh.path, evaluations.FACTS_FILE)).get("seeds")
    if isinstance(begun, list) and len(begun) == count:
        return tuple(map(int, begun))
    first = 1 + max((*_evaluated(fresh), *_recorded(trial)), default=-1)
    return tuple(range(first, first + count))


def _evaluated(fresh: Evaluation) -> Iterator[int]:
    """Yield the seeds of the evaluations beside this one, without those that chose nothing."""
    for folder in folders_in(fresh.filesystem, posixpath.dirname(fresh.path)):
        facts = json_file(fresh.filesystem, posixpath.join(folder, evaluations.FACTS_FILE))
        seeds = facts.get("seeds")
        if isinstance(seeds, list) and not facts.get(FRESH):
            yield from (seed for seed in seeds if isinstance(seed, int))


def _recorded(trial: TrialFiles) -> Iterator[int]:
    """Yield the seeds of the episodes that were recorded while a trial was trained; a single file has none."""
    if trial.filesystem.get_file_info(trial.path).is_file:
        return
    for report in trial.read().report_files:
        try:
            seeds = trial.episodes(report, ["seed"])["seed"].to_pylist()
        except Exception as error:  # of one file: it is gone, or broken
            trial.pass_over(episode_files.parquet_name(report), error)
            continue
        yield from (seed for seed in seeds if seed is not None)
