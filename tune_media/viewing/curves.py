"""One metric over training: of each trial, and of each configuration as the mean over its runs, with an interval."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from tune_media.experiment.status import TrialStatus
from tune_media.experiment.trial_files import TrialFiles
from tune_media.values import rates
from tune_media.viewing.comparison import Curve, curve_of, last_scores, ranked_runs, returns_from
from tune_media.viewing.configurations import Configuration, told_of
from tune_media.viewing.inference import Estimate, Scores, estimate, estimates
from tune_media.viewing.statistics import bootstrapped, interquartile_mean

_MAX_POINTS = 200_000  # of all trials together
_FEWEST = 50  # points of a trial that are kept in any case
_THREADS = 16
_MAX_METRICS = 12  # that are held of each trial
_MOST_STEPS = 200  # at which a configuration has an interval
_FEWEST_STEPS = 20  # of many configurations
_MOST_INTERVALS = 4000  # of all configurations together
_MOST_BOOTSTRAPS = 1000  # the same of interquartile means, each of which takes milliseconds


@dataclass(frozen=True)
class MeanCurve:
    """A metric of a configuration over training.

    Attributes:
        runs: The numbers of its trials that count and have the metric.
        step: The steps, as far as all of its runs go: a mean over those that go further would be one of other runs.
        mean: The mean at each step, with its interval.
        longest: The last step of any of its runs.
    """

    configuration: Configuration
    runs: Sequence[int]
    step: Sequence[float]
    mean: Sequence[Estimate]
    longest: float


class Curves:
    """Reads the curves of trials; the results of a trial are read again only if they have changed. Any thread may ask.

    >>> Curves().of([], "episode_return_mean")
    {'trials': [], 'step': [], 'value': []}
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[Any, dict[str, Curve]]] = {}
        self._lock = threading.Lock()

    def of(self, trials: Sequence[TrialFiles], metric: str) -> dict[str, Any]:
        """Return a metric over training: ``{"trials": [id, ...], "step": [[...], ...], "value": [[...], ...]}``.

        If tools have written some, ``from`` says for each trial where the curve comes from, and ``unit`` what its steps
        are: those of two places are drawn apart.
        """
        curves, places = self.each(trials, metric), returns_from(trials, metric)
        return {
            "trials": [trial.id for trial in trials],
            "step": [steps for steps, _ in curves],
            "value": [values for _, values in curves],
            **({"from": list(map(told_of, places)), "unit": [u for _, u in places]} if any(map(any, places)) else {}),
        }

    def bands(
        self, trials: Sequence[TrialFiles], statuses: Sequence[TrialStatus], metric: str, *, iqm: bool = False
    ) -> list[dict[str, Any]]:
        """Return the mean over the runs of each configuration that has several, and the ends of its 95 % interval.

        A trial that was evaluated has a band of its own, over the episodes of each checkpoint.

        Each is ``{"trials": [id, ...], "step": [...], "value": [...], "low": [...], "high": [...]}``.

        Args:
            statuses: What became of each trial; empty if not read yet.
            iqm: Whether to take the interquartile mean.
        """
        if not trials:
            return []
        found = self.means(trials, statuses or [TrialStatus()] * len(trials), metric, iqm=iqm)
        return [
            {
                "trials": [trials[number].id for number in one.runs],
                "step": one.step,
                "value": [mean.value for mean in one.mean],
                "low": [mean.low for mean in one.mean],
                "high": [mean.high for mean in one.mean],
            }
            for one in found
            if one.step and all(math.isfinite(mean.high - mean.low) for mean in one.mean)
        ] + ([] if iqm else self._over_episodes(trials, metric))

    def _over_episodes(self, trials: Sequence[TrialFiles], metric: str) -> list[dict[str, Any]]:
        evaluated = [trial for trial in trials if f"{metric}_low" in trial.last_metrics]
        curves = zip(*(self.each(evaluated, f"{metric}{end}") for end in ("", "_low", "_high")), strict=True)
        return [
            {"trials": [trial.id], "step": steps, "value": values, "low": low, "high": high}
            for trial, ((steps, values), (at_low, low), (at_high, high)) in zip(evaluated, curves, strict=True)
            if steps == at_low == at_high
        ]

    def means(
        self,
        trials: Sequence[TrialFiles],
        statuses: Sequence[TrialStatus],
        metric: str,
        *,
        by: Sequence[str] | None = None,
        iqm: bool = False,
    ) -> list[MeanCurve]:
        """Return a metric over training of each configuration that has it, in the order of ``comparison.judged``.

        Args:
            metric: Its whole name. An interval of success rates has room for the chance in the episodes, too.
            by: The hyperparameters that make a configuration. None: all that differ but for training seeds.
            iqm: Whether to take the interquartile mean.

        Raises:
            ValueError: No trial has a hyperparameter of ``by``.
        """
        scores = last_scores(trials, metric)
        names = [metric, f"{metric}_low", f"{metric}_high"] if rates.is_rate(metric) and not iqm else [metric]
        curves, *ends = [self.each(trials, name) for name in names]
        ranking = [
            (entry.configuration, runs)
            for entry in ranked_runs(trials, statuses, scores, metric, by)
            if (runs := [n for n in entry.configuration.trials if n not in entry.left_out and curves[n][0]])
        ]
        budget = _MOST_BOOTSTRAPS if iqm else _MOST_INTERVALS
        most = max(_FEWEST_STEPS, min(_MOST_STEPS, budget // max(1, len(ranking))))
        found = []
        for configuration, runs in ranking:
            found.append(_mean_curve(configuration, runs, [curves, *ends], most, iqm=iqm))
        return found

    def each(self, trials: Sequence[TrialFiles], metric: str) -> list[Curve]:
        """Return the steps and values of a metric of each trial.

        Results without the metric, or that were rolled back, are left out. Long curves are thinned; the last value
        stays.
        """
        with self._lock, ThreadPoolExecutor(_THREADS) as pool:
            curves = list(pool.map(lambda trial: self._curve(trial, metric), trials))
        most = max(_FEWEST, _MAX_POINTS // max(1, len(trials)))
        return [(_thinned(steps, most), _thinned(values, most)) for steps, values in curves]

    def _curve(self, trial: TrialFiles, metric: str) -> Curve:
        version, held = self._held.get(trial.path, (None, {}))
        if version is None or version != trial.results_version:
            held = {}
        if metric not in held:
            try:
                held[metric] = curve_of(trial, metric)
            except OSError:
                return [], []
            while len(held) > _MAX_METRICS:
                del held[next(iter(held))]
        self._held[trial.path] = trial.results_version, held
        return held[metric]


def _mean_curve(
    configuration: Configuration, runs: Sequence[int], each: Sequence[Sequence[Curve]], most: int, *, iqm: bool
) -> MeanCurve:
    """Return the mean over runs; ``each`` has the curves of all trials, then those of the ends of their intervals."""
    columns = [[column[number] for number in runs] for column in each]
    if not all(steps for column in columns for steps, _ in column):
        columns = columns[:1]  # not all runs have the ends
    steps, values = _aligned([curve for column in columns for curve in column], most)
    tables = values.reshape(len(columns), len(runs), -1)
    if len(columns) > 1:
        totals = [max(1, min(rates.total_of(*ends) for ends in table)) for table in tables.T.tolist()]
        means = [estimate(row, (0.0, 1.0), total) for row, total in zip(tables[0].T, totals, strict=True)]
    else:
        scores = tables[0].T
        means = [bootstrapped(own, interquartile_mean) for own in scores] if iqm else estimates(scores)
    return MeanCurve(configuration, runs, steps.tolist(), means, max(own[-1] for own, _ in columns[0]))


def _aligned(curves: Sequence[Curve], most: int) -> tuple[Scores, Scores]:
    """Return the steps of curves that lie in all of them, or evenly spread ones, and the values there, (curves, steps).

    Between two points, a value is on the line through them.

    >>> steps, values = _aligned([([1, 3, 5], [0, 4, 8]), ([2, 4], [1, 3])], 9)
    >>> steps.tolist(), values.tolist()
    ([2.0, 3.0, 4.0], [[2.0, 4.0, 6.0], [1.0, 2.0, 3.0]])
    """
    points = [np.array(sorted(dict(zip(*curve, strict=True)).items()), float) for curve in curves]  # one a step
    first, last = max(own[0, 0] for own in points), min(own[-1, 0] for own in points)
    every = np.unique(np.concatenate([own[:, 0] for own in points]))
    steps = every[(every >= first) & (every <= last)]
    steps = steps if len(steps) <= most else np.linspace(first, last, most)
    return steps, np.stack([np.interp(steps, own[:, 0], own[:, 1]) for own in points])


def _thinned(values: list[float], most: int) -> list[float]:
    """Return every second value, or every third, and so on, and the last one.

    >>> _thinned([1, 2, 3, 4, 5, 6], 3)
    [2, 4, 6]
    """
    stride = -(-len(values) // most)
    return values[::-1][::stride][::-1] if stride > 1 else values
