"""The interval of a rate: how often something happened, of how many times."""

from __future__ import annotations

import math

_Z = 1.959963984540054  # how many standard errors wide half a 95 % interval is


def wilson(count: int, total: int, errors: float = _Z) -> tuple[float, float]:
    """Return the ends of Wilson's interval of a rate; NaN of nothing.

    Args:
        errors: Half its width in standard errors, as of a normal mean. Default: of the 95 % interval.
    """
    if not total:
        return math.nan, math.nan
    rate, square = count / total, errors**2 / total
    centre = (rate + square / 2) / (1 + square)
    half = errors / (1 + square) * math.sqrt(rate * (1 - rate) / total + square / (4 * total))
    return (0.0 if count == 0 else centre - half), (1.0 if count == total else centre + half)
