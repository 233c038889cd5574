"""An evaluation as text for a terminal: a line for each checkpoint, and a table of the conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tune_media.evaluation.evaluation import EvaluatedCheckpoint, Evaluation
from tune_media.values.number import counted
from tune_media.viewing.configurations import short
from tune_media.viewing.table import laid_out, printable, with_interval


def checkpoint_line(row: EvaluatedCheckpoint) -> str:
    """Return the line of a checkpoint, as it is printed when its episodes have been played.

    Example:
        >>> checkpoint_line(EvaluatedCheckpoint("PPO_1", "", "checkpoint_000002", 3, 40, 20.5, 18.0, 23.0, True))
        'PPO_1  checkpoint_000002  20.5 [18, 23] (40 episodes, exploring)'
    """
    parts = [row.trial, row.condition, row.checkpoint, f"{value_of(row)} ({_how(row)})"]
    text = "  ".join(part for part in parts if part)
    return printable(text if row.error is None else f"{text}: {row.error}")


def tables(evaluation: Evaluation) -> str:
    """Return the lines of all checkpoints, the best first; of several conditions, one column each.

    If there is one condition, a column says how far each is behind the best on the same seeds.
    """
    checkpoints = evaluation.checkpoints
    conditions = list(dict.fromkeys(row.condition for row in checkpoints))
    several = len({row.checkpoint for row in checkpoints}) > 1
    places = list(dict.fromkeys((row.trial, row.checkpoint) for row in checkpoints))
    rows = {(row.trial, row.checkpoint, row.condition): row for row in checkpoints}

    def score(place: tuple[str, str]) -> float:
        of_place = [rows[(*place, condition)] for condition in conditions if (*place, condition) in rows]
        values = [row.return_mean for row in of_place if not math.isnan(row.return_mean)]
        return -values[0] if values else math.inf

    is_one = len(conditions) == 1  # then there is room to compare
    compares = is_one and len(places) > 1
    tells = is_one and any(not math.isnan(row.success_rate) for row in checkpoints)
    params = list(checkpoints[0].params) if checkpoints else []
    header = [
        "trial",
        *params,
        *(["checkpoint"] if several else []),
        *(condition or "mean return" for condition in conditions),
    ]
    header += [*(["behind the best"] if compares else []), *(["success"] if tells else []), "episodes"]
    lines = [[*header, *([""] if compares else [])]]
    for place in sorted(places, key=score):
        of_place = [rows[(*place, condition)] for condition in conditions if (*place, condition) in rows]
        first = of_place[0]
        cells = [value_of(rows[key]) if (key := (*place, condition)) in rows else "" for condition in conditions]
        cells += [with_interval(first.behind, first.behind_low, first.behind_high)] if compares else []
        cells += [_rate(first)] if tells else []
        cells.append("/".join(dict.fromkeys(str(row.episodes) for row in of_place)))
        rank = "best" if first is evaluation.best else "not surely worse" if first.is_not_surely_worse else ""
        values = [short(first.params.get(name, "")) for name in params]
        lines.append([place[0], *values, *([place[1]] if several else []), *cells, *([rank] if compares else [])])
    return laid_out(lines)


def remarks(evaluation: Evaluation) -> list[str]:
    """Return what a reader of the table must know: how it was played, who won, what is missing."""
    checkpoints = evaluation.checkpoints
    is_any = any(not math.isnan(row.return_low) for row in checkpoints)
    of = "the mean over the episodes, and of the difference to the best on the same seeds"
    lines = [f"Intervals: 95 %, Student's t, of {of}."] if is_any else []
    for explored in (True, False):
        names = [row for row in checkpoints if row.explored is explored]
        if names:
            which = "The policies" if len(names) == len(checkpoints) else f"{len(names)} of the policies"
            whose = {row.connectors for row in names} - {None}
            with_them = f", with the connectors of the {' and the '.join(sorted(map(str, whose)))} env runner"
            lines.append(f"{which} {'explored' if explored else 'did not explore'}{with_them if whose else ''}.")
    lines += [f"Note: {note}." for note in dict.fromkeys(row.note for row in checkpoints if row.note)]
    best = evaluation.best
    if best is not None:
        where = f"{best.checkpoint}, {best.condition}" if best.condition else best.checkpoint
        lines.append(f"The best is {best.trial} ({where}): {value_of(best)}{_how_sure(best, checkpoints)}.")
        if not math.isnan(best.success_rate):
            lines.append(
                f"It succeeds in {_rate(best)} of its episodes (Wilson's interval){_success_of(best, checkpoints)}."
            )
    lines += [f"{row.trial}, {row.checkpoint}: {row.error}" for row in checkpoints if row.error]
    return [printable(line) for line in [*lines, *evaluation.problems]]


def _how_sure(best: EvaluatedCheckpoint, checkpoints: Sequence[EvaluatedCheckpoint]) -> str:
    """Return how sure it is that the best one is better than the others under its condition."""
    others = [row for row in checkpoints if row is not best and row.condition == best.condition and row.seeds_compared]
    if not others:
        return ""
    close = sum(row.is_not_surely_worse for row in others)
    whom = f"{close or 'all'} of the {len(others)} others {'is' if close == 1 else 'are'}"
    whom = "the other one is" if len(others) == 1 else whom
    return f"; on the same seeds, {whom} {'not ' if close else ''}surely worse"


def _success_of(best: EvaluatedCheckpoint, checkpoints: Sequence[EvaluatedCheckpoint]) -> str:
    """Return how many of the others succeed less often on the same seeds, by Newcombe's interval for paired rates."""
    others = [row for row in checkpoints if row.condition == best.condition and not math.isnan(row.success_behind)]
    if not others:
        return ""
    fewer = sum(row.success_behind_low > 0 for row in others)
    whom = f"{fewer} of the {len(others)} others surely succeed{'s' if fewer == 1 else ''}"
    if len(others) == 1:
        whom = f"the other one {'surely succeeds' if fewer else 'does not surely succeed'}"
    return f"; on the same seeds, {whom} less often"


def value_of(row: EvaluatedCheckpoint) -> str:
    """Return the mean return of a checkpoint with its interval.

    Example:
        >>> value_of(EvaluatedCheckpoint("PPO_1", "", "checkpoint_000002", 3, 0))
        'none'
    """
    return with_interval(row.return_mean, row.return_low, row.return_high) or "none"


def _rate(row: EvaluatedCheckpoint) -> str:
    return with_interval(row.success_rate, row.success_low, row.success_high, digits=3)


def _how(row: EvaluatedCheckpoint) -> str:
    count = counted(row.episodes, "episode")
    return count if row.explored is None else f"{count}, {'exploring' if row.explored else 'not exploring'}"
