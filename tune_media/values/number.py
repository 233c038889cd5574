"""Numbers out of values of any kind, such as those of a JSON file."""

from __future__ import annotations

import math
from typing import Any


def as_number(value: Any) -> float:
    """Return a value as a float; NaN if it is not a number.

    >>> as_number(3), as_number("3")
    (3.0, nan)
    """
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
    except (TypeError, ValueError, OverflowError):
        return 0


def counted(count: int, noun: str, several: str | None = None) -> str:
    """Return a number of things in words.

    Args:
        several: What several are called. None: with an s.

    >>> counted(1, "episode"), counted(1200, "episode"), counted(0, "medium", "media")
    ('1 episode', '1,200 episodes', '0 media')
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"
