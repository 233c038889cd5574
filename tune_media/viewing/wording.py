"""The words of verdicts, for the page and all commands: who is ahead, by how much, and whether that is clear.

A difference has one sign everywhere: above zero, the best one is ahead, or the one that is spoken of.
"""

from __future__ import annotations

import math
import time

from tune_media.values.number import counted
from tune_media.viewing.inference import (
    CLOSE,
    EQUAL,
    FEW_COMMON_SEEDS,
    FEW_EQUAL,
    NOT_COMPARABLE,
    ONE_RUN,
    ONE_SEED,
    OTHER_RETURN,
    UNEQUAL_TRAINING,
    Estimate,
    Lead,
)

CLEAR, CLEARLY = "clear", "clearly"
AHEAD_BY = "ahead by"
"""The head of a column that says of each one how far the best is ahead of it."""
ERRS = (
    f"«{CLEARLY.capitalize()}» is wrong in at most 5 % of sweeps whose configurations are all equal. Intervals: 95 %."
)
NOT_CLEARLY_WORSE = f"not {CLEARLY} worse"
ONE_RUN_EACH = "one_run_each"
_ONE_EPISODE = "one episode: the env ignores its seed"
_FEW_SEEDS = 8  # after which it is said that all gave one episode
_MOSTLY = 0.9  # so many of the episodes are different: nothing is said of copies
_DOUBTS = {  # of one other, and of several
    CLOSE: ("Another one may be as good.", "{} others may be as good."),
    EQUAL: ("Another one has the same score.", "{} others have the same score."),
    FEW_EQUAL: ("Few runs or seeds, all with the same lead.",) * 2,
    FEW_COMMON_SEEDS: (
        "Another one has fewer than two evaluation seeds in common with it.",
        "{} others have fewer than two evaluation seeds in common with it.",
    ),
    ONE_RUN: ("One run is not enough to tell.",) * 2,
    ONE_RUN_EACH: ("One run each is not enough to tell.",) * 2,
    ONE_SEED: ("One evaluation seed is not enough to tell.",) * 2,
    NOT_COMPARABLE: ("Returns of best clips are not enough to tell.",) * 2,
}

_ROW_DOUBTS = {
    CLOSE: "chance may explain it",
    EQUAL: "the same score",
    FEW_EQUAL: "few runs or seeds, all with the same lead",
    FEW_COMMON_SEEDS: "fewer than two evaluation seeds in common",
    ONE_RUN: "one run",
    ONE_SEED: "one evaluation seed",
    NOT_COMPARABLE: "best clips",
    OTHER_RETURN: "another return",
    "unknown_config": "params.json is damaged",
}


def with_interval(value: float, low: float, high: float, digits: int = 5, *, is_clear: bool = False) -> str:
    """Return a number with its interval, if it has one; nothing for NaN. A clear lead that begins at 0 is more than 0.

    >>> with_interval(0.5, 0.123456, 0.9), with_interval(0.5, math.nan, math.nan), with_interval(math.nan, 0.0, 1.0)
    ('0.5 [0.12346, 0.9]', '0.5', '')
    >>> with_interval(0.5, -math.inf, math.inf), with_interval(0.5, 0.0, 0.9, is_clear=True)
    ('0.5 (no interval yet)', '0.5 [more than 0, 0.9]')
    """
    if math.isnan(value):
        return ""
    shown, *ends = (f"{number + 0.0:.{digits}g}" for number in (value, low, high))  # no -0
    if math.isinf(low) and math.isinf(high):
        return f"{shown} (no interval yet)"
    ends[0] = "more than 0" if is_clear and low == 0 else ends[0]
    return shown if math.isnan(low) else f"{shown} [{', '.join(ends)}]"


def ahead(lead: Estimate, other: str, digits: int = 5, *, is_clear: bool = False) -> str:
    """Return how far the one that is spoken of is ahead of another, or the other of it.

    >>> ahead(Estimate(2.0, -1.0, 5.0), "the base"), ahead(Estimate(-2.0, -5.0, 1.0), "the base")
    ('it is ahead of the base by 2 [-1, 5]', 'the base is ahead of it by 2 [-1, 5]')
    """
    if lead.value < 0:
        return f"{other} is ahead of it by {with_interval(-lead.value, -lead.high, -lead.low, digits)}"
    return f"it is ahead of {other} by {with_interval(lead.value, lead.low, lead.high, digits, is_clear=is_clear)}"


def claim(*, is_clear: bool, is_final: bool, noun: str = "") -> str:
    """Return the claim about the best one, which is a ``noun``.

    >>> claim(is_clear=True, is_final=True), claim(is_clear=True, is_final=False), claim(is_clear=False, is_final=True)
    ('Clearly the best', 'So far clearly the best', 'Best so far')
    """
    return (
        "Best so far"
        if not is_clear
        else f"{CLEARLY.capitalize() if is_final else f'So far {CLEARLY}'} the best{noun and f' {noun}'}"
    )


def under(condition: str | None) -> str:
    """Return the condition of an evaluation as the end of a title; None: there are not several.

    >>> under("wind=5"), under(""), under(None)
    (', with wind=5', ', in the env of the training', '')
    """
    return "" if condition is None else f", with {condition}" if condition else ", in the env of the training"


def doubt(why: str, others: int = 1) -> str:
    """Return why the best one is not clearly the best: because of how many others, if they are why.

    >>> doubt(CLOSE, 3), doubt(ONE_RUN)
    ('3 others may be as good.', 'One run is not enough to tell.')
    """
    one, several = _DOUBTS[why]
    return one if others == 1 else several.format(others)


def standing(*, is_best: bool, is_close: bool) -> str:
    """Return the cell of a table that says whether one is the best, or may be."""
    return "best" if is_best else NOT_CLEARLY_WORSE if is_close else ""


def others_worse(close: int, others: int) -> str:
    """Return how many of the others are worse than the best one, ``close`` of which may be as good.

    >>> others_worse(0, 7), others_worse(1, 2)
    ('all of the 7 others are clearly worse', '1 of the 2 others is not clearly worse')
    """
    if others == 1:
        return f"the other one is {'not ' if close else ''}{CLEARLY} worse"
    if not close:
        return f"all of the {others} others are {CLEARLY} worse"
    return f"{close} of the {others} others {'is' if close == 1 else 'are'} {NOT_CLEARLY_WORSE}"


def others_succeed_less(fewer: int, others: int) -> str:
    """Return how many of the others succeed less often than the best one.

    >>> others_succeed_less(1, 2), others_succeed_less(0, 1)
    ('1 of the 2 others clearly succeeds less often', 'the other one does not clearly succeed less often')
    """
    if others == 1:
        return f"the other one {f'{CLEARLY} succeeds' if fewer else f'does not {CLEARLY} succeed'} less often"
    return f"{fewer} of the {others} others {CLEARLY} succeed{'s' if fewer == 1 else ''} less often"


def decided(answer: bool | None, yes: str, no: str) -> str:
    """Return the answer to a question as the beginning of a sentence; None: it is not clear.

    >>> decided(True, "it holds", "it does not"), decided(None, "it holds", "it does not")
    ('It holds', 'It is not clear whether it holds')
    """
    text = f"it is not {CLEAR} whether {yes}" if answer is None else yes if answer else no
    return text[:1].upper() + text[1:]


def over_what(lead: Lead) -> str:
    """Return the sample that a lead is over, as the end of a sentence; empty if it has no interval."""
    seeds = seeds_of(lead)
    return {"both": f", over runs and {seeds}", "seeds": f", on {seeds}", "runs": ", over runs"}[lead.over]


def seeds_of(lead: Lead) -> str:
    """Return the evaluation seeds that a lead is over, copies once."""
    return counted(lead.seeds, "different episode" if lead.seeds < lead.all_seeds else "evaluation seed")


def copied(seeds: int, episodes: int) -> str:
    """Return how many different episodes were played on some seeds, if clearly fewer.

    >>> copied(12, 1), copied(120, 3), copied(12, 11)
    ('12 seeds, one episode: the env ignores its seed', '120 seeds, 3 different episodes', '')
    """
    if episodes >= _MOSTLY * seeds:
        return ""
    return f"{seeds} seeds, " + (f"{episodes} different episodes" if episodes > 1 else _ONE_EPISODE)


def copied_at_first(seeds: int, episodes: int) -> str:
    """Return the warning that the first seeds gave one episode, if enough of them did.

    >>> copied_at_first(8, 1), copied_at_first(7, 1), copied_at_first(8, 2)
    ('8 seeds, one episode: the env ignores its seed', '', '')
    """
    return copied(seeds, 1) if seeds >= _FEW_SEEDS and episodes == 1 else ""


def chosen(many: int) -> str:
    """Return what the mean of the best of many is worth.

    >>> chosen(20)
    'The best of 20 was chosen by these seeds: its mean is too high.'
    """
    return f"The best of {many} was chosen by these seeds: its mean is too high."


def replaced(episodes: int) -> str:
    """Return that stored episodes were not those of what is there now.

    >>> replaced(1)
    '1 older episode was replaced.'
    """
    return f"{counted(episodes, 'older episode')} {'was' if episodes == 1 else 'were'} replaced."


def reused(count: int, episodes: int, times: tuple[float, float]) -> str:
    """Return how many episodes are older than this call, whose first and last ended then (Unix time in seconds).

    >>> reused(8, 16, (0.0, 0.0)).endswith("; --anew plays all again.")
    True
    """
    dates = [time.strftime("%Y-%m-%d", time.localtime(end)) for end in times]
    since = " to ".join(dict.fromkeys(dates))
    return f"{count} of {counted(episodes, 'episode')} are from {since}; --anew plays all again."


def beside_best(lead: Lead) -> str:
    """Return what the best one's lead over another means, as a row of the picture says it.

    >>> beside_best(Lead(2.0, -1.0, 5.0, 1.0, False, CLOSE, "runs", "", 0))
    'not clear: chance may explain it'
    """
    return f"{CLEARLY} worse" if lead.is_clear else f"not {CLEAR}: {_ROW_DOUBTS.get(lead.why or '', lead.why)}"


def behind_in_training(stopped: int, going_on: int, *, alone: bool) -> str:
    """Return how many have not trained as long as the best one, of which some go on; alone: all others.

    >>> behind_in_training(2, 1, alone=False), behind_in_training(1, 0, alone=True)
    ('2 stopped earlier, 1 is not as far yet', 'No other has trained as long')
    """
    if alone:
        return "No other has trained as long"
    yet = f"{going_on} {'is' if going_on == 1 else 'are'} not as far yet" if going_on else ""
    return ", ".join(filter(None, [f"{stopped} stopped earlier" if stopped else "", yet]))


def apart(why: str, step: str, *, led: bool = False, goes_on: bool = False) -> str:
    """Return why a configuration that has a score is not judged, as a row of the picture says it.

    >>> apart("unequal_training", "step 100", led=True), apart("unequal_training", "step 100", goes_on=True)
    ('set apart: stopped at step 100, where it led', 'set apart: so far at step 100')
    >>> apart(ONE_RUN, "step 100")
    'set apart: one run'
    """
    if why == UNEQUAL_TRAINING:
        place = f"{'so far' if goes_on else 'stopped'} at {step}" if step else ""
        place = place or ("not as far yet" if goes_on else "stopped earlier")
        return f"set apart: {place}{', where it led' if led else ''}"
    return f"set apart: {_ROW_DOUBTS.get(why, why)}"


def without_score(failed: int, error: str) -> str:
    """Return why a configuration has no score, if ``failed`` of its runs have failed, one of them with ``error``.

    >>> without_score(0, ""), without_score(1, "ValueError: x"), without_score(3, "")
    ('no score', 'failed: ValueError: x', '3 runs failed')
    """
    return f"{f'{failed} runs ' if failed > 1 else ''}failed{error and f': {error}'}" if failed else "no score"
