"""Numbers out of values of any kind, such as those of a JSON file."""

from __future__ import annotations

import math
from typing import Any


def as_number(value: Any) -> float:
    """Return a value as a float; NaN if it is not a number."""
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        return math.nan


def whole_number(number: Any) -> int:
    """Return a count as a whole number; 0 if it is not a number.

    >>> whole_number(7.0), whole_number(None), whole_number(float("inf"))
    (7, 0, 0)
    """
    try:
        return int(number)
    except Exception:  # a user's class may raise anything
        return 0


def counted(count: int, noun: str, several: str | None = None) -> str:
    """Return a number of things in words; several are called ``several``, or ``noun`` with an s."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"
