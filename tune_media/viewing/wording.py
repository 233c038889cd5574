"""The words of verdicts, for the page and all commands: who is ahead, by how much, and whether that is sure.

A difference has one sign everywhere: above zero, the best one is ahead, or the one that is spoken of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tune_media.viewing.statistics import Estimate

SURE, SURELY = "sure", "surely"
AHEAD_BY = "ahead by"
"""The head of a column that says of each one how far the best is ahead of it."""
ERRS = f"«{SURELY.capitalize()}» is wrong in at most 5 % of sweeps whose configurations are all equal. Intervals: 95 %."
NOT_SURELY_WORSE = f"not {SURELY} worse"
CLOSE, EQUAL, FEW_EQUAL, ONE_RUN, ONE_RUN_EACH = "close", "equal", "few_equal", "one_run", "one_run_each"
_DOUBTS = {  # of one other, and of several
    CLOSE: ("Another one may be as good.", "{} others may be as good."),
    EQUAL: ("Another one has the same score.", "{} others have the same score."),
    FEW_EQUAL: ("All its runs are equal.",) * 2,
    ONE_RUN: ("One run cannot tell.",) * 2,
    ONE_RUN_EACH: ("One run each cannot tell.",) * 2,
}


def with_interval(value: float, low: float, high: float, digits: int = 5) -> str:
    """Return a number with its interval, if it has one; nothing for NaN.

    >>> with_interval(0.5, 0.123456, 0.9), with_interval(0.5, math.nan, math.nan), with_interval(math.nan, 0.0, 1.0)
    ('0.5 [0.12346, 0.9]', '0.5', '')
    >>> with_interval(0.5, -math.inf, math.inf)
    '0.5 (no interval yet)'
    """
    if math.isnan(value):
        return ""
    shown, *ends = (f"{number + 0.0:.{digits}g}" for number in (value, low, high))  # no -0
    if math.isinf(low) and math.isinf(high):
        return f"{shown} (no interval yet)"
    return shown if math.isnan(low) else f"{shown} [{', '.join(ends)}]"


def ahead(lead: Estimate, other: str, digits: int = 5) -> str:
    """Return how far the one that is spoken of is ahead of another, or the other of it.

    >>> ahead(Estimate(2.0, -1.0, 5.0), "the base"), ahead(Estimate(-2.0, -5.0, 1.0), "the base")
    ('it is ahead of the base by 2 [-1, 5]', 'the base is ahead of it by 2 [-1, 5]')
    """
    if lead.value < 0:
        return f"{other} is ahead of it by {with_interval(-lead.value, -lead.high, -lead.low, digits)}"
    return f"it is ahead of {other} by {with_interval(lead.value, lead.low, lead.high, digits)}"


def claim(*, is_sure: bool, is_final: bool) -> str:
    """Return what is claimed of the best one.

    >>> claim(is_sure=True, is_final=True), claim(is_sure=True, is_final=False), claim(is_sure=False, is_final=True)
    ('Surely the best', 'So far surely the best', 'Best so far')
    """
    return "Best so far" if not is_sure else f"{SURELY.capitalize() if is_final else f'So far {SURELY}'} the best"


def doubt(why: str, others: int = 1) -> str:
    """Return why the best one is not surely the best: because of how many others, if they are why.

    >>> doubt(CLOSE, 3), doubt(ONE_RUN)
    ('3 others may be as good.', 'One run cannot tell.')
    """
    one, several = _DOUBTS[why]
    return one if others == 1 else several.format(others)


def standing(*, is_best: bool, is_close: bool) -> str:
    """Return the cell of a table that says whether one is the best, or may be."""
    return "best" if is_best else NOT_SURELY_WORSE if is_close else ""


def places_of_close(places: Sequence[int]) -> str:
    """Return which places of a ranking may be as good as the first.

    >>> places_of_close([2, 3])
    'Not surely worse are #2, #3.'
    """
    return f"{NOT_SURELY_WORSE.capitalize()} are #{', #'.join(map(str, places))}."


def others_worse(close: int, others: int) -> str:
    """Return how many of the others are worse than the best one, ``close`` of which may be as good.

    >>> others_worse(0, 7), others_worse(1, 2)
    ('all of the 7 others are surely worse', '1 of the 2 others is not surely worse')
    """
    if others == 1:
        return f"the other one is {'not ' if close else ''}{SURELY} worse"
    if not close:
        return f"all of the {others} others are {SURELY} worse"
    return f"{close} of the {others} others {'is' if close == 1 else 'are'} {NOT_SURELY_WORSE}"


def others_succeed_less(fewer: int, others: int) -> str:
    """Return how many of the others succeed less often than the best one.

    >>> others_succeed_less(1, 2), others_succeed_less(0, 1)
    ('1 of the 2 others surely succeeds less often', 'the other one does not surely succeed less often')
    """
    if others == 1:
        return f"the other one {f'{SURELY} succeeds' if fewer else f'does not {SURELY} succeed'} less often"
    return f"{fewer} of the {others} others {SURELY} succeed{'s' if fewer == 1 else ''} less often"


def decided(answer: bool | None, yes: str, no: str) -> str:
    """Return the answer to a question as the beginning of a sentence; None: it is not sure.

    >>> decided(True, "it holds", "it does not"), decided(None, "it holds", "it does not")
    ('It holds', 'It is not sure whether it holds')
    """
    text = f"it is not {SURE} whether {yes}" if answer is None else yes if answer else no
    return text[:1].upper() + text[1:]
