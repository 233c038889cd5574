"""An evaluation as text for a terminal: a line for each checkpoint, and a table of the conditions."""

from __future__ import annotations

import math

from tune_media.evaluation.evaluation import EvaluatedCheckpoint, Evaluation
from tune_media.viewing.configurations import short
from tune_media.viewing.table import laid_out, printable


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
    """Return the lines of all checkpoints, the best first; of several conditions, one column each."""
    checkpoints = evaluation.checkpoints
    conditions = list(dict.fromkeys(one.condition for one in checkpoints))
    several = len({one.checkpoint for one in checkpoints}) > 1
    places = list(dict.fromkeys((one.trial, one.checkpoint) for one in checkpoints))
    found = {(one.trial, one.checkpoint, one.condition): one for one in checkpoints}

    def score(place: tuple[str, str]) -> float:
        known = [found[(*place, condition)] for condition in conditions if (*place, condition) in found]
        values = [one.return_mean for one in known if not math.isnan(one.return_mean)]
        return -values[0] if values else math.inf

    params = list(checkpoints[0].params) if checkpoints else []
    header = ["trial", *params, *(["checkpoint"] if several else [])]
    header += [*(one or "mean return" for one in conditions), "episodes"]
    lines = [header]
    for place in sorted(places, key=score):
        of_place = [found.get((*place, condition)) for condition in conditions]
        cells = ["" if one is None else value_of(one) for one in of_place]
        episodes = "/".join(dict.fromkeys(str(one.episodes) for one in of_place if one is not None))
        own = next(one.params for one in of_place if one is not None)
        values = [short(own.get(name, "")) for name in params]
        lines.append([place[0], *values, *([place[1]] if several else []), *cells, episodes])
    return laid_out(lines)


def remarks(evaluation: Evaluation) -> list[str]:
    """Return what a reader of the table must know: how it was played, who won, what is missing."""
    checkpoints = evaluation.checkpoints
    is_any = any(not math.isnan(one.return_low) for one in checkpoints)
    told = ["Intervals: 95 %, percentile bootstrap of the mean over the episodes."] if is_any else []
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
        others = [one for one in checkpoints if one is not best and one.condition == best.condition]
        close = [one for one in others if one.return_high >= best.return_low]
        whom = f"the intervals of {len(close)} of the {len(others)} others overlap"
        whom = "the interval of the other one overlaps" if len(others) == 1 else whom
        sure = f"; {whom} with it" if close else ""
        where = f"{best.checkpoint}, {best.condition}" if best.condition else best.checkpoint
        told.append(f"The best is {best.trial} ({where}): {value_of(best)}{sure}.")
    told += [f"{one.trial}, {one.checkpoint}: {one.error}" for one in checkpoints if one.error]
    return [printable(one) for one in [*told, *evaluation.problems]]


def value_of(one: EvaluatedCheckpoint) -> str:
    """Return the mean return of a checkpoint with its interval.

    Example:
        >>> value_of(EvaluatedCheckpoint("PPO_1", "", "checkpoint_000002", 3, 0))
        'none'
    """
    if math.isnan(one.return_mean):
        return "none"
    if math.isnan(one.return_low):
        return f"{one.return_mean:.5g}"
    return f"{one.return_mean:.5g} [{one.return_low:.5g}, {one.return_high:.5g}]"


def _how(one: EvaluatedCheckpoint) -> str:
    count = f"{one.episodes} episode{'' if one.episodes == 1 else 's'}"
    return count if one.explored is None else f"{count}, {'exploring' if one.explored else 'not exploring'}"
