"""The table of runs and evaluation seeds that the inference gets: each run's metric, and what its episodes add to it.

The number of a run is its metric, as its results have it. The episodes of its newest report that has the metric's
values, whoever wrote it, say how the score is spread over evaluation seeds.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tune_media.experiment.trial_files import TrialFiles
from tune_media.experiment.trial_folders import in_parallel
from tune_media.storage import episode_files
from tune_media.values import rates
from tune_media.values.metric_names import RETURN_NAMES
from tune_media.values.number import as_number
from tune_media.viewing.copies import COLUMNS, TapeEnds
from tune_media.viewing.inference import Estimate, Lead, Sample, Scores, infer

_COLUMNS = [*COLUMNS, "section", "recorder", "success", "late", "metrics"]
_EQUAL = 1e-6  # relative: a metric that is the mean of some values of episodes
_RETURN, _SUCCESS = "return", "success"
_Episodes = list[Mapping[str, Any]]
_Place = tuple[str, str]  # section and recorder


class _Report(NamedTuple):
    """The newest episodes of a section and recorder, their step, and which of their seeds have copies."""

    step: float | None
    episodes: _Episodes
    copies: Mapping[int, int]


_NO_REPORT = _Report(None, [], {})
_Reports = Mapping[_Place, _Report]
_HELD: weakref.WeakKeyDictionary[TrialFiles, tuple[Any, _Reports]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class RunScores:
    """What the episodes of one run say of its score.

    Attributes:
        by_seed: The score on each evaluation seed, shifted so that their mean is the metric; empty if one has none.
        episodes: How many there are, copies once.
        is_binary: Whether all their values are 0 or 1.
        step: The step of their report; None if there is none.
        copies: A number for each seed, equal for those whose episodes are copies; empty if none are.
    """

    by_seed: Mapping[int, float]
    episodes: int = 1
    is_binary: bool = False
    step: float | None = None
    copies: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        values: Sequence[tuple[int | None, float]],
        score: float,
        step: float | None = None,
        copies: Mapping[int, int] | None = None,
    ) -> RunScores:
        """Return what the values of episodes, each with its seed, say of a score.

        >>> RunScores.of([(1, 4.0), (1, 6.0), (2, 9.0)], 8.0).by_seed
        {1: 6.0, 2: 10.0}
        """
        is_binary = 0 <= score <= 1 and all(value in (0.0, 1.0) for _, value in values)  # a smoothed one may be beyond
        if any(seed is None for seed, _ in values):
            return cls({}, len(values), is_binary, step)
        by_seed: dict[int, list[float]] = defaultdict(list)
        for seed, value in values:
            by_seed[int(seed or 0)].append(value)
        means = {seed: float(np.mean(on_seed)) for seed, on_seed in by_seed.items()}
        shift = score - float(np.mean(list(means.values())))
        count = len(set(copies.values())) if copies else len(values)
        return cls({seed: value + shift for seed, value in means.items()}, count, is_binary, step, copies or {})


def run_scores(trials: Sequence[TrialFiles], metric: str, scores: Sequence[float | None]) -> list[RunScores]:
    """Return what the episodes of each trial say of its score, which is ``metric``; trials without a score have none.

    Which value of an episode the metric is, and of which recorder, is the one whose mean is the metric in all runs that
    have episodes; else the last part of the metric's name tells.

    >>> run_scores([], "episode_return_mean", [])
    []
    """
    runs = _reports_of(trials, scores)
    told = [run for run in runs if run[0]]  # the others have no episodes
    first = told[0][0] if told else {}
    found = next((entry for entry in _candidates(first, metric) if all(_is_mean(run, *entry) for run in told)), None)
    place, name = found or _by_name(first, metric) or (("", ""), "")
    of_run = iter(runs)
    return [
        RunScores({}) if score is None else _scores_of(next(of_run), place, name) or _of_rate(trial, metric)
        for trial, score in zip(trials, scores, strict=True)
    ]


def _reports_of(trials: Sequence[TrialFiles], scores: Sequence[float | None]) -> list[tuple[_Reports, float]]:
    """Return the newest reports and the score of each trial that has one."""
    scored = [(trial, score) for trial, score in zip(trials, scores, strict=True) if score is not None]
    reports = in_parallel(_held, [trial for trial, _ in scored])
    return [(own, score) for own, (_, score) in zip(reports, scored, strict=True)]


def _of_rate(trial: TrialFiles, metric: str) -> RunScores:
    """Return what a rate's own interval says of it: of how many episodes it is, which are not there."""
    ends = [trial.last_metrics.get(f"{metric}{end}", math.nan) for end in ("", "_low", "_high")]
    total = rates.total_of(*ends) if rates.is_rate(metric) else 0
    return RunScores({}, max(1, total), is_binary=total > 0)


def _held(trial: TrialFiles) -> _Reports:
    """Return the newest reports of a trial, which are held until it has others."""
    state, reports = _HELD.get(trial, (None, {}))
    if state != trial.state:
        reports = _newest_reports(trial)
        _HELD[trial] = trial.state, reports
    return reports


def _newest_reports(trial: TrialFiles) -> _Reports:
    """Return the newest report of each section and recorder, evaluations first."""
    reports = _of_loop(trial) or _of_lines(trial)
    return dict(sorted(reports.items(), key=lambda item: item[0][0] != "evaluation"))


def _of_loop(trial: TrialFiles) -> _Reports:
    """Return the last episodes of a loop, and the env steps of training at which the last of them was played."""
    loop, found = trial.loop_episodes(), dict[_Place, _Report]()
    if loop is None:
        return found
    for section in loop.table["section"].unique().to_pylist():
        rows = loop.last(section).to_pylist()
        step = max((as_number(row["env_steps"]) for row in rows if row["env_steps"] is not None), default=None)
        found[section, ""] = _Report(step, rows, {})  # without tapes
    return found


def _of_lines(trial: TrialFiles) -> _Reports:
    """Return the episodes of the newest report; if its file is not there yet, those of the one before it."""
    found: dict[_Place, _Report] = {}
    reports: dict[_Place, dict[float, list[int]]] = defaultdict(lambda: defaultdict(list))  # their numbers, by step
    steps = [math.nan if math.isnan(step) else step for step in trial.reports.step.tolist()]  # one nan, not several
    for number in np.flatnonzero(~trial.reports.rolled_back).tolist():
        reports[trial.reports.section[number], trial.reports.key[number]][steps[number]].append(number)
    for (section, _), by_step in reports.items():
        for step in sorted(by_step, reverse=True)[:2]:
            paths = [line["path"] for line in trial.reports.lines(by_step[step])]
            of_recorder: dict[str, _Episodes] = defaultdict(list)
            for row in _rows(trial, paths):
                if row["section"] == section and not row["late"]:
                    of_recorder[str(row["recorder"])].append(row)
            for recorder, rows in of_recorder.items():
                found[section, recorder] = _Report(step, rows, TapeEnds(trial).copies(paths, rows))
            if of_recorder:
                break
    return found


def _rows(trial: TrialFiles, reports: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    for report in reports:
        try:
            yield from trial.episodes(report, _COLUMNS).to_pylist()
        except Exception as error:  # of one file: it is gone, or broken
            trial.pass_over(episode_files.parquet_name(report), error)


def _candidates(reports: _Reports, metric: str) -> Iterator[tuple[_Place, str]]:
    """Yield the places, and the values of episodes there, that a metric may be the mean of: the return comes first."""
    sections = {"evaluation": ("evaluation",), "env_runners": ("train",)}.get(metric.partition("/")[0])
    for place, report in reports.items():
        if sections is None or place[0] in sections:
            others = dict.fromkeys(name for row in report.episodes for name, _ in row["metrics"] or ())
            yield from ((place, name) for name in (_RETURN, _SUCCESS, *others))


def _by_name(reports: _Reports, metric: str) -> tuple[_Place, str] | None:
    last = metric.rpartition("/")[2]
    name = _RETURN if last in RETURN_NAMES else last.removesuffix("_mean")
    return next(((place, value) for place, value in _candidates(reports, metric) if value == name), None)


def _values(rows: _Episodes, name: str) -> list[float]:
    """Return a value of each episode; NaN if it has none."""
    if name == _RETURN:
        return [as_number(row["episode_return"]) for row in rows]
    if name == _SUCCESS:
        return [math.nan if row["success"] is None else float(row["success"]) for row in rows]
    return [as_number(dict(row["metrics"] or ()).get(name)) for row in rows]


def _is_mean(run: tuple[_Reports, float], place: _Place, name: str) -> bool:
    values = _values(run[0].get(place, _NO_REPORT).episodes, name)
    return bool(values) and math.isclose(float(np.mean(values)), run[1], rel_tol=_EQUAL)


def _scores_of(run: tuple[_Reports, float], place: _Place, name: str) -> RunScores | None:
    (step, rows, copies), score = run[0].get(place, _NO_REPORT), run[1]
    values = [(row["seed"], value) for row, value in zip(rows, _values(rows, name), strict=True)]
    known = [pair for pair in values if math.isfinite(pair[1])]
    return RunScores.of(known, score, step, copies) if known else None


def leads_of(
    tables: Sequence[Scores], runs: Sequence[Sequence[RunScores | None]], sign: int = 1
) -> tuple[list[Estimate], list[Lead | None]]:
    """Return the mean of each configuration, and how far the first one is ahead of it; the highest score is the best.

    Args:
        tables: The scores of each one's runs, of shape (runs, tasks).
        runs: What the episodes of these runs say; none if they say nothing.
        sign: -1 if scores are those of the runs with the other sign.
    """
    known = [[run or RunScores({}) for run in own] for own in runs]
    seeds = sorted({seed for run in itertools.chain(*known) for seed in run.by_seed})
    samples = [_sample(own, table, seeds, sign) for own, table in zip(known, tables, strict=True)]
    is_binary = all(own and all(run.is_binary for run in own) for own in known)
    bounds = ((0.0, 1.0) if sign > 0 else (-1.0, 0.0)) if is_binary else None
    return infer(samples, bounds, best_one=0).of_one_sweep()


def _sample(runs: Sequence[RunScores], table: Scores, seeds: Sequence[int], sign: int) -> Sample:
    """Return a configuration on evaluation seeds if all its runs have some."""
    has_seeds, copies = bool(runs) and all(run.by_seed for run in runs), None
    if has_seeds:
        table = sign * np.array([[run.by_seed.get(seed, math.nan) for seed in seeds] for run in runs])
        if any(run.copies for run in runs):
            copies = np.array([[run.copies.get(seed, -1 - n) for n, seed in enumerate(seeds)] for run in runs])
    return Sample(table[None], has_seeds, min((run.episodes for run in runs), default=1), copies)
