"""One metric of all trials over training."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tune_media.experiment.trial_files import TrialFiles

_MAX_POINTS = 200_000  # of all trials together
_FEWEST = 50  # points of a trial that are kept in any case
_THREADS = 16
_MAX_METRICS = 12  # that are held of each trial

Curve = tuple[list[float], list[float]]


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

        Results without the metric, or that were rolled back, are left out. Long curves are thinned; the last value
        stays.
        """
        with self._lock, ThreadPoolExecutor(_THREADS) as pool:
            curves = list(pool.map(lambda trial: self._curve(trial, metric), trials))
        most = max(_FEWEST, _MAX_POINTS // max(1, len(trials)))
        thinned = [tuple(_thinned(values, most) for values in curve) for curve in curves]
        return {
            "trials": [trial.id for trial in trials],
            "step": [steps for steps, _ in thinned],
            "value": [values for _, values in thinned],
        }

    def _curve(self, trial: TrialFiles, metric: str) -> Curve:
        version, held = self._held.get(trial.path, (None, {}))
        if version is None or version != trial.results_version:
            held = {}
        if metric not in held:
            try:
                found = trial.curves()
            except OSError:
                return [], []
            values = found["metrics"].get(metric, [])
            pairs = [(step, value) for step, value in zip(found["step"], values, strict=False) if value is not None]
            held[metric] = [step for step, _ in pairs], [value for _, value in pairs]
            while len(held) > _MAX_METRICS:
                del held[next(iter(held))]
        self._held[trial.path] = trial.results_version, held
        return held[metric]


def _thinned(values: list[float], most: int) -> list[float]:
    """Return every second value, or every third, and so on, and the last one.

    >>> _thinned([1, 2, 3, 4, 5, 6], 3)
    [2, 4, 6]
    """
    stride = -(-len(values) // most)
    return values[::-1][::stride][::-1] if stride > 1 else values
