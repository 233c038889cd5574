"""An evaluation as text for a terminal: a line for each checkpoint, and a table of the conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from tune_media.evaluation.evaluation import EvaluatedCheckpoint, Evaluation
from tune_media.experiment import params as hyperparameters
from tune_media.values.number import counted
from tune_media.viewing import table, wording
from tune_media.viewing.configurations import short


def checkpoint_line(row: EvaluatedCheckpoint) -> str:
    """Return the line of a checkpoint, as it is printed when its episodes have been played.

    >>> checkpoint_line(EvaluatedCheckpoint("PPO_1", "", "checkpoint_000002", 3, 40, 20.5, 18.0, 23.0, True))
    'PPO_1  checkpoint_000002  20.5 [18, 23] (40 episodes, exploring)'
    """
    how = counted(row.episodes, "episode")
    if row.explored is not None:
        how += ", exploring" if row.explored else ", not exploring"
    parts = [row.trial, row.condition, row.checkpoint, f"{value_of(row)} ({how})"]
    text = "  ".join(part for part in parts if part)
    return table.printable(text if row.error is None else f"{text}: {row.error}")


def tables(evaluation: Evaluation) -> str:
    """Return the lines of all checkpoints, the best first; of several conditions, one column each.

    If there is one condition, a column says how far the best is ahead of each on the same seeds.
    """
    checkpoints = evaluation.checkpoints
    conditions, lines = list(dict.fromkeys(row.condition for row in checkpoints)), _by_condition(checkpoints)
    firsts = [next(iter(line.values())) for line in lines]  # of each line, that of the first condition
    columns = list(_names(firsts))
    for condition in conditions:
        cells = (value_of(line[condition]) if condition in line else "" for line in lines)
        columns.append([condition or "mean return", *cells])
    counts = ["episodes", *("/".join(dict.fromkeys(str(row.episodes) for row in line.values())) for line in lines)]
    columns += _compared(firsts, counts, evaluation.best) if len(conditions) == 1 else [counts]
    kept = ("trial", "checkpoint", "mean return", "", *conditions, wording.AHEAD_BY)
    optional = [name for name, *_ in reversed(columns) if name not in kept]
    optional += [*reversed(conditions[1:]), wording.AHEAD_BY]
    return table.laid_out([list(cells) for cells in zip(*columns, strict=True)], optional=optional)


def _by_condition(checkpoints: Sequence[EvaluatedCheckpoint]) -> list[dict[str, EvaluatedCheckpoint]]:
    """Return a line for each checkpoint, by condition, the best first."""
    lines: dict[tuple[str, str], dict[str, EvaluatedCheckpoint]] = {}  # by trial and checkpoint
    for row in checkpoints:
        lines.setdefault((row.trial, row.checkpoint), {})[row.condition] = row
    return sorted(lines.values(), key=_rank)


def _names(rows: Sequence[EvaluatedCheckpoint]) -> Iterator[list[str]]:
    """Yield the columns that say which checkpoint it is."""
    yield ["trial", *(row.trial for row in rows)]
    for name in dict.fromkeys(name for row in rows for name in row.params):
        yield [name, *(short(row.params.get(name, hyperparameters.UNSET)) for row in rows)]
    if len({row.checkpoint for row in rows}) > 1:
        yield ["checkpoint", *(row.checkpoint for row in rows)]


def _compared(
    rows: Sequence[EvaluatedCheckpoint], counts: list[str], best: EvaluatedCheckpoint | None
) -> Iterator[list[str]]:
    """Yield the last columns of checkpoints under one condition, which have room to compare them."""
    is_one = len(rows) == 1
    if not is_one:
        yield [wording.AHEAD_BY, *map(_lead, rows)]
    if any(not math.isnan(row.success_rate) for row in rows):
        yield ["success", *map(_rate, rows)]
    if any(row.success_once_rate > row.success_at_end_rate for row in rows):
        yield ["once", *(f"{row.success_once_rate:.3g}" for row in rows)]
        yield ["at the end", *(f"{row.success_at_end_rate:.3g}" for row in rows)]
    yield counts
    if not is_one:
        yield ["", *(wording.standing(is_best=row is best, is_close=row.is_not_clearly_worse) for row in rows)]


def _rank(line: Mapping[str, EvaluatedCheckpoint]) -> float:
    """Return what a line of the table is sorted by: the first mean that it has, the highest first."""
    return next((-row.return_mean for row in line.values() if math.isfinite(row.return_mean)), math.inf)


def remarks(evaluation: Evaluation) -> list[str]:
    """Return what a reader of the table must know: how it was played, who won, what is missing."""
    checkpoints, best = evaluation.checkpoints, evaluation.best
    lines = []
    if any(not math.isnan(row.return_low) for row in checkpoints):
        lines.append("Intervals: 95 %.")
        if evaluation.rivals:
            lines[0] += " Those of the differences to the best, on the same seeds, hold for all together."
    lines += _how_played(checkpoints)
    lines += [f"Note: {note}." for note in dict.fromkeys(row.note for row in checkpoints if row.note)]
    if best is not None:
        lines += _about_best(best, evaluation)
    lines += _older(evaluation)
    lines += [f"{row.trial}, {row.checkpoint}: {row.error}" for row in evaluation.played_checkpoints if row.error]
    return [table.printable(line) for line in [*lines, *evaluation.problems]]


def _how_played(checkpoints: Sequence[EvaluatedCheckpoint]) -> Iterator[str]:
    """Yield which policies explored, and with whose connectors."""
    for explored in (True, False):
        rows = [row for row in checkpoints if row.explored is explored]
        if rows:
            which = "The policies" if len(rows) == len(checkpoints) else f"{len(rows)} of the policies"
            whose = " and the ".join(sorted({row.connectors for row in rows if row.connectors is not None}))
            connectors = f", with the connectors of the {whose} env runner" if whose else ""
            yield f"{which} {'explored' if explored else 'did not explore'}{connectors}."


def _older(evaluation: Evaluation) -> Iterator[str]:
    """Yield how many episodes were played before, and how many of those were replaced."""
    both = [evaluation, *([evaluation.fresh] if evaluation.fresh else [])]
    reused, replaced = sum(one.reused for one in both), sum(one.replaced for one in both)
    if reused:
        times = [time for one in both if one.reused_from for time in one.reused_from]
        yield wording.reused(reused, reused + sum(one.played for one in both), (min(times), max(times)))
    if replaced:
        yield wording.replaced(replaced)


def _about_best(best: EvaluatedCheckpoint, evaluation: Evaluation) -> Iterator[str]:
    """Yield which checkpoint is the best, and whether that is clear."""
    which = f"With {best.condition}, the best policy" if best.condition else "The best policy"
    yield f"{which} is {best.trial} ({best.checkpoint}): {value_of(best)}{_how_sure(evaluation.rivals)}."
    if not math.isnan(best.success_rate):
        others = _success_of(best, evaluation.checkpoints)
        yield f"It succeeds in {_rate(best)} of its episodes (Wilson's interval){others}."
    if evaluation.rivals:
        what_to_do = "" if evaluation.fresh else " --fresh-seeds 40 plays it on others."
        yield wording.chosen(1 + len(evaluation.rivals)) + what_to_do
    for row in evaluation.fresh.checkpoints if evaluation.fresh else ():
        rate = "" if math.isnan(row.success_rate) else f", success {_rate(row)}"
        yield f"On {counted(row.episodes, 'fresh seed')}, it has {value_of(row)}{rate}."


def _how_sure(others: Sequence[EvaluatedCheckpoint]) -> str:
    """Return whether the best one is clearly better than the others under its condition."""
    close = sum(row.is_not_clearly_worse for row in others)
    return f"; on the same seeds, {wording.others_worse(close, len(others))}" if others else ""


def _success_of(best: EvaluatedCheckpoint, checkpoints: Sequence[EvaluatedCheckpoint]) -> str:
    """Return how many of the others succeed less often on the same seeds."""
    others = [row for row in checkpoints if row.condition == best.condition and not math.isnan(row.success_behind)]
    fewer = sum(row.success_is_clear for row in others)
    return f"; on the same seeds, {wording.others_succeed_less(fewer, len(others))}" if others else ""


def value_of(row: EvaluatedCheckpoint) -> str:
    """Return the mean return of a checkpoint with its interval.

    >>> value_of(EvaluatedCheckpoint("PPO_1", "", "checkpoint_000002", 3, 0))
    'none'
    """
    return wording.with_interval(row.return_mean, row.return_low, row.return_high) or "none"


def _lead(row: EvaluatedCheckpoint) -> str:
    is_clear = not row.is_not_clearly_worse
    return wording.with_interval(row.behind, row.behind_low, row.behind_high, is_clear=is_clear)


def _rate(row: EvaluatedCheckpoint) -> str:
    return wording.with_interval(row.success_rate, row.success_low, row.success_high, digits=3)
