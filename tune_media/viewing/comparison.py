"""Compares the configurations of an experiment: as a table, and on equal evaluation seeds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tune_media.experiment import evaluations
from tune_media.experiment.params import Absent, setting_of
from tune_media.experiment.status import TRIAL_FAILED, UNENDED, TrialStatus
from tune_media.experiment.trial_files import TrialFiles
from tune_media.values import checks, rates, score
from tune_media.values.metric_names import RETURN_NAMES, main_metrics
from tune_media.values.safe_names import full_name
from tune_media.viewing.configurations import (
    FAILED,
    NOT_FINITE,
    RUNNING,
    Configuration,
    Judged,
    ReturnFrom,
    Run,
    common_place,
    configurations,
    judge,
    ranked,
)
from tune_media.viewing.data_frames import data_frame
from tune_media.viewing.importance import FEWEST, Importance, importances, scored_configurations
from tune_media.viewing.inference import NOT_COMPARABLE, UNEQUAL_TRAINING, Estimate, Lead, not_judged
from tune_media.viewing.score_tables import run_scores
from tune_media.viewing.statistics import STATISTICS, bootstrapped
from tune_media.viewing.verdict import Verdict, verdict

if TYPE_CHECKING:
    import pandas as pd

Curve = tuple[list[float], list[float]]
_COLUMNS = ["rank", "n", "mean", "low", "high"]
_COLUMNS += [f"{name}{end}" for name in STATISTICS for end in ("", "_low", "_high")]
_COLUMNS += ["behind", "behind_low", "behind_high", "not_clearly_worse", "why", "failed_ahead", "trials", "left_out"]


def scores_by(trials: Sequence[TrialFiles], metric: str) -> list[float | None]:
    """Return ``last_scores``.

    Args:
        metric: Its name, as ``metric_named`` returns it.

    Raises:
        ValueError: No trial has such a score.

    >>> scores_by([], "loss")
    Traceback (most recent call last):
    ValueError: no trial has the metric 'loss'; there are none.
    """
    values = last_scores(trials, metric)
    if all(value is None for value in values):
        names = [name for trial in trials for name in trial.last_metrics]
        if metric in names:
            raise ValueError(f"the metric {metric!r} is a finite number in no trial that counts.")
        names = [*main_metrics(names), *names]
        raise ValueError(f"no trial has the metric {metric!r}; " + checks.did_you_mean(metric, names))
    return values


def last_scores(trials: Sequence[TrialFiles], metric: str) -> list[float | None]:
    """Return the last value of a metric of each trial, if it is finite; an abandoned trial has none."""
    return [None if trial.is_abandoned else score.finite(trial.last_metrics, metric) for trial in trials]


def reported(trial: TrialFiles, known: float | None, metric: str | None) -> float | None:
    """Return the score of a trial as tables show it, also if the metric that it is was not finite."""
    return known if known is not None or metric is None or trial.is_abandoned else trial.last_metrics.get(metric)


def metric_named(trials: Sequence[TrialFiles], name: str) -> str:
    """Return the metric that is meant by its name, or by the last part of it, of the evaluation if it has one.

    >>> metric_named([], "loss")
    'loss'
    """
    names = sorted({metric for trial in trials for metric in trial.last_metrics})
    return full_name(name, [*(full for full in names if full.startswith("evaluation/")), *names]) or name


def clip_scores(trials: Sequence[TrialFiles], section: str | None = None) -> list[float | None]:
    """Return the best return of a clip of each trial, of one section or of any."""
    scores: list[float | None] = []
    for trial in trials:
        rows = [row for row, of in enumerate(trial.media.section) if section in (None, of)]
        best = None if trial.is_abandoned else trial.media.best(np.array(rows, np.int64))
        scores.append(None if best is None else float(trial.media.episode_return[best]))
    return scores


def judged(
    trials: Sequence[TrialFiles],
    statuses: Sequence[TrialStatus],
    scores: Sequence[float | None],
    *,
    by: Sequence[str] | None = None,
    task: str | None = None,
    sign: int = 1,
    metric: str | None = None,
) -> list[Judged]:
    """Group trials into configurations and score these, the best first.

    Args:
        statuses: What became of each: one that failed does not count.
        by: The hyperparameters that make a configuration. None: all that differ but for training seeds and ``task``.
        task: The hyperparameter that names the task; runs of several tasks are then judged together.
        sign: -1 if the lowest score is the best.
        metric: The metric that the score is, of which the episodes of the runs may say more; None if it is that of the
            best clip, by which none is judged to be better.

    Raises:
        ValueError: There is no such hyperparameter, or a configuration has more runs of one task than of another.
    """
    params, tasks = [trial.config for trial in trials], None
    if task is not None:
        (name,) = configurations(params, [task], "task=")[0].params
        tasks = [str(setting_of(config, name)) for config in params]
        params = [{other: value for other, value in config.items() if other != name} for config in params]
    groups = _groups(trials, params, by, metric, is_one_task=task is None)
    runs = _runs(trials, statuses, scores, None if task is not None else metric)
    ranking = judge(groups, runs, tasks, sign=sign)
    if metric is None:  # the best of a trial's clips: the more clips it has, the higher
        ranking = [replace(entry, ahead=_not_compared(entry.ahead)) for entry in ranking]
    return [replace(entry, led=_led(ranking[0], entry, trials, metric, sign)) for entry in ranking]


def ranked_runs(
    trials: Sequence[TrialFiles],
    statuses: Sequence[TrialStatus],
    scores: Sequence[float | None],
    metric: str,
    by: Sequence[str] | None = None,
) -> list[Judged]:
    """Return the configurations in the order of ``judged``, with the scores of their runs and nothing else.

    >>> ranked_runs([], [], [], "loss")
    []
    """
    groups = _groups(trials, [trial.config for trial in trials], by, metric, is_one_task=True)
    return ranked(groups, _runs(trials, statuses, scores, None))


def _not_compared(lead: Lead | None) -> Lead | None:
    return lead and not_judged(lead.value, NOT_COMPARABLE)


def _groups(
    trials: Sequence[TrialFiles],
    params: Sequence[Mapping[str, Any]],
    by: Sequence[str] | None,
    metric: str | None,
    *,
    is_one_task: bool,
) -> list[Configuration]:
    """Return the configurations; if a trial has copied another (PBT), each trial is a policy, and none a run."""
    groups = _alike(trials, params, by, metric)
    if by is not None or not is_one_task or not any(trial.has_copied for trial in trials):
        return groups
    return [
        replace(group, trials=[number], only=_which(trials[number]) if len(group.trials) > 1 else group.only)
        for group in groups
        for number in group.trials
    ]


def _alike(
    trials: Sequence[TrialFiles], params: Sequence[Mapping[str, Any]], by: Sequence[str] | None, metric: str | None
) -> list[Configuration]:
    """Return the configurations of the trials that are judged: no condition of an evaluation is a configuration."""
    _, are_judged = evaluations.first_condition(trials)
    numbers = [number for number, is_judged in enumerate(are_judged) if is_judged]
    places = [("", "")] * len(trials) if metric is None else returns_from(trials, metric)
    found = configurations([params[n] for n in numbers], by, returns_from=[places[n] for n in numbers])
    return [
        replace(group, trials=own, only=_which(trials[own[0]]) if group.is_unknown else None)
        for group in found
        for own in [[numbers[place] for place in group.trials]]
    ]


def returns_from(trials: Sequence[TrialFiles], metric: str) -> list[ReturnFrom]:
    """Return where a metric of each trial comes from; only of returns do tags have other names than the metric.

    With it come the settings of policies of files that differ, if all of them name these.

    >>> returns_from([], "loss")
    []
    """
    is_return = metric.rpartition("/")[2] in RETURN_NAMES
    settings = [trial.run.settings if trial.run is not None else {} for trial in trials]
    named = [own for own in settings if own]
    names = [name for name in named[0] if len({str(own.get(name, "")) for own in named} - {""}) > 1] if named else []
    return [
        (" with ".join(filter(None, [tag if is_return else "", *(f"{n}={own[n]}" for n in names if n in own)])), unit)
        for own, (tag, unit) in zip(settings, (trial.place_of(metric) for trial in trials), strict=True)
    ]


def from_elsewhere(
    trials: Sequence[TrialFiles], statuses: Sequence[TrialStatus], scores: Sequence[float | None], metric: str | None
) -> list[bool]:
    """Return whether the score of each trial comes from elsewhere than those of most, so that none is the better one.

    >>> from_elsewhere([], [], [], "episode_return_mean")
    []
    """
    if metric is None:  # that of the best clip
        return [False] * len(trials)
    places = returns_from(trials, metric)
    found = zip(places, scores, statuses, strict=True)
    most = common_place(place for place, score, status in found if score is not None and status.word != TRIAL_FAILED)
    return [place != most for place in places]


def _which(trial: TrialFiles) -> int | str:
    return trial.name if trial.number is None else trial.number


def verdict_on(trials: Sequence[TrialFiles], ranking: Sequence[Judged], label: str, *, sign: int = 1) -> Verdict:
    """Return what is said of the configurations of some trials, which ``judged`` returned, see ``verdict``."""
    return verdict(ranking, label, sign=sign, condition=evaluations.first_condition(trials)[0])


def _runs(
    trials: Sequence[TrialFiles],
    statuses: Sequence[TrialStatus],
    scores: Sequence[float | None],
    metric: str | None,
) -> list[Run]:
    """Return the run of each trial, with what its episodes say of its score if that is a metric."""
    of_status = {TRIAL_FAILED: FAILED, **dict.fromkeys(UNENDED, RUNNING)}
    runs = [
        Run(reported(trial, known, metric), status=of_status.get(status.word, ""), number=trial.number)
        for trial, status, known in zip(trials, statuses, scores, strict=True)
    ]
    counting = [run.score if run.counts else None for run in runs]
    episodes = [None] * len(runs) if metric is None else run_scores(trials, metric, counting)
    steps = [score.finite(trial.last_metrics, "timesteps_total") for trial in trials]
    have_steps = all(step is not None for step, known in zip(steps, counting, strict=True) if known is not None)
    return [
        replace(run, episodes=own, step=(own and own.step) or step)
        if have_steps
        else replace(run, episodes=own, step=score.finite(trial.last_metrics, "training_iteration"))
        for run, own, step, trial in zip(runs, episodes, steps, trials, strict=True)
    ]


def _led(best: Judged, entry: Judged, trials: Sequence[TrialFiles], metric: str | None, sign: int) -> bool:
    """Return whether a configuration that stopped earlier was ahead of the best one's curve there."""
    if entry.set_apart != UNEQUAL_TRAINING or metric is None:
        return False
    with contextlib.suppress(OSError):
        curves = [curve_of(trials[number], metric) for number, run in best.runs.items() if run.counts]
        there = [np.interp(entry.step or 0, steps, values) for steps, values in curves if steps]
        return bool(there) and sign * (entry.mean.value - float(np.mean(there))) > 0
    return False


def curve_of(trial: TrialFiles, metric: str) -> Curve:
    """Return the steps and values of a metric of a trial. Raises OSError."""
    found = trial.curves()
    values = found["metrics"].get(metric, [])
    pairs = [(step, value) for step, value in zip(found["step"], values, strict=False) if value is not None]
    return [step for step, _ in pairs], [value for _, value in pairs]


def success_of(trial: TrialFiles) -> tuple[float, float, float]:
    """Return the success rate of a trial's last evaluation, or of its training, with its interval; NaN if unknown."""
    name = None if trial.is_abandoned else _rate_of([trial])
    if name is None:
        return math.nan, math.nan, math.nan
    ends = [score.finite(trial.last_metrics, f"{name}{end}") for end in ("", "_low", "_high")]
    value, low, high = (math.nan if end is None else end for end in ends)
    return value, low, high


def _rate_of(trials: Sequence[TrialFiles]) -> str | None:
    """Return the name of the success rate of the last evaluation, or of the training; None if there is none."""
    names = set(filter(rates.is_rate, set().union(*(trial.last_metrics for trial in trials))))
    finite = [name for name in names if any(score.finite(trial.last_metrics, name) is not None for trial in trials)]
    return min(finite, key=lambda name: (not name.startswith("evaluation/"), name), default=None)


def success_rates(trials: Sequence[TrialFiles], ranking: Sequence[Judged]) -> list[Estimate | None]:
    """Return the mean success rate over the runs of each configuration that count; of one run Wilson's interval.

    >>> success_rates([], [])
    []
    """
    counting = {number for entry in ranking for number, run in entry.runs.items() if run.counts}
    name = _rate_of([trials[number] for number in counting])
    if name is None:
        return [None] * len(ranking)
    scores = [value if n in counting else None for n, value in enumerate(last_scores(trials, name))]
    runs = [Run(*of_one) for of_one in zip(scores, run_scores(trials, name, scores), strict=True)]
    by_rate = {id(entry.configuration): entry for entry in judge([entry.configuration for entry in ranking], runs)}
    return [_mean_rate(trials, by_rate[id(entry.configuration)]) for entry in ranking]


def _mean_rate(trials: Sequence[TrialFiles], entry: Judged) -> Estimate | None:
    if entry.typical is None:
        return None
    return entry.mean if entry.n > 1 else Estimate(*success_of(trials[entry.typical]))


def importances_of(
    trials: Sequence[TrialFiles], statuses: Sequence[TrialStatus], scores: Sequence[float | None], metric: str | None
) -> tuple[list[Importance], int]:
    """Return the importance of each hyperparameter that differs, but for training seeds.

    Args:
        statuses: What became of each: one that failed does not count.
        metric: The metric that the score is; None if it is that of the best clip.

    Returns:
        The importances, the largest first; none if there are fewer than 20 configurations. And the number of
        configurations that have a score.

    >>> importances_of([], [], [], "episode_return_mean")
    ([], 0)
    """
    _, are_judged = evaluations.first_condition(trials)
    failed = [status.word == TRIAL_FAILED for status in statuses]
    params, elsewhere = [trial.config for trial in trials], from_elsewhere(trials, statuses, scores, metric)
    counting = [
        None if has_failed or not is_judged or is_elsewhere else score
        for score, has_failed, is_judged, is_elsewhere in zip(scores, failed, are_judged, elsewhere, strict=True)
    ]
    scored = scored_configurations(params, counting)
    return importances(params, counting, scored) if len(scored) >= FEWEST else [], len(scored)


def importance_frame(shares: Sequence[Importance], count: int) -> pd.DataFrame:
    """Return importances as a DataFrame, one row each, see ``Catalog.importance``.

    Raises:
        ValueError: There are too few configurations.
    """
    import pandas as pd

    if count < FEWEST:
        raise ValueError(
            f"importance() needs {FEWEST} configurations with a score, and there are {count}: with fewer, chance looks "
            "like importance."
        )
    columns = ["hyperparameter", "share", "low", "high", "matters"]
    rows = [[entry.name, entry.share, entry.low, entry.high, entry.matters] for entry in shares]
    return pd.DataFrame(rows, columns=columns)


def as_frame(ranking: Sequence[Judged], trials: Sequence[TrialFiles]) -> pd.DataFrame:
    """Return judged configurations as a DataFrame, one row each, see ``Catalog.compare``."""
    params = list(dict.fromkeys(name for entry in ranking for name in entry.configuration.params))
    rows = [_row(place, entry, trials) for place, entry in enumerate(ranking, 1)]
    names = ["name"] if any(entry.configuration.called for entry in ranking) else []
    return data_frame(rows, [*names, *(f"config/{name}" for name in params), *_COLUMNS])


def _row(place: int, entry: Judged, trials: Sequence[TrialFiles]) -> dict[str, Any]:
    own = entry.configuration.params
    row: dict[str, Any] = {f"config/{name}": own[name] for name in own if not isinstance(own[name], Absent)}
    row |= {"name": entry.configuration.called, "rank": place if entry.n else None, "n": entry.n}
    row |= {"mean": entry.mean.value, "low": entry.mean.low, "high": entry.mean.high}
    for name, statistic in STATISTICS.items():
        found = bootstrapped(entry.scores, statistic) if entry.n else Estimate(math.nan)
        row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    if entry.ahead:
        low, high = (end if math.isfinite(end) else math.nan for end in (entry.ahead.low, entry.ahead.high))
        row |= {"behind": entry.ahead.value, "behind_low": low, "behind_high": high, "why": entry.ahead.why}
    elif entry.set_apart in (NOT_FINITE, FAILED):
        row["why"] = entry.set_apart
    row["failed_ahead"] = next(iter(entry.failed_ahead), None)
    row["not_clearly_worse"] = entry.is_not_clearly_worse
    row["trials"] = [trials[number].name for number in entry.configuration.trials]
    row["left_out"] = [trials[number].name for number in entry.left_out]
    return row
