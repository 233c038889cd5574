"""What is said of the configurations: which one is the best, whether that is clear, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tune_media.experiment.status import UNENDED, TrialStatus
from tune_media.values.number import counted
from tune_media.viewing import wording
from tune_media.viewing.configurations import Judged, masked, short, titles
from tune_media.viewing.inference import CLOSE, EQUAL, ONE_RUN, SEEDS, UNEQUAL_TRAINING, Estimate, Scores

_FAR = 3.0  # times the range of the other runs
_FEWEST_OTHERS = 3
_MAX_TITLE = 60
_MOST_OF_TWO_KINDS = 3
_MOST_NAMES = 3
_DIGITS = 4


@dataclass(frozen=True)
class Verdict:
    """Which configuration is the best.

    Attributes:
        lead: What is claimed of it, such as ``Clearly the best``.
        title: Its hyperparameters.
        rest: Why that is not clear, in a sentence; empty if it is.
        why: The numbers, in sentences.
        is_clear: Whether it is clearly the best of these runs.
    """

    lead: str
    title: str
    rest: str
    why: Sequence[str]
    is_clear: bool

    @property
    def sentence(self) -> str:
        """All but the numbers.

        >>> Verdict("Best so far", "lr 0.01", "One run each cannot tell.", [], False).sentence
        'Best so far: lr 0.01. One run each cannot tell.'
        """
        return f"{self.lead}: {self.title}. {self.rest}".rstrip()


def verdict(ranking: Sequence[Judged], statuses: Sequence[TrialStatus], label: str, *, sign: int = 1) -> Verdict | None:
    """Return what is said of judged configurations; None if fewer than two of them have a score.

    Args:
        ranking: The configurations, the best first.
        statuses: What became of each trial; empty if not known.
        label: What the score is, in words.
        sign: -1 if the lowest score is the best.

    >>> verdict([], [], "mean return")
    """
    with_score = [entry for entry in ranking if entry.n]
    if len(with_score) < 2:
        return None
    scored = [entry for entry in with_score if entry.ahead is None or entry.ahead.why != UNEQUAL_TRAINING]
    names = [_cut(title) for title in titles([masked(entry.configuration) for entry in scored])]
    close = [place for place, entry in enumerate(scored, 1) if entry.is_not_clearly_worse]
    unended = _unended(scored, statuses) if statuses else 0
    why = _why(scored, names, close, label, sign, unended)
    return _said(scored, names[0], close, len(with_score) - len(scored), why, is_final=not unended)


def _said(
    scored: Sequence[Judged], title: str, close: Sequence[int], early: int, why: Sequence[str], *, is_final: bool
) -> Verdict:
    """Return the sentence on the best one, beside which ``early`` others have trained less."""
    rest = [wording.doubt(*_why_unclear(scored, close))] if close else []
    is_clear, noun = not close and len(scored) > 1, ""
    seeds = max((lead.seeds for entry in scored if (lead := entry.ahead) and lead.over == SEEDS), default=0)
    if seeds:  # of one run each
        noun, title = "policy", f"{'the policy of ' if close else ''}{title}, on {seeds} evaluation seeds"
        rest += _one_run_each(scored)
    if early:
        noun = f"of the {len(scored)} that trained as long" if is_clear else noun
        rest.append("No other has trained as long." if len(scored) == 1 else f"{early} stopped earlier.")
    claim = wording.claim(is_clear=is_clear, is_final=is_final, noun=noun)
    return Verdict(claim, title, " ".join(rest), why, is_clear)


def _why(
    scored: Sequence[Judged], names: Sequence[str], close: Sequence[int], label: str, sign: int, unended: int
) -> list[str]:
    """Return the numbers behind a verdict, in sentences."""
    mean, runs = scored[0].mean, counted(scored[0].n, "run")
    why = [f"Its {label} is {wording.with_interval(mean.value, mean.low, mean.high, _DIGITS)} over {runs}."]
    why += _second(scored[1], f"#2, {names[1]},") if len(scored) > 1 else []
    if len(close) > 1:
        why.append(wording.places_of_close(close))
    if unended:
        why.append(f"{counted(unended, 'run')} {'has' if unended == 1 else 'have'} not ended and may change it.")
    why += [*_of_two_kinds(scored), *_best_run(scored, names, sign), wording.ERRS]
    return why


def _one_run_each(scored: Sequence[Judged]) -> list[str]:
    """Return that one run each tells nothing about the hyperparameters, in a sentence; none if none differs."""
    names = [name.rpartition("/")[2] for name in scored[0].configuration.params][:_MOST_NAMES]
    return [f"One run per configuration is not enough to tell about {' or '.join(names)}."] if names else []


def _unended(scored: Sequence[Judged], statuses: Sequence[TrialStatus]) -> int:
    """Return how many of the runs that count have not ended."""
    counting = (number for entry in scored for number in entry.configuration.trials if number not in entry.left_out)
    return sum(statuses[number].word in UNENDED for number in counting)


def _second(second: Judged, name: str) -> Iterator[str]:
    """Yield how far the best one is ahead of the second, or, on the seeds that both have, the second of it."""
    lead = second.ahead
    if lead is None:
        return
    if lead.value == 0:
        yield f"{name} has the same score."
        return
    ends = (lead.low, lead.high) if math.isfinite(lead.high) else (math.nan, math.nan)
    text = wording.ahead(Estimate(lead.value, *ends), name, _DIGITS)
    yield f"{text[:1].upper()}{text[1:]}{wording.over_what(lead) if math.isfinite(lead.high) else ''}."


def _why_unclear(scored: Sequence[Judged], close: Sequence[int]) -> tuple[str, int]:
    """Return why the first one is not clearly the best, and because of how many others."""
    reasons = [lead.why for place in close if (lead := scored[place - 1].ahead) is not None and lead.why]
    if EQUAL in reasons:
        return EQUAL, reasons.count(EQUAL)
    why = next((reason for reason in reasons if reason != CLOSE), CLOSE)
    if why == ONE_RUN and all(entry.n == 1 for entry in scored):
        return wording.ONE_RUN_EACH, 1
    return why, len(close) if why == CLOSE else reasons.count(why)


def far_runs(scores: Scores) -> int:
    """Return how many runs lie far from the others, on one side: they collapsed, or alone did not.

    They are fewer than the others, of which there are three at least, and the gap between them is more than three
    times the range of the others.

    >>> far_runs(np.array([500.0, 480.0, 490.0, 10.0])), far_runs(np.array([1.0, 2.0, 3.0, 4.0]))
    (1, 0)
    """
    values = np.sort(scores.ravel())
    for count in range(1, (len(values) - 1) // 2 + 1):
        if len(values) - count < _FEWEST_OTHERS:
            break
        for others, far in ((values[count:], values[count - 1]), (-values[:-count][::-1], -values[-count])):
            if others[0] - far > _FAR * max(others[-1] - others[0], 1e-9 * abs(others[0])):
                return count
    return 0


def _of_two_kinds(scored: Sequence[Judged]) -> list[str]:
    lines: list[str] = []
    for place, entry in enumerate(scored, 1):
        may_win = (place == 1 or entry.is_not_clearly_worse) and len(lines) < _MOST_OF_TWO_KINDS
        if may_win and entry.scores.shape[1] == 1 and (far := far_runs(entry.scores)):
            runs = f"{far} of the {entry.n} runs of #{place} {'lies' if far == 1 else 'lie'} far from the others"
            lines.append(f"{runs}: the mean describes neither kind, and its interval may miss.")
    return lines


def _best_run(scored: Sequence[Judged], names: Sequence[str], sign: int) -> list[str]:
    """Return which single run has a better score than all runs of the best configuration, in a sentence."""
    tops = [sign * float(np.max(sign * entry.scores)) for entry in scored]
    place = max(range(len(scored)), key=lambda number: sign * tops[number])
    if place == 0 or tops[place] == tops[0]:
        return []
    entry = scored[place]
    which = "highest" if sign > 0 else "lowest"
    top, mean = short(tops[place]), short(entry.mean.value)
    return [f"The {which} single run is one of #{place + 1}, {names[place]}, with {top}; their mean is {mean}."]


def _cut(title: str) -> str:
    return title if len(title) <= _MAX_TITLE else f"{title[: _MAX_TITLE - 1]}…"
