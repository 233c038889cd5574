"""Configurations: trials that differ only in a training seed are runs of one configuration, and are judged together."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tune_media.experiment.params import comparable, differing, in_quotes, setting_of
from tune_media.values import checks
from tune_media.values.problems import argument
from tune_media.values.safe_names import full_name
from tune_media.values.secrets import without_secret
from tune_media.viewing.inference import UNEQUAL_TRAINING, Estimate, Lead, Sample, Scores, estimate, infer, not_judged
from tune_media.viewing.score_tables import RunScores

_AS_LONG = 0.9  # times the steps of the best one
_SEED = re.compile(r"(^|_)(seed|rng)(_|$)|^random_state$", re.IGNORECASE)


@dataclass(frozen=True)
class Configuration:
    """Trials with the same hyperparameters.

    Attributes:
        params: The hyperparameters that tell it from the others.
        trials: The numbers of its trials.

    >>> Configuration({"lr": 0.1}, [0, 2]).title
    'lr 0.1'
    """

    params: Mapping[str, Any]
    trials: Sequence[int]

    @property
    def title(self) -> str:
        """Its hyperparameters as text."""
        return _title(self.params, lambda value: short(value, digits=12))


@dataclass(frozen=True)
class Judged:
    """A configuration and its score over its runs.

    Attributes:
        scores: The score of each run that counts, of shape (runs, tasks).
        left_out: The numbers of its trials without a score, or that failed.
        mean: The mean score with its 95 % interval; without one if two or three runs are all equal.
        ahead: How far the best configuration is ahead of it; None of the best one.
        typical: The number of the trial whose score is nearest to the mean; None if none counts.

    >>> judged = judge([Configuration({}, [0, 1])], [1.0, 3.0])[0]
    >>> judged.mean.value, judged.n, judged.ahead is None
    (2.0, 2, True)
    """

    configuration: Configuration
    scores: Scores
    left_out: Sequence[int] = ()
    mean: Estimate = field(default_factory=lambda: Estimate(math.nan))
    ahead: Lead | None = None
    typical: int | None = None

    @property
    def n(self) -> int:
        """The number of its runs that count."""
        return len(self.scores)

    @property
    def is_not_clearly_worse(self) -> bool:
        """Whether it may be as good as the best one."""
        return self.ahead is not None and not self.ahead.is_clear


def masked(configuration: Configuration) -> Configuration:
    """Return a configuration without keys and passwords.

    >>> masked(Configuration({"api_key": "abc"}, [0])).title
    'api_key ***'
    """
    params = {name: without_secret(name, value) for name, value in configuration.params.items()}
    return replace(configuration, params=params)


def titles(groups: Sequence[Configuration]) -> list[str]:
    """Return a title of each configuration that no other one has.

    >>> titles([Configuration({"model": 1}, [0]), Configuration({"model": "1"}, [1])])
    ['model 1', "model '1'"]
    """
    plain = [group.title for group in groups]
    return plain if len(set(plain)) == len(plain) else [_title(group.params, repr) for group in groups]


def is_seed(name: str) -> bool:
    """Return whether a hyperparameter is a training seed, by its name.

    >>> [name for name in ("seed", "env_config/env_seed", "agent.seed", "rng", "seeds", "speed", "lr") if is_seed(name)]
    ['seed', 'env_config/env_seed', 'agent.seed', 'rng']
    """
    return bool(_SEED.search(re.split("[/.]", name)[-1]))


def configurations(
    params: Sequence[Mapping[str, Any]], by: Sequence[str] | None = None, words: str = "by="
) -> list[Configuration]:
    """Group trials into configurations, in the order of their first trials.

    Args:
        by: The hyperparameters that make a configuration; the last part of a name is enough. None: all that differ
            between the trials but for training seeds.
        words: What the user calls ``by``.

    Raises:
        ValueError: No trial has such a hyperparameter.

    >>> found = configurations([{"lr": 1, "seed": 1}, {"lr": 2, "seed": 1}, {"lr": 1, "seed": 2}])
    >>> [(one.params, one.trials) for one in found]
    [({'lr': 1}, [0, 2]), ({'lr': 2}, [1])]
    """
    names = [name for name in differing(params) if not is_seed(name)] if by is None else _full_names(words, params, by)
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, config in enumerate(params):
        groups.setdefault(tuple(comparable(setting_of(config, name)) for name in names), []).append(number)
    return [
        Configuration({name: setting_of(params[trials[0]], name) for name in names}, trials)
        for trials in groups.values()
    ]


def judge(
    groups: Sequence[Configuration],
    scores: Sequence[float | None],
    tasks: Sequence[str] | None = None,
    *,
    sign: int = 1,
    runs: Sequence[RunScores] | None = None,
    steps: Sequence[float | None] | None = None,
) -> list[Judged]:
    """Score configurations over their runs, the best mean first; those without a score come last.

    If there are several runs, a configuration that has trained less than nine tenths as long as the best one is set
    apart: it is not judged.

    Args:
        scores: The score of each trial; None if it has none, or does not count.
        tasks: The task of each trial. None: there is one.
        sign: -1 if the lowest score is the best.
        runs: What the episodes of each trial say of its score. None: there are none.
        steps: How long each trial had trained when it got its score. None: nobody knows.

    Raises:
        ValueError: A configuration has more runs of one task than of another.

    >>> lr = [Configuration({"lr": 0}, [0, 1]), Configuration({"lr": 1}, [2, 3])]
    >>> [one.mean.value for one in judge(lr, [1.0, 2.0, 5.0, 5.0])]
    [5.0, 1.5]
    """
    scores = [score if score is not None and math.isfinite(score) else None for score in scores]
    tables = [(group, table_of(group, scores, tasks or [""] * len(scores))) for group in groups]
    scored = sorted((item for item in tables if item[1].size), key=lambda item: -sign * float(np.mean(item[1])))
    apart = _stopped_early(scored, scores, steps) if steps is not None else []
    judged = _judged_together(
        [item for item in scored if item not in apart] if apart else scored, scores, tasks, sign, runs
    )
    for group, table in apart:
        lead = not_judged(sign * (judged[0].mean.value - float(np.mean(table))), UNEQUAL_TRAINING)
        judged.append(_judged(group, table, scores, estimate(table), lead))
    return [*judged, *(Judged(group, table, group.trials) for group, table in tables if not table.size)]


def _judged_together(
    scored: Sequence[tuple[Configuration, Scores]],
    scores: Sequence[float | None],
    tasks: Sequence[str] | None,
    sign: int,
    runs: Sequence[RunScores] | None,
) -> list[Judged]:
    if not scored:
        return []
    samples, bounds = _samples(scored, scores, runs if tasks is None else None, sign)
    return [
        _judged(group, table, scores, _signed(mean, sign), lead)
        for (group, table), mean, lead in zip(scored, *infer(samples, bounds).of_one_sweep(), strict=True)
    ]


def _stopped_early(
    scored: Sequence[tuple[Configuration, Scores]], scores: Sequence[float | None], steps: Sequence[float | None]
) -> list[tuple[Configuration, Scores]]:
    """Return the configurations that have trained less than the best one, by the median of their runs."""
    if not scored or max(len(table) for _, table in scored) < 2:
        return []  # policies are judged as they stand
    own = [[steps[trial] for trial in group.trials if scores[trial] is not None] for group, _ in scored]
    if any(step is None for trained in own for step in trained):
        return []
    medians = [float(np.median(np.array(trained, float))) for trained in own]
    return [item for item, median in zip(scored, medians, strict=True) if median < _AS_LONG * medians[0]]


def _samples(
    scored: Sequence[tuple[Configuration, Scores]],
    scores: Sequence[float | None],
    runs: Sequence[RunScores] | None,
    sign: int,
) -> tuple[list[Sample], tuple[float, float] | None]:
    """Return configurations as the inference takes them, the highest score the best, and the bounds of all scores."""
    if runs is None:
        return [Sample(sign * table[None]) for _, table in scored], None
    counting = [[runs[trial] for trial in group.trials if scores[trial] is not None] for group, _ in scored]
    seeds = sorted({seed for run in itertools.chain(*counting) for seed in run.by_seed})
    samples = [_sample(own, sign * table, seeds, sign) for own, (_, table) in zip(counting, scored, strict=True)]
    is_binary = all(run.is_binary for run in itertools.chain(*counting))
    return samples, ((0.0, 1.0) if sign > 0 else (-1.0, 0.0)) if is_binary else None


def _sample(runs: Sequence[RunScores], table: Scores, seeds: Sequence[int], sign: int) -> Sample:
    """Return a configuration on evaluation seeds if all its runs have some."""
    has_seeds = all(run.by_seed for run in runs)
    if has_seeds:
        table = sign * np.array([[run.by_seed.get(seed, math.nan) for seed in seeds] for run in runs])
    return Sample(table[None], has_seeds, min(run.episodes for run in runs))


def _signed(mean: Estimate, sign: int) -> Estimate:
    return mean if sign > 0 else Estimate(-mean.value, -mean.high, -mean.low)


def _judged(
    group: Configuration, table: Scores, scores: Sequence[float | None], mean: Estimate, lead: Lead | None
) -> Judged:
    """Return a configuration that has scores, with their mean."""
    distances = {trial: abs(value - mean.value) for trial in group.trials if (value := scores[trial]) is not None}
    typical = min(distances, key=distances.__getitem__)
    left_out = [trial for trial in group.trials if trial not in distances]
    return Judged(group, table, left_out, mean, lead, typical)


def table_of(group: Configuration, scores: Sequence[float | None], tasks: Sequence[str]) -> Scores:
    """Return the scores of a configuration as an array (runs, tasks), as rliable takes them.

    Args:
        tasks: The task of each trial. The columns are in the order of their names.

    Raises:
        ValueError: It has more runs of one task than of another.

    >>> table_of(Configuration({}, [0, 1, 2, 3]), [1.0, 2.0, 3.0, 4.0], ["b", "a", "b", "a"]).tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    names = sorted(set(tasks))
    columns = [[s for t in group.trials if tasks[t] == name and (s := scores[t]) is not None] for name in names]
    counts = dict(zip(names, map(len, columns), strict=True))
    if len(set(counts.values())) > 1:
        title = masked(group).title
        raise ValueError(f"{title} has not the same number of runs with a score in each task: {counts}.")
    return np.array(columns, float).T


def short(value: Any, digits: int = 5) -> str:
    """Return a hyperparameter as a table shows it.

    >>> short(0.1), short("<function warm>"), short("<function warm 1b3f24bb>"), short(None)
    ('0.1', 'warm', 'warm 1b3f24bb', 'None')
    >>> from tune_media.experiment.params import UNSET
    >>> short(math.inf), short("inf"), short(math.nan), short("NaN"), short(UNSET)
    ('inf', '"inf"', 'nan', '"NaN"', 'unset')
    """
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return without_kind(in_quotes(value) if isinstance(value, str) else str(value))


def without_kind(text: str) -> str:
    """Return the name of a function or class that stands as its repr, with Tune's id if it has one."""
    return re.sub(r"^<(?:function|class) '?(.+?)'?( [0-9a-f]{8})?>$", r"\1\2", text)


def _title(params: Mapping[str, Any], as_text: Callable[[Any], str]) -> str:
    settings = (f"{name.rpartition('/')[2]} {as_text(value)}" for name, value in params.items())
    return " · ".join(settings) or "all trials"


def _full_names(words: str, params: Sequence[Mapping[str, Any]], wanted_names: Sequence[str]) -> list[str]:
    known = dict.fromkeys([*differing(params), *(name for config in params for name in config)])
    names = []
    for wanted in wanted_names:
        full = full_name(wanted, known) or full_name(wanted.removeprefix("config/"), known)
        if full is None:
            raise ValueError(
                argument(words) + f" has {wanted!r}, which is no hyperparameter; " + checks.did_you_mean(wanted, known)
            )
        names.append(full)
    return names
