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


def number_in(cell: Any) -> float | None:
    """Return the number that a cell of a table or a value of JSON is; None if it is none.

    >>> number_in("1e-4"), number_in(7), number_in("3_1"), number_in(True), number_in("x")
    (0.0001, 7.0, None, None, None)
    """
    if isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell):  # which Python takes as one number
        return None
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None


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
