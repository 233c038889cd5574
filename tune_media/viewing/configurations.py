"""Configurations: trials that differ only in a training seed are runs of one configuration, and are judged together."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tune_media.experiment.params import (
    UNSET,
    comparable,
    differing,
    in_quotes,
    is_seed,
    is_unknown,
    names_of,
    setting_of,
)
from tune_media.values import checks
from tune_media.values.problems import argument
from tune_media.values.safe_names import full_name
from tune_media.values.secrets import without_secret
from tune_media.viewing.inference import (
    ONE_RUN,
    OTHER_RETURN,
    UNEQUAL_TRAINING,
    Estimate,
    Lead,
    Scores,
    not_judged,
)
from tune_media.viewing.score_tables import RunScores, leads_of

_AS_LONG = 0.9  # times the steps of the best one
RUNNING, FAILED, NO_SCORE, NOT_FINITE = "running", "failed", "no_score", "not_finite"
UNKNOWN_CONFIG = "unknown_config"
_UNKNOWN_TITLE = "unknown (params.json damaged)"
_KNOWN = "runs with hyperparameters"  # beside others, of which only the names are known
_BETWEEN = " · "  # two hyperparameters
ReturnFrom = tuple[str, str]
"""The tag of a run's return in its tool's file, and the unit of its steps; empty ones if Tune or we have written it."""


@dataclass(frozen=True)
class Configuration:
    """Trials with the same hyperparameters.

    Attributes:
        params: The hyperparameters that tell it from the others.
        trials: The numbers of its trials.
        only: The number in Tune's id of its only trial, or the name if it has none, if others may have the same
            hyperparameters; None: none has.
        place: Its place among all, in the order of their first trials.
        is_unknown: Whether it is a trial whose ``params.json`` is damaged, which may be a run of any other one.
        called: What tells it from the others besides: the name that its runs share if nobody knows hyperparameters of
            them, and where their return comes from if others of the same settings have it from elsewhere.
        return_from: Where the return of its runs comes from: what is from elsewhere is not compared with it.

    >>> Configuration({"lr": 0.1}, [0, 2]).title, Configuration({"lr": 0.1}, [2], 3).title
    ('lr 0.1', 'lr 0.1 (trial 3)')
    """

    params: Mapping[str, Any]
    trials: Sequence[int]
    only: int | str | None = None
    place: int = 0
    is_unknown: bool = False
    called: str = ""
    return_from: ReturnFrom = ("", "")

    @property
    def title(self) -> str:
        """Its hyperparameters as text."""
        return _title(self, _settings([self], _exact)[0])


@dataclass(frozen=True)
class Run:
    """A run of a configuration.

    Attributes:
        score: Its last score, also if it failed; None if it has none.
        episodes: What its episodes say of the score.
        status: ``running`` if it has not ended, ``failed``, or empty.
        step: How long it had trained when it got the score; None if nobody knows.
        number: Its number in Tune's id; None if it has none.

    >>> Run(3.0).counts, Run(3.0, status=FAILED).counts, Run(math.nan).counts
    (True, False, False)
    """

    score: float | None
    episodes: RunScores | None = None
    status: str = ""
    step: float | None = None
    number: int | None = None

    @property
    def counts(self) -> bool:
        """Whether it is judged."""
        return self.score is not None and math.isfinite(self.score) and self.status != FAILED


@dataclass(frozen=True)
class Judged:
    """A configuration and its score over its runs.

    Attributes:
        runs: Its runs, by the numbers of its trials.
        scores: The score of each run that counts, of shape (runs, tasks).
        mean: The mean score with its 95 % interval; without one if two or three runs are all equal.
        ahead: How far the best configuration is ahead of it; None of the best one, and of one without a score.
        typical: The number of the trial whose score is nearest to the mean; None if none counts.
        set_apart: Why not judged: ``other_return``, ``unequal_training``, ``one_run``, ``unknown_config``, ``failed``,
            ``not_finite``, ``no_score``; or "".
        led: Whether it was ahead of the best one where its training stopped.
        failed_ahead: The last scores of its failed runs that are better than the best one's mean, the best first.

    >>> judged = judge([Configuration({}, [0, 1])], [Run(1.0), Run(3.0)])[0]
    >>> judged.mean.value, judged.n, judged.ahead is None
    (2.0, 2, True)
    """

    configuration: Configuration
    runs: Mapping[int, Run]
    scores: Scores
    mean: Estimate = field(default_factory=lambda: Estimate(math.nan))
    ahead: Lead | None = None
    typical: int | None = None
    set_apart: str = ""
    led: bool = False
    failed_ahead: Sequence[float] = ()

    @property
    def n(self) -> int:
        """The number of its runs that count."""
        return len(self.scores)

    @property
    def left_out(self) -> list[int]:
        """The numbers of its trials without a score, or that failed."""
        return [trial for trial, run in self.runs.items() if not run.counts]

    @property
    def step(self) -> float | None:
        """How long its runs that count have trained, which is the median; None if nobody knows."""
        counting = [run.step for run in self.runs.values() if run.counts]
        steps = [step for step in counting if step is not None]
        return float(statistics.median(steps)) if steps and len(steps) == len(counting) else None

    @property
    def going_on(self) -> int:
        """How many of its runs have not ended, also of those without a score yet."""
        return sum(run.status == RUNNING for run in self.runs.values())

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


def titles(groups: Sequence[Configuration], most: int | None = None) -> list[str]:
    """Return a title of each configuration that no other one has; hyperparameters that differ most come first.

    Args:
        most: So many characters a title should have: behind what tells all apart, others are a number. None: all.

    >>> titles([Configuration({"model": 1}, [0]), Configuration({"model": "1"}, [1])])
    ['model 1', "model '1'"]
    >>> titles([Configuration({"gamma": 0.9, "lr": lr}, [lr]) for lr in (1, 2)], most=4)
    ['lr 1 · +1', 'lr 2 · +1']
    """
    for as_text in (_exact, repr):
        settings = _settings(groups, as_text)
        whole = _titles(groups, settings)
        if len(set(whole)) == len(whole):
            break
    if most is None:
        return whole
    told = [len({tuple(own[:count]) for own in settings}) for count in range(1, max([1, *map(len, settings)]) + 1)]
    short_ones = _titles(groups, [_first(own, 1 + told.index(told[-1]), most) for own in settings])
    cut = [title if len(title) <= most else f"{title[: most - 1]}…" for title in short_ones]
    return cut if len(set(cut)) == len(set(whole)) else short_ones


def by_difference(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of hyperparameters, first those with the most different values.

    >>> by_difference({"gamma": ["0.9", "0.9"], "lr": ["1", "2"]})
    ['lr', 'gamma']
    """
    return sorted(texts, key=lambda name: -len(set(texts[name])))


def _settings(groups: Sequence[Configuration], as_text: Callable[[Any], str]) -> list[list[str]]:
    """Return the hyperparameters of each configuration as texts, those first that differ most."""
    known = [group.params for group in groups if not group.is_unknown]
    texts = {name: [as_text(params.get(name)) for params in known] for name in dict.fromkeys(itertools.chain(*known))}
    names = by_difference(texts)
    return [
        [_UNKNOWN_TITLE]
        if group.is_unknown
        else [*filter(None, [group.called]), *(_setting(name, as_text(group.params[name])) for name in own)]
        for group in groups
        for own in [[n for n in names if n in group.params and not (group.called and group.params[n] is UNSET)]]
    ]


def _setting(name: str, text: str) -> str:
    return f"{name.rpartition('/')[2]} {text}"


def _titles(groups: Sequence[Configuration], settings: Sequence[Sequence[str]]) -> list[str]:
    return [_title(group, own) for group, own in zip(groups, settings, strict=True)]


def _first(settings: Sequence[str], telling: int, most: int) -> list[str]:
    """Return the hyperparameters that tell, others as far as they have room, and how many more there are."""
    ends = itertools.accumulate(len(text) + len(_BETWEEN) for text in settings)
    count = max(telling, sum(end - len(_BETWEEN) <= most for end in ends))
    return [*settings[:count], *([f"+{len(settings) - count}"] if count < len(settings) else [])]


def configurations(
    params: Sequence[Mapping[str, Any]],
    by: Sequence[str] | None = None,
    words: str = "by=",
    returns_from: Sequence[ReturnFrom] | None = None,
) -> list[Configuration]:
    """Group trials into configurations, in the order of their first trials; each unknown one is alone.

    Runs of which nobody knows hyperparameters are grouped by their names, see ``name_of_runs``.

    Args:
        by: The hyperparameters that make a configuration; the last part of a name is enough. None: all that differ
            between the trials but for training seeds.
        words: What the user calls ``by``.
        returns_from: Where the return of each trial comes from: a configuration has one. None: all from one place.

    Raises:
        ValueError: No trial has such a hyperparameter.

    >>> found = configurations([{"lr": 1, "seed": 1}, {"lr": 2, "seed": 1}, {"lr": 1, "seed": 2}])
    >>> [(one.params, one.trials) for one in found]
    [({'lr': 1}, [0, 2]), ({'lr': 2}, [1])]
    >>> from tune_media.experiment.params import OnlyNamed
    >>> found = configurations([OnlyNamed({}, name, name[:3]) for name in ("PPO_1", "SAC_1", "PPO_2")])
    >>> [(one.title, one.trials) for one in found]
    [('PPO', [0, 2]), ('SAC_1', [1])]
    """
    names = [name for name in differing(params) if not is_seed(name)] if by is None else _full_names(words, params, by)
    groups: dict[Any, list[int]] = {}
    places = returns_from or [("", "")] * len(params)
    for number, (config, place) in enumerate(zip(params, places, strict=True)):
        own = number if is_unknown(config) else tuple(comparable(setting_of(config, name)) for name in names)
        groups.setdefault(((own, names_of(config)[1]), place), []).append(number)
    alike = Counter(settings for settings, _ in groups)
    found: list[Configuration] = []
    for (settings, place), trials in groups.items():
        first = params[trials[0]]
        told = [
            _name_of_runs(first, len(trials), [] if names else params),
            told_of(place) if alike[settings] > 1 else "",
        ]
        found.append(
            Configuration(
                {name: setting_of(first, name) for name in names},
                trials,
                place=len(found),
                is_unknown=is_unknown(first),
                called=_BETWEEN.join(filter(None, told)),
                return_from=place,
            )
        )
    return found


def _name_of_runs(config: Mapping[str, Any], runs: int, alike: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of runs, if no hyperparameter tells them from others; ``alike``: all that none tells apart."""
    is_beside_others = any(names_of(other)[0] for other in alike)
    return names_of(config)[runs > 1] or (_KNOWN if is_beside_others else "")


def told_of(place: ReturnFrom) -> str:
    """Return where a return, or another metric, comes from, in words.

    >>> told_of(("rollout/ep_rew_mean", "env steps")), told_of(("", "iterations")), told_of(("", ""))
    ('rollout/ep_rew_mean over env steps', 'a curve over iterations', 'results of Tune')
    """
    tag, unit = place
    return f"{tag or 'a curve'} over {unit}" if unit else tag or "results of Tune"


def judge(
    groups: Sequence[Configuration], runs: Sequence[Run], tasks: Sequence[str] | None = None, *, sign: int = 1
) -> list[Judged]:
    """Score configurations over their runs, the best mean first; then those that are set apart, or have no score.

    If the best one has several runs, those are set apart that have one, or that have trained less than nine tenths as
    long: they are not judged. Nor is an unknown one, beside others, nor one whose return comes from elsewhere than that
    of most runs.

    Args:
        runs: The run of each trial.
        tasks: The task of each trial; what episodes say of the scores then does not count. None: there is one.
        sign: -1 if the lowest score is the best.

    Raises:
        ValueError: A configuration has more runs of one task than of another.

    >>> lr = [Configuration({"lr": 0}, [0, 1]), Configuration({"lr": 1}, [2, 3])]
    >>> [one.mean.value for one in judge(lr, [Run(score) for score in (1.0, 2.0, 5.0, 5.0)])]
    [5.0, 1.5]
    """
    ranking = ranked(groups, runs, tasks, sign=sign)
    judged = _judged_together([entry for entry in ranking if not entry.set_apart], sign, tasks is None)
    for entry in ranking[len(judged) :]:
        if entry.n:
            (alone,) = _judged_together([entry], sign, tasks is None)
            is_known = entry.set_apart != OTHER_RETURN  # else a difference means nothing
            entry = _not_judged(alone, sign * (judged[0].mean.value - alone.mean.value) if is_known else math.nan)
        judged.append(entry)
    return [
        replace(entry, failed_ahead=_failed_ahead(entry, judged[0].mean.value, sign))
        if entry.configuration.return_from == judged[0].configuration.return_from
        else entry
        for entry in judged
    ]


def common_place(places: Iterable[ReturnFrom]) -> ReturnFrom:
    """Return where most runs have their return from, of equally many the first.

    >>> common_place([("", "steps"), ("eval/reward", "steps"), ("", "steps")])
    ('', 'steps')
    """
    counts = Counter(places)
    return max(counts, key=counts.__getitem__, default=("", ""))


def ranked(
    groups: Sequence[Configuration], runs: Sequence[Run], tasks: Sequence[str] | None = None, *, sign: int = 1
) -> list[Judged]:
    """Return configurations in the order of ``judge``, with the scores of their runs; nothing is inferred from these.

    >>> lr = [Configuration({"lr": 0}, [0, 1]), Configuration({"lr": 1}, [2, 3])]
    >>> [one.configuration.title for one in ranked(lr, [Run(score) for score in (1.0, 2.0, 5.0, 5.0)])]
    ['lr 1', 'lr 0']
    """
    scores, tasks = [run.score if run.counts else None for run in runs], tasks or [""] * len(runs)
    entries = [
        Judged(group, {trial: runs[trial] for trial in group.trials}, table_of(group, scores, tasks))
        for group in groups
    ]
    places = {trial: group.return_from for group in groups for trial in group.trials}
    most = common_place(places[trial] for trial in sorted(places) if runs[trial].counts)
    scored = sorted(
        (entry for entry in entries if entry.n),  # unknown ones come last, and those with another return
        key=lambda entry: (
            entry.configuration.is_unknown,
            entry.configuration.return_from != most,
            -sign * float(np.mean(entry.scores)),
        ),
    )
    scored = [replace(entry, set_apart=_set_apart(entry, scored[0])) for entry in scored]
    without = [replace(entry, set_apart=_without_score(entry)) for entry in entries if not entry.n]
    return [*sorted(scored, key=lambda entry: bool(entry.set_apart)), *without]


def _failed_ahead(entry: Judged, best: float, sign: int) -> list[float]:
    """Return the scores of failed runs that are better than the best mean, the best first; none if that is NaN."""
    failed = [run.score for run in entry.runs.values() if run.status == FAILED and run.score is not None]
    return sorted((score for score in failed if sign * best < sign * score < math.inf), reverse=sign > 0)


def _without_score(entry: Judged) -> str:
    if any(run.status == FAILED for run in entry.runs.values()):
        return FAILED
    return NO_SCORE if all(run.score is None for run in entry.runs.values()) else NOT_FINITE


def _set_apart(entry: Judged, best: Judged) -> str:
    """Return why a configuration is not judged; policies are judged as they stand."""
    if entry is not best and entry.configuration.is_unknown:
        return UNKNOWN_CONFIG
    if entry.configuration.return_from != best.configuration.return_from:
        return OTHER_RETURN
    if entry is best or best.n < 2:
        return ""
    if entry.step is not None and best.step is not None and entry.step < _AS_LONG * best.step:
        return UNEQUAL_TRAINING
    return ONE_RUN if entry.n == 1 else ""


def _judged_together(ranking: Sequence[Judged], sign: int, has_episodes: bool) -> list[Judged]:
    """Return configurations with their means and the best one's leads."""
    if not ranking:
        return []
    tables = [sign * entry.scores for entry in ranking]
    counting = [[run.episodes for run in entry.runs.values() if run.counts] for entry in ranking]
    means, leads = leads_of(tables, counting if has_episodes else [[] for _ in ranking], sign)
    signed = (mean if sign > 0 else Estimate(-mean.value, -mean.high, -mean.low) for mean in means)
    return [_with_mean(*of_one) for of_one in zip(ranking, signed, leads, strict=True)]


def _not_judged(entry: Judged, lead: float) -> Judged:
    """Return a configuration that is set apart; beside others of several runs, one run has no interval."""
    mean = entry.mean if entry.n > 1 else Estimate(entry.mean.value)
    return replace(entry, mean=mean, ahead=not_judged(lead, entry.set_apart))


def _with_mean(entry: Judged, mean: Estimate, lead: Lead | None) -> Judged:
    distances = {
        trial: abs(run.score - mean.value) for trial, run in entry.runs.items() if run.counts and run.score is not None
    }
    return replace(entry, mean=mean, ahead=lead, typical=min(distances, key=distances.__getitem__))


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


def _title(group: Configuration, settings: Sequence[str]) -> str:
    told = _BETWEEN.join(settings)
    which = "" if group.only is None else f"trial {group.only}"
    return f"{told} ({which})" if told and which else told or which or "all trials"


def _exact(value: Any) -> str:
    return short(value, digits=12)


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
