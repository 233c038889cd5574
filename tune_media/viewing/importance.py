"""Which hyperparameter matters: how much of the differences between scores each one explains, with an interval.

From 20 configurations on, the unit is a configuration with its mean score: its runs are no independent values of a
hyperparameter. Scores become normal scores of their ranks, and hyperparameters their ranks, so that no scale has to be
chosen; a number may have a best value in the middle (a parabola), and texts are groups. The hyperparameters that
explain most enter a linear model one after the other; each one's share is what it adds to the others, less what chance
adds. Its interval is that of the noncentral F distribution (Steiger 2004), at a level that holds for all
hyperparameters together, so that one that does not matter is called important in at most one of twenty sweeps. It
begins where it would with a hyperparameter that goes with this one in the model: two that cannot be told apart are both
not called important. `tests/benchmarks/bench_importance.py` simulates that.

With fewer, none can be said to matter, but the page has to begin with one: the unit is then a trial, and each
hyperparameter has its own model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tune_media.experiment.params import Absent, comparable, is_seed, is_unknown
from tune_media.values.number import as_number
from tune_media.viewing.configurations import configurations
from tune_media.viewing.inference import LEVEL, Estimate
from tune_media.viewing.statistics import ranks_of

FEWEST = 20  # configurations that are needed to say what matters
_FEWEST_TRIALS = 8  # with a score: with fewer, hyperparameters cannot be ordered
_STEPS = 10  # a share counts in tenths, so that the order of a running sweep does not change with each result
_MOST_GROUPS = 6  # of texts; the rarest are one
_FEWEST_IN_GROUP = 2
_TOGETHER = 0.25  # of the variance of one hyperparameter that another one explains
_NOTHING = 1e-10  # of the variance

Values = npt.NDArray[np.float64]
Scored = list[tuple[Mapping[str, Any], float]]


@dataclass(frozen=True)
class Importance:
    """How much of the differences between scores a hyperparameter explains."""

    name: str
    share: float  # of the variance of the scores' ranks, from 0 to 1; NaN if each configuration has its own text
    low: float
    high: float

    @property
    def matters(self) -> bool:
        """Whether chance does not explain what it explains: the interval begins above zero."""
        return self.low > 0


def by_importance(
    names: Sequence[str], params: Sequence[Mapping[str, Any]], scores: Sequence[float | None]
) -> list[str]:
    """Return hyperparameters in the order in which they are shown.

    Those that chance does not explain come first, the most important one at the front, and training seeds come last.
    The others stay in their order.
    """
    shares = {part.name: round(_STEPS * part.share) for part in importances(params, scores) if part.low > 0}
    return sorted(names, key=lambda name: (is_seed(name), -shares.get(name, 0)))


def importances(
    params: Sequence[Mapping[str, Any]], scores: Sequence[float | None], scored: Scored | None = None
) -> list[Importance]:
    """Return the importance of each hyperparameter that differs but for training seeds, the largest share first.

    Below 20 configurations with a score, they are good for an order only, and below eight trials with a score there are
    none. ``scored`` are the ``scored_configurations``, if they are known.
    """
    scored = scored_configurations(params, scores) if scored is None else scored
    if len(scored) >= FEWEST:
        shares = _shares_together([own for own, _ in scored], [mean for _, mean in scored])
    else:
        pairs = zip(params, scores, strict=True)
        trials = [(own, score) for own, score in pairs if score is not None and not is_unknown(own)]
        if len(trials) < _FEWEST_TRIALS:
            return []
        names = scored[0][0]
        shares = _shares_alone([{name: own.get(name) for name in names} for own, _ in trials], [s for _, s in trials])
    rows = [Importance(name, part.value, part.low, part.high) for name, part in shares.items()]
    return sorted(rows, key=lambda one: (-one.matters, -one.share if one.share == one.share else 1.0))


def scored_configurations(params: Sequence[Mapping[str, Any]], scores: Sequence[float | None]) -> Scored:
    """Return the hyperparameters and the mean score of each configuration that has a score."""
    scored: Scored = []
    for configuration in configurations(params):
        numbers = [score for number in configuration.trials if (score := scores[number]) is not None]
        scored += [(configuration.params, float(np.mean(numbers)))] if numbers and not configuration.is_unknown else []
    return scored


def _shares_alone(params: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> dict[str, Estimate]:
    """Return the share of each hyperparameter, as if there were no other one."""
    y = _centred_scores(scores)
    return {name: _part(y, _columns([config[name] for config in params]), [], 1 - LEVEL) for name in params[0]}


def _shares_together(params: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> dict[str, Estimate]:
    """Return the share of each hyperparameter besides the others that matter; NaN if each has its own text."""
    columns = {name: _columns([own[name] for own in params]) for name in params[0]}
    keys = {name: _key(own) for name, own in columns.items()}
    first = {key: name for name, key in reversed(keys.items())}  # others with this key cannot be told from it
    tested = {name: own for name, own in columns.items() if _basis(own).size and first[keys[name]] == name}
    y = _centred_scores(scores)
    level = (1 - LEVEL) / max(1, len(tested))
    found = _entering(y, tested, level)
    shares = {name: _part(y, own, _but(name, found, tested), level) for name, own in tested.items()}
    for name in found:  # one that goes with it may be what matters
        near = [other for other in tested if other not in found and _go_together(tested[name], tested[other])]
        lows = [_part(y, tested[name], [*_but(name, found, tested), tested[other]], level).low for other in near]
        shares[name] = replace(shares[name], low=min([shares[name].low, *lows]))
    return {name: shares.get(first[keys[name]], Estimate(math.nan)) for name in columns}


def _entering(y: Values, tested: Mapping[str, Values], level: float) -> list[str]:
    """Return the hyperparameters that chance does not explain, one after the other: the one that explains most."""
    found: list[str] = []
    while left := [name for name in tested if name not in found]:
        parts = {name: _part(y, tested[name], [tested[other] for other in found], level) for name in left}
        name = max(left, key=lambda one: parts[one].low)
        if not parts[name].low > 0:
            break
        found.append(name)
    return found


def _go_together(first: Values, second: Values) -> bool:
    """Return whether one hyperparameter tells much of another one."""
    return bool(np.linalg.norm(_basis(first).T @ _basis(second), 2) ** 2 > _TOGETHER)


def _but(name: str, found: Sequence[str], tested: Mapping[str, Values]) -> list[Values]:
    return [tested[other] for other in found if other != name]


def _part(y: Values, own: Values, others: Sequence[Values], level: float) -> Estimate:
    """Return the share of the variance of ``y`` (scores with the mean zero) that columns explain besides ``others``.

    The latter are those of the hyperparameters in the model; the interval may miss the share as often as ``level``.
    """
    base = _basis(np.hstack([np.ones((len(y), 1)), *others]))
    left = y - base @ (base.T @ y)
    new = _basis(own - base @ (base.T @ own), scale=own)
    freedom, count = len(y) - base.shape[1] - new.shape[1], new.shape[1]
    total = float(y @ y)
    if not count or freedom < 1 or total <= 0:
        return Estimate(0.0, 0.0, 0.0 if total <= 0 else 1.0)
    explained = float(np.sum((new.T @ left) ** 2))
    before = float(left @ left)
    noise = max(before - explained, _NOTHING * total) / freedom
    ratio = explained / count / noise
    scale = min(1.0, before / (len(y) - base.shape[1]) / (total / (len(y) - 1)))  # what the others leave
    low, high = (_noncentrality(ratio, count, freedom, p) / len(y) for p in (1 - level / 2, level / 2))
    share = max(0.0, explained - count * noise) / total
    low, high = (scale * one / (1 + one) for one in (low, high))
    return Estimate(min(max(share, low), high), low, high)


def _noncentrality(ratio: float, count: int, freedom: int, probability: float) -> float:
    """Return the noncentrality with which an F ratio is at most this large with a probability (Patnaik 1949)."""
    from scipy import special  # when it is needed: it takes longer to import than all of tune_media.load

    def chance(noncentrality: float) -> float:
        shifted = (count + noncentrality) ** 2 / (count + 2 * noncentrality)
        return float(special.fdtr(shifted, freedom, ratio / (1 + noncentrality / count)))

    return _zero_of(lambda noncentrality: chance(noncentrality) - probability, 2 * count * (ratio + 10) + 100)


def _zero_of(falling: Callable[[float], float], high: float) -> float:
    """Return where a falling function of positive numbers is zero; 0 if it is negative from the start."""
    if falling(0.0) <= 0:
        return 0.0
    low = 0.0
    while falling(high) > 0:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high


def _basis(columns: Values, scale: Values | None = None) -> Values:
    """Return an orthonormal basis of columns; those that are nothing, measured at ``scale``, are left out."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    largest = np.linalg.norm(columns if scale is None else scale)
    return np.asarray(left[:, sizes > 1e-6 * max(float(largest), 1e-300)])


def _columns(values: Sequence[Any]) -> Values:
    """Return the columns of a hyperparameter in the model, with the mean zero; none if nothing can be said."""
    is_number = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in values]
    own = [as_number(value) for value, does in zip(values, is_number, strict=True) if does]
    numbers = [value for value in own if math.isfinite(value)]
    missing = sum(value is None or isinstance(value, Absent) for value in values)
    if len(set(numbers)) > 2 and len(numbers) + missing == len(values):
        parts = _of_numbers(np.array(numbers), np.array(is_number))
    else:
        parts = _of_texts([comparable(value) for value in values])
    columns = np.array(parts, float).T.reshape(len(values), -1)
    return np.asarray(columns - columns.mean(axis=0)) if columns.size else columns


def _of_numbers(numbers: Values, is_number: npt.NDArray[np.bool_]) -> list[Values]:
    """Return the ranks of numbers, a parabola of them, and where there is none."""
    ranks = np.zeros(len(is_number))
    ranks[is_number] = _standard(ranks_of(numbers))
    parts = [ranks, np.where(is_number, ranks**2 - np.mean(ranks[is_number] ** 2), 0.0)]
    return parts if is_number.all() else [*parts, np.where(is_number, 0.0, 1.0)]


def _of_texts(texts: Sequence[str]) -> list[Values]:
    """Return where each of the texts is that stand there most often."""
    counts = Counter(texts).most_common(_MOST_GROUPS)
    kept = [text for text, count in counts if count >= _FEWEST_IN_GROUP]
    return [np.array([text == kept_text for text in texts], float) for kept_text in kept]


def _key(columns: Values) -> bytes:
    """Return a key that hyperparameters share if their values are in the same order, in the opposite one, or alike."""
    signs = [np.sign(column[np.abs(column) > _NOTHING][:1]).sum() or 1.0 for column in columns.T]
    return np.round(columns * np.array(signs) + 0.0, 6).tobytes() if columns.size else b""


def _standard(values: Values) -> Values:
    return np.asarray((values - values.mean()) / (values.std() or 1.0))


def _centred_scores(scores: Sequence[float]) -> Values:
    """Return the normal scores of the ranks; their mean is zero."""
    from scipy import special

    normal = np.asarray(special.ndtri((ranks_of(np.asarray(scores, float)) - 0.5) / len(scores)))
    return np.asarray(normal - normal.mean())
