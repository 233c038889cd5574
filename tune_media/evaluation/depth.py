"""What a gate's verdict supposes of episodes that it has not seen, in words: how deep one falls, and how often."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tune_media.evaluation.measure import Measure
from tune_media.evaluation.sequential import ASSUMED, GATE, HISTORY, LEVEL, PASS, WORSE, WORST, Standing
from tune_media.values.number import counted
from tune_media.values.problems import argument, remedy

_SOURCES = {
    ASSUMED: "which is assumed",
    GATE: "as the worst of these did",
    HISTORY: "as the worst earlier one did",
    WORST: "as the worst one can",
}


def assumption(standing: Standing, measure: Measure, *, of_floor: bool) -> str | None:
    """Return that the depth of a failure is assumed, where failures are often deeper: of means below zero, or None."""
    mean = standing.candidate if of_floor else standing.base
    if standing.depth_from != ASSUMED or mean >= 0 or measure.worst is not None:
        return None
    falls = _falls(standing.depth, measure.sign)
    return f"It is assumed that no episode {falls} {measure.sign * mean:.5g}. If one can, pass --worst."


def suppositions(
    standing: Standing, measure: Measure, scores: Mapping[int, tuple[float, ...]], noun: str = "seed"
) -> list[str]:
    """Return what a verdict of these scores, by seed, supposes, as notes; ``noun``: what counts as one."""
    notes: list[str] = []
    worst = -math.inf if measure.worst is None else measure.worst
    if beyond := [seed for seed, values in scores.items() if min(values) < worst]:
        given = f"{measure.sign * worst:g}, which was given as the worst, such as seed {beyond[0]}"
        notes.append(f"{counted(len(beyond), 'seed')} had a worse {measure.metric} than {given}")
    if standing.depth_from is None:  # with bounds, nothing is supposed
        return notes
    if standing.verdict == WORSE:
        what_to_do = remedy("if one can, pass " + argument("bounds="))
        notes.append(f"this is sure unless one seed can gain more than {standing.cost:.5g}; " + what_to_do)
    if standing.verdict == PASS:
        falls, seeds = _falls(standing.depth, measure.sign), counted(standing.seeds, noun)
        share = -100 * math.expm1(math.log(1 - LEVEL) / standing.seeds)
        unseen = f"an episode that {falls}, {_SOURCES[standing.depth_from]}, was not seen in {seeds}"
        unseen += f"; if it happens on fewer than {share:.2g} in 100, this PASS would not notice"
        what_to_do = remedy("; if one can be worse, pass " + argument("worst="))
        notes.append(unseen + what_to_do if standing.depth_from == ASSUMED else unseen)
    return notes


def _falls(depth: float, sign: int) -> str:
    falls, below = ("falls", "below") if sign > 0 else ("rises", "above")
    return f"{falls} by more than {depth:.5g} {below} the mean"
