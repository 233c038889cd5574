"""The order in which hyperparameters are shown: those on which the score depends come first, training seeds last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tune_media.experiment.params import comparable
from tune_media.values.number import as_number
from tune_media.viewing.configurations import is_seed
from tune_media.viewing.statistics import ranks_of

_FEWEST = 8  # trials with a score: of fewer, nobody can say what the score depends on
_MOST_GROUPS = 5  # a number with more values is put into quarters
_LEVEL = 0.05
_STEPS = 10  # an effect counts in tenths, so that the order of a running sweep does not change with each result


def by_effect(names: Sequence[str], params: Sequence[Mapping[str, Any]], scores: Sequence[float | None]) -> list[str]:
    """Return hyperparameters, those first whose values explain most of the differences of the scores.

    The share that is explained is epsilon squared of the scores' ranks, over the values of the hyperparameter or the
    quarters of its range. Below eight scores, or if chance explains it, the order stays.

    Args:
        names: The hyperparameters.
        params: The hyperparameters of each trial.
        scores: The score of each trial, or None.

    >>> params = [{"batch": n % 2, "lr": n // 4, "seed": n} for n in range(8)]
    >>> by_effect(["batch", "lr", "seed"], params, [n // 4 for n in range(8)])
    ['lr', 'batch', 'seed']
    """
    counting = [number for number, score in enumerate(scores) if score is not None]
    effects = dict.fromkeys(names, 0.0)
    if len(counting) >= _FEWEST:
        ranks = ranks_of(np.array([scores[number] for number in counting], float))
        for name in names:
            effects[name] = _effect(_groups([params[number].get(name) for number in counting]), ranks)
    return sorted(names, key=lambda name: (is_seed(name), -round(_STEPS * effects[name])))


def _groups(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Return a number for each value: equal ones have the same, and so have those in one quarter of many numbers."""
    texts = [comparable(value) for value in values]
    numbers = np.array([as_number(value) for value in values])
    if len(set(texts)) > _MOST_GROUPS and np.all(np.isfinite(numbers)):
        return np.searchsorted(np.quantile(numbers, [0.25, 0.5, 0.75]), numbers).astype(np.int64)
    return np.unique(texts, return_inverse=True)[1].astype(np.int64)


def _effect(groups: npt.NDArray[np.int64], ranks: npt.NDArray[np.float64]) -> float:
    """Return the share of the ranks' variance that the groups explain; 0 if chance may do so."""
    from scipy import special  # when it is needed: it takes longer to import than all of tune_media.load

    counts = np.bincount(groups)
    counts = counts[counts > 0]
    between, within = len(counts) - 1, len(groups) - len(counts)
    total = float(np.sum((ranks - ranks.mean()) ** 2))
    if between < 1 or within < 1 or total == 0:
        return 0.0
    means = [float(ranks[groups == group].mean()) for group in np.unique(groups)]
    explained = float(np.sum(counts * (np.array(means) - ranks.mean()) ** 2))
    left = max(0.0, total - explained)
    if left and float(special.fdtrc(between, within, explained / between / (left / within))) > _LEVEL:
        return 0.0
    return max(0.0, 1 - left / within / (total / (len(groups) - 1)))
