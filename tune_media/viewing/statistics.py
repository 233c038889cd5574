"""The statistics of a configuration's runs beside their mean, with the bootstrap of Agarwal et al., and ranks.

The interquartile mean is that of "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tune_media.viewing.inference import LEVEL, Estimate, Scores

_RESAMPLES = 5000
_FEWEST_RESAMPLES = 500  # of many scores
_MAX_NUMBERS = 20_000_000  # that all resamples of some scores draw
_AT_ONCE = 1_000_000  # numbers
_TRIMMED = 0.25  # of the scores at each end


def interquartile_mean(scores: Scores) -> Scores:
    """Return the mean of the middle half over the last axis: a quarter of the values is left out at each end.

    >>> float(interquartile_mean(np.array([1.0, 2.0, 4.0, 100.0])))
    3.0
    """
    count = scores.shape[-1]
    cut = int(_TRIMMED * count)
    return np.asarray(np.mean(np.sort(scores, axis=-1)[..., cut : count - cut], axis=-1))


Statistic = Callable[[Scores], Scores]
"""A function of scores that works over their last axis."""

STATISTICS: Mapping[str, Statistic] = {"iqm": interquartile_mean}
"""By the name of its column: ``Catalog.compare``, ``list`` and its JSON have each, with the ends of its interval."""


def bootstrapped(scores: Scores, statistic: Statistic) -> Estimate:
    """Return a statistic of the scores of some runs, with a percentile bootstrap interval over the runs.

    Args:
        scores: The scores, of shape (runs,) or (runs, tasks). The bootstrap is stratified: it draws runs for each task.
            There are 5,000 samples, and fewer of more than 4,000 scores.

    >>> bootstrapped(np.array([1.0, 2.0, 4.0, 100.0]), interquartile_mean).value
    3.0
    """
    table = scores[:, None] if scores.ndim == 1 else scores
    value = float(statistic(table.reshape(-1)))
    runs, tasks = table.shape
    if runs < 2:
        return Estimate(value)
    size, random = runs * tasks, np.random.default_rng(0)
    left = max(_FEWEST_RESAMPLES, min(_RESAMPLES, _MAX_NUMBERS // size))
    parts = []
    while left:
        count = min(left, max(1, _AT_ONCE // size))
        draws = random.integers(0, runs, (count, runs, tasks))
        parts.append(statistic(table[draws, np.arange(tasks)].reshape(count, size)))
        left -= count
    low, high = np.quantile(np.concatenate(parts), [round((1 - LEVEL) / 2, 6), round((1 + LEVEL) / 2, 6)])
    return Estimate(value, float(low), float(high))


def ranks_of(values: Scores) -> Scores:
    """Return the ranks of values from 1 on; equal ones share the mean of theirs.

    >>> ranks_of(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])
