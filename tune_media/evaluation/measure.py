"""What two policies are compared by: a number of each episode, and how much worse the candidate may be."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tune_media.evaluation.sequential import (
    FORECAST,
    HISTORY,
    UNKNOWN,
    WORST,
    Lowest,
    Margin,
    Standing,
    floor_standing,
    standing,
)
from tune_media.recording.success import END, ONCE
from tune_media.values import checks
from tune_media.values.problems import argument, remedy

RETURN, SUCCESS, LENGTH = "return", "success", "length"
SUCCESS_COLUMNS = {None: SUCCESS, END: "success_at_end", ONCE: "success_once"}
_SHARE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*%\s*")


@dataclass(frozen=True)
class Measure:
    """What is compared.

    >>> Measure.of("success", "max", "5%", None).bounds, Measure.of("length", "min", 3, None, worst=900).worst
    ((0.0, 1.0), -900.0)
    """

    metric: str  # ``return``, ``success``, ``length``, or the name of a custom metric
    sign: int  # 1: larger is better; -1: smaller is
    margin: Margin  # how much worse the candidate may be
    bounds: tuple[float, float] | None  # the least and the largest value, both times the sign; None: not known
    floor: float | None = None  # what the candidate's mean must reach; None: nothing
    worst: float | None = None  # the lowest score that an episode can have, if the caller knows it
    success_when: str | None = None  # the time at which a success counts; None: as the episodes say
    history: tuple[float, ...] = ()  # the lowest score of each side's earlier episodes, the candidate's last

    @classmethod
    def of(cls, metric: Any, mode: str, margin: Any, bounds: Any, at_least: Any = None, worst: Any = None) -> Measure:
        """Check the arguments of ``tune_media.gate`` that say what is compared. Raises ValueError, TypeError."""
        checks.a_text("'return', 'success' or 'length'").check("gate(metric=...)", metric)
        checks.one_of("max", "min").check("gate(mode=...)", mode)
        sign, allowed = (1 if mode == "max" else -1), _margin(margin)
        if metric == SUCCESS and bounds is not None:
            raise ValueError(argument("gate(bounds=...)") + " of success are 0 and 1: " + remedy("leave it out."))
        if metric == SUCCESS:  # per cent are percentage points
            bounds, allowed = (0.0, 1.0), Margin(allowed.amount)
        bounds = checks.number_range("gate(bounds=...)", bounds)
        if bounds is not None and not all(map(math.isfinite, bounds)):
            raise ValueError(checks.refusal("gate(bounds=...)", "two finite numbers, or nothing", bounds))
        if bounds is not None:
            bounds = (float(bounds[0]), float(bounds[1])) if sign > 0 else (-float(bounds[1]), -float(bounds[0]))
        if bounds is not None and not allowed.is_share and not allowed.amount < (bounds[1] - bounds[0]) / 2:
            less = f"less than half of the range {bounds[1] - bounds[0]:g} of the metric"
            raise ValueError(checks.refusal("gate(margin=...)", less, margin))
        return cls(metric, sign, allowed, bounds, _floor(at_least, sign, bounds), _worst(worst, sign, metric, bounds))

    def with_history(self, known: Mapping[str, Mapping[str, Any]], roles: Iterable[str]) -> Measure:
        """Return it with the ``worst`` of each side's earlier episodes, by role, if there are some."""
        scores = (self.sign * known[role]["worst"] if role in known else math.inf for role in roles)
        return replace(self, history=tuple(scores))

    @property
    def range(self) -> tuple[float, float] | None:
        """The bounds in the units of the metric."""
        low, high = self.bounds or (math.nan, math.nan)
        return None if self.bounds is None else (low, high) if self.sign > 0 else (-high, -low)

    def ask(self, scores: Sequence[tuple[float, ...]], level: float, after: int, *, of_floor: bool) -> Standing:
        """Return what the scores of each seed say, the candidate's last: of the floor, or of the base before it."""
        columns = np.array(scores).T[-1 if of_floor else 0 :]
        lowest = self.lowest(of_floor=of_floor)
        if of_floor and self.floor is not None:
            return floor_standing(columns[0], self.floor, self.bounds, level, after, lowest)
        return standing(columns[0], columns[-1], self.margin, self.bounds, level, after, lowest)

    def check(self, scores: Sequence[tuple[float, ...]]) -> None:
        """Raise ValueError if the first seeds show that the worst value that was given is none."""
        if self.worst is None or len(scores) < FORECAST:
            return
        mean = float(np.mean([of_seed[0] for of_seed in scores]))
        if self.worst > mean:
            none = f"{self.sign * self.worst:g} cannot be the worst {self.metric}: the mean is {self.sign * mean:.5g}; "
            what_to_do = " what one episode can have at the worst, and mind the sign"
            raise ValueError(none + remedy("pass as " + argument("worst=") + what_to_do))

    def lowest(self, *, of_floor: bool) -> Lowest:
        """Return the lowest score that is known besides those of the gate's episodes."""
        earlier = self.history[-1:] if of_floor else self.history
        known = [Lowest(score, HISTORY) for score in earlier]
        return min(
            [*([] if self.worst is None else [Lowest(self.worst, WORST)]), *known],
            default=UNKNOWN,
            key=lambda known: known.score,
        )

    def facts(self) -> dict[str, Any]:
        """Return it as JSON."""
        margin = {"amount": self.margin.amount, "is_share": self.margin.is_share}
        bounds = self.bounds and list(self.bounds)
        worst = self.worst and self.sign * self.worst
        facts = {"metric": self.metric, "sign": self.sign, "margin": margin, "bounds": bounds, "at_least": self.floor}
        return {**facts, "worst": worst}

    def value(self, row: Mapping[str, Any]) -> float:
        """Return the score of an episode; a higher one is better. Raises ValueError."""
        metrics, column = dict(row["metrics"]), SUCCESS_COLUMNS[self.success_when]
        scores = {RETURN: row["episode_return"], SUCCESS: row[column], LENGTH: row["episode_length"], **metrics}
        if self.metric not in scores:
            hint = checks.did_you_mean(self.metric, scores)
            raise ValueError(f"the episodes have no metric {self.metric!r}; " + hint)
        value = scores[self.metric]
        if value is None and self.metric == SUCCESS:
            what_to_do = remedy("pass the name of the value that does, " + argument("success=, or --success"))
            why = "its env says nothing in info" if column == SUCCESS else f"it has no {column}"
            unknown = f"nobody knows whether the episode of seed {row['seed']} succeeded"
            raise ValueError(f"{unknown}: {why}; " + what_to_do)
        score = self.sign * float(value)
        if not math.isfinite(score):
            raise ValueError(f"the {self.metric} of seed {row['seed']} is {value}")
        if self.bounds is not None and not self.bounds[0] <= score <= self.bounds[1]:
            raise ValueError(f"the {self.metric} of seed {row['seed']} is {value}, outside the bounds")
        return score


def _worst(value: Any, sign: int, metric: str, bounds: tuple[float, float] | None) -> float | None:
    """Check the worst value that one episode can have; return it as a score. Raises ValueError, TypeError."""
    if value is None:
        return None
    if bounds is not None:
        known = "of success is 0" if metric == SUCCESS else "is in the bounds"
        raise ValueError(argument("gate(worst=...)") + f" {known}: " + remedy("leave it out."))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(checks.refusal("gate(worst=...)", "a finite number, such as -500", value))
    return sign * float(value)


def _floor(value: Any, sign: int, bounds: tuple[float, float] | None) -> float | None:
    """Check what a mean must reach. Raises ValueError, TypeError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(checks.refusal("gate(at_least=...)", "a finite number, such as 450", value))
    if sign < 0:
        why = " is for a metric of which more is better: " + remedy("leave out mode='min'.")
        raise ValueError(argument("gate(at_least=...)") + why)
    if bounds is not None and not bounds[0] < value < bounds[1]:
        between = f"a number between {bounds[0]:g} and {bounds[1]:g}, the bounds of the metric"
        neither = "neither of them: no number of episodes could prove it"
        raise ValueError(checks.refusal("gate(at_least=...)", f"{between}, and {neither}", value))
    return float(value)


def _margin(value: Any) -> Margin:
    """Return what ``5%``, ``"3"`` or 3.0 says.

    >>> _margin("5%"), _margin("3")
    (Margin(amount=0.05, is_share=True), Margin(amount=3.0, is_share=False))
    """
    share = _SHARE.fullmatch(value) if isinstance(value, str) else None
    try:
        amount = float(share[1]) / 100 if share else float(value)
    except (TypeError, ValueError):
        amount = -1.0
    if isinstance(value, bool) or not 0 <= amount < math.inf or (share and amount >= 1):
        raise ValueError(checks.refusal("gate(margin=...)", "'5%', below 100 %, or a number from 0 on", value))
    return Margin(amount, share is not None)
