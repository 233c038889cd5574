"""An evaluation as text for a terminal: a line for each checkpoint, and a table of the conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tune_media.evaluation.evaluation import EvaluatedCheckpoint, Evaluation
from tune_media.values.number import counted
from tune_media.viewing.configurations import short
from tune_media.viewing.table import laid_out, printable, with_interval


def checkpoint_line(one: EvaluatedCheckpoint) -> str:
    """Return the line of a checkpoint, as it is printed when its episodes have been played.

    Example:
        >>> checkpoint_line(EvaluatedCheckpoint("PPO_1", "", "checkpoint_000002", 3, 40, 20.5, 18.0, 23.0, True))
        'PPO_1  checkpoint_000002  20.5 [18, 23] (40 episodes, exploring)'
    """
    parts = [one.trial, one.condition, one.checkpoint, f"{value_of(one)} ({_how(one)})"]
    text = "  ".join(part for part in parts if part)
    return printable(text if one.error is None else f"{text}: {one.error}")


def tables(evaluation: Evaluation) -> str:
    """Return the lines of all checkpoints, the best first; of several conditions, one column each.

    If there is one condition, a column says how far each is behind the best on the same seeds.
    """
    checkpoints = evaluation.checkpoints
    conditions = list(dict.fromkeys(one.condition for one in checkpoints))
    several = len({one.checkpoint for one in checkpoints}) > 1
    places = list(dict.fromkeys((one.trial, one.checkpoint) for one in checkpoints))
    found = {(one.trial, one.checkpoint, one.condition): one for one in checkpoints}

    def score(place: tuple[str, str]) -> float:
        known = [found[(*place, condition)] for condition in conditions if (*place, condition) in found]
        values = [one.return_mean for one in known if not math.isnan(one.return_mean)]
        return -values[0] if values else math.inf

    is_one = len(conditions) == 1  # then there is room to compare
    compares = is_one and len(places) > 1
    tells = is_one and any(not math.isnan(one.success_rate) for one in checkpoints)
    params = list(checkpoints[0].params) if checkpoints else []
    header = ["trial", *params, *(["checkpoint"] if several else []), *(one or "mean return" for one in conditions)]
    header += [*(["behind the best"] if compares else []), *(["success"] if tells else []), "episodes"]
    lines = [[*header, *([""] if compares else [])]]
    for place in sorted(places, key=score):
        of_place = [found[(*place, condition)] for condition in conditions if (*place, condition) in found]
        first = of_place[0]
        cells = [value_of(found[(*place, one)]) if (*place, one) in found else "" for one in conditions]
        cells += [with_interval(first.behind, first.behind_low, first.behind_high)] if compares else []
        cells += [_rate(first)] if tells else []
        cells.append("/".join(dict.fromkeys(str(one.episodes) for one in of_place)))
        told = "best" if first is evaluation.best else "not surely worse" if first.is_not_surely_worse else ""
        values = [short(first.params.get(name, "")) for name in params]
        lines.append([place[0], *values, *([place[1]] if several else []), *cells, *([told] if compares else [])])
    return laid_out(lines)


def remarks(evaluation: Evaluation) -> list[str]:
    """Return what a reader of the table must know: how it was played, who won, what is missing."""
    checkpoints = evaluation.checkpoints
    is_any = any(not math.isnan(one.return_low) for one in checkpoints)
    of = "the mean over the episodes, and of the difference to the best on the same seeds"
    told = [f"Intervals: 95 %, Student's t, of {of}."] if is_any else []
    for explored in (True, False):
        names = [one for one in checkpoints if one.explored is explored]
        if names:
            which = "The policies" if len(names) == len(checkpoints) else f"{len(names)} of the policies"
            whose = {one.connectors for one in names} - {None}
            with_them = f", with the connectors of the {' and the '.join(sorted(map(str, whose)))} env runner"
            told.append(f"{which} {'explored' if explored else 'did not explore'}{with_them if whose else ''}.")
    told += [f"Note: {note}." for note in dict.fromkeys(one.note for one in checkpoints if one.note)]
    best = evaluation.best
    if best is not None:
        where = f"{best.checkpoint}, {best.condition}" if best.condition else best.checkpoint
        told.append(f"The best is {best.trial} ({where}): {value_of(best)}{_how_sure(best, checkpoints)}.")
        if not math.isnan(best.success_rate):
            told.append(
                f"It succeeds in {_rate(best)} of its episodes (Wilson's interval){_success_of(best, checkpoints)}."
            )
    told += [f"{one.trial}, {one.checkpoint}: {one.error}" for one in checkpoints if one.error]
    return [printable(one) for one in [*told, *evaluation.problems]]


def _how_sure(best: EvaluatedCheckpoint, checkpoints: Sequence[EvaluatedCheckpoint]) -> str:
    """Return how sure it is that the best one is better than the others under its condition."""
    others = [one for one in checkpoints if one is not best and one.condition == best.condition and one.seeds_compared]
    if not others:
        return ""
    close = sum(one.is_not_surely_worse for one in others)
    whom = f"{close or 'all'} of the {len(others)} others {'is' if close == 1 else 'are'}"
    whom = "the other one is" if len(others) == 1 else whom
    return f"; on the same seeds, {whom} {'not ' if close else ''}surely worse"


def _success_of(best: EvaluatedCheckpoint, checkpoints: Sequence[EvaluatedCheckpoint]) -> str:
    """Return how many of the others succeed less often on the same seeds, by Newcombe's interval for paired rates."""
    others = [one for one in checkpoints if one.condition == best.condition and not math.isnan(one.success_behind)]
    if not others:
        return ""
    fewer = sum(one.success_behind_low > 0 for one in others)
    whom = f"{fewer} of the {len(others)} others surely succeed{'s' if fewer == 1 else ''}"
    if len(others) == 1:
        whom = f"the other one {'surely succeeds' if fewer else 'does not surely succeed'}"
    return f"; on the same seeds, {whom} less often"


def value_of(one: EvaluatedCheckpoint) -> str:
    """Return the mean return of a checkpoint with its interval.

    Example:
        >>> value_of(EvaluatedCheckpoint("PPO_1", "", "checkpoint_000002", 3, 0))
        'none'
    """
    return with_interval(one.return_mean, one.return_low, one.return_high) or "none"


def _rate(one: EvaluatedCheckpoint) -> str:
    return with_interval(one.success_rate, one.success_low, one.success_high, digits=3)


def _how(one: EvaluatedCheckpoint) -> str:
    count = counted(one.episodes, "episode")
    return count if one.explored is None else f"{count}, {'exploring' if one.explored else 'not exploring'}"
