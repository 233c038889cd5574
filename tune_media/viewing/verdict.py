"""The verdict on the configurations: which one is the best, whether that is clear, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tune_media.values.number import counted
from tune_media.viewing import wording
from tune_media.viewing.configurations import Judged, masked, short, titles, told_of
from tune_media.viewing.inference import (
    CLOSE,
    COPIES,
    EQUAL,
    ONE_RUN,
    ONE_SEED,
    OTHER_RETURN,
    SEEDS,
    UNEQUAL_TRAINING,
    Estimate,
    Scores,
)

_FAR = 3.0  # times the range of the other runs
_FEWEST_OTHERS = 3
_MAX_TITLE = 60
_MOST_NAMES = 3
_MOST_REMARKS = 2
_DIGITS = 4


@dataclass(frozen=True)
class Verdict:
    """Which configuration is the best.

    Attributes:
        lead: The claim, such as ``Clearly the best:``.
        title: Its hyperparameters.
        rest: The end of the sentence, and why that is not clear.
        why: The numbers, possible causes of a wrong verdict, and how often it is wrong: a line each.
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

        >>> Verdict("Best so far:", "lr 0.01", ". One run each is not enough to tell.", [], False).sentence
        'Best so far: lr 0.01. One run each is not enough to tell.'
        """
        return f"{self.lead} {self.title}{self.rest}"


def verdict(ranking: Sequence[Judged], label: str, *, sign: int = 1, condition: str | None = None) -> Verdict:
    """Return the verdict on judged configurations.

    Args:
        ranking: The configurations, the best first.
        label: The score in words.
        sign: -1 if the lowest score is the best.
        condition: The condition of an evaluation by which they are judged, or None if there is one alone.

    >>> verdict([], "mean return").sentence
    'No score: nothing to compare.'
    """
    scored = [entry for entry in ranking if entry.n and not entry.configuration.is_unknown]
    names = titles([masked(entry.configuration) for entry in ranking], _MAX_TITLE)
    remarks = [*failed_ahead(ranking, names, label), *_unknown(ranking)]
    if len(scored) < 2:
        return Verdict("One configuration:" if scored else "No score:", "nothing to compare", ".", remarks[:1], False)
    judged = [entry for entry in scored if not entry.set_apart]
    if len(judged) == 1 and all(entry.set_apart == OTHER_RETURN for entry in scored[1:]):
        rest = f" is {told_of(scored[0].configuration.return_from)}, and that of others {_other_returns(scored)}."
        return Verdict(f"Not comparable: the {label} of", names[0], rest, remarks[:1], False)
    close = [place for place, entry in enumerate(judged, 1) if entry.is_not_clearly_worse]
    is_clear = len(judged) > 1 and not close
    going_on = _going_on(ranking)
    lead, end = _claim(scored, judged, close, condition, is_clear=is_clear, is_final=not going_on)
    why = _why(judged, names, label, sign, [*remarks, *going_on])
    return Verdict(lead, names[0], end, why, is_clear)


def _claim(
    scored: Sequence[Judged],
    judged: Sequence[Judged],
    close: Sequence[int],
    condition: str | None,
    *,
    is_clear: bool,
    is_final: bool,
) -> tuple[str, str]:
    """Return the words before the title of the best one, and after it."""
    noun, on_seeds = _of_policies(judged, is_clear=is_clear)
    others, told = _set_apart(scored, len(judged), is_clear=is_clear)
    claim = wording.claim(is_clear=is_clear, is_final=is_final, noun=others or noun)
    doubts = [*_doubts(judged, close), *(_one_run_each(judged) if noun else ())]
    end = [f"{on_seeds}{wording.under(condition)}.", *doubts, *told]
    return f"{claim}:{'' if is_clear or not noun else ' the policy of'}", " ".join(end)


def _of_policies(judged: Sequence[Judged], *, is_clear: bool) -> tuple[str, str]:
    """Return the word for configurations of one run each, and what follows the best one's title; of others nothing."""
    leads = [lead for entry in judged if (lead := entry.ahead) and lead.over == SEEDS]
    if not leads:
        return "", ""
    number = next(run.number for run in judged[0].runs.values() if run.counts)
    is_named = number is None or judged[0].configuration.only is not None
    which = f" (trial {number})" if is_clear and not is_named else ""
    seeds = max(max(lead.seeds, lead.all_seeds) for lead in leads)
    return "policy", f"{which}, on {counted(seeds, 'evaluation seed')}"


def _doubts(judged: Sequence[Judged], close: Sequence[int]) -> Iterator[str]:
    """Yield why the best one is not clearly so, and how many different episodes there are, if fewer than seeds."""
    leads = [lead for entry in judged if (lead := entry.ahead) and lead.remark == COPIES]
    copied = wording.copied(leads[0].all_seeds, leads[0].seeds or 1) if leads else ""
    reason, count = _why_unclear(judged, close)
    if close and not (copied and reason == ONE_SEED):
        yield wording.doubt(reason, count)
    if copied:
        yield f"{copied}."


def _set_apart(scored: Sequence[Judged], judged: int, *, is_clear: bool) -> tuple[str, list[str]]:
    """Return which the best one is clearly the best of, if some are set apart, and sentences on these."""
    early = [entry for entry in scored if entry.set_apart == UNEQUAL_TRAINING]
    others = sum(entry.set_apart == OTHER_RETURN for entry in scored)
    alone = len(scored) - judged - len(early) - others  # of one run
    told = (
        [f"{others} cannot be compared: {'its' if others == 1 else 'their'} return is {_other_returns(scored)}."]
        if others
        else []
    )
    told += [_stopped(early, is_alone=judged + alone == 1)] if early else []
    if alone:
        told.append(
            f"{alone} cannot{'' if is_clear else ' be judged'}: one run." if judged > 1 else wording.doubt(ONE_RUN)
        )
    if not is_clear or not told:
        return "", told
    return f"of the {judged} that " + (
        "can be judged" if alone or others else f"trained to step {scored[0].step:,.0f}"
    ), told


def _stopped(early: Sequence[Judged], *, is_alone: bool) -> str:
    """Return how many have not trained as long as the best one, and whether they led there, in a sentence."""
    led, going_on = sum(entry.led for entry in early), sum(entry.going_on > 0 for entry in early)
    stopped = wording.behind_in_training(len(early) - going_on, going_on, alone=is_alone)
    there = "it led there" if len(early) == 1 else f"{led} of them led there"
    return f"{stopped}; {there}." if led else f"{stopped}."


def _other_returns(scored: Sequence[Judged]) -> str:
    """Return where the returns come from that are not compared with the best one's."""
    places = [entry.configuration.return_from for entry in scored if entry.set_apart == OTHER_RETURN]
    return " or ".join(map(told_of, dict.fromkeys(places)))


def failed_ahead(ranking: Sequence[Judged], names: Sequence[str], label: str) -> list[str]:
    """Return which configurations, by their names, had failed runs that led, in sentences."""
    told = []
    for name, entry in zip(names, ranking, strict=True):
        if led := [short(score) for score in entry.failed_ahead]:
            last = f"{'its' if len(led) == 1 else 'their'} last {label} was {', '.join(led)}"
            told.append(f"{counted(len(led), 'run')} of {name} failed while ahead: {last}.")
    return told


def _unknown(ranking: Sequence[Judged]) -> list[str]:
    """Return how many runs may be of any configuration, in a sentence; none if all are known."""
    count = sum(entry.configuration.is_unknown for entry in ranking)
    return [f"{counted(count, 'run')} cannot be judged: the params.json is damaged."] if count else []


def _why(scored: Sequence[Judged], names: Sequence[str], label: str, sign: int, remarks: Sequence[str]) -> list[str]:
    """Return the numbers behind a verdict, what may make it wrong, and how often it is, in a line each."""
    mean, (_, on_seeds) = scored[0].mean, _of_policies(scored, is_clear=False)
    sample = on_seeds or f" over {counted(scored[0].n, 'run')}"
    own = f"Its {label} is {wording.with_interval(mean.value, mean.low, mean.high, _DIGITS)}{sample}."
    numbers = [own, *(_second(scored[1], f"#2, {names[1]},") if len(scored) > 1 else ())]
    remarks = [*remarks, *_best_run(scored, names, sign), *_of_two_kinds(scored)][:_MOST_REMARKS]
    return [" ".join(numbers), *filter(None, [" ".join(remarks)]), wording.ERRS]


def _going_on(ranking: Sequence[Judged]) -> list[str]:
    """Return how many runs have not ended, in a sentence, but for one run that is set apart; none if all have."""
    count = sum(entry.going_on for entry in ranking if entry.set_apart != ONE_RUN)
    has = f"{counted(count, 'run')} {'has' if count == 1 else 'have'}"
    return [f"{has} not ended and may change it."] if count else []


def _one_run_each(scored: Sequence[Judged]) -> list[str]:
    """Return that one run each tells nothing about the hyperparameters, in a sentence; none if none differs."""
    names = [name.rpartition("/")[2] for name in scored[0].configuration.params][:_MOST_NAMES]
    return [f"One run per configuration is not enough to tell about {' or '.join(names)}."] if names else []


def _second(second: Judged, name: str) -> Iterator[str]:
    """Yield how far the best one is ahead of the second, or, on the seeds that both have, the second of it."""
    lead = second.ahead
    if lead is None:
        return
    if lead.value == 0:
        yield f"{name} has the same score."
        return
    ends = (lead.low, lead.high) if math.isfinite(lead.high) else (math.nan, math.nan)
    text = wording.ahead(Estimate(lead.value, *ends), name, _DIGITS, is_clear=lead.is_clear)
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


def _of_two_kinds(scored: Sequence[Judged]) -> Iterator[str]:
    for place, entry in enumerate(scored, 1):
        may_win = place == 1 or entry.is_not_clearly_worse
        if may_win and entry.scores.shape[1] == 1 and (far := far_runs(entry.scores)):
            runs = f"{far} of the {entry.n} runs of #{place} {'lies' if far == 1 else 'lie'} far from the others"
            yield f"{runs}: the mean describes neither kind, and its interval may miss."


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
