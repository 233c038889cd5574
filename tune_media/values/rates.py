"""The interval of a rate: how often something happened, of how many times."""

from __future__ import annotations

import math

SUCCESS_RATE = "success_rate"
"""The metric of a round: the share of its episodes that succeeded."""
_Z = 1.959963984540054  # how many standard errors wide half a 95 % interval is


def wilson(count: float, total: float, errors: float = _Z) -> tuple[float, float]:
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


def is_rate(metric: str) -> bool:
    """Return whether a metric is a success rate.

    >>> is_rate("evaluation/env_runners/custom_metrics/success_rate"), is_rate("success_rate_low")
    (True, False)
    """
    return metric.rpartition("/")[2] == SUCCESS_RATE


def total_of(rate: float, low: float, high: float) -> int:
    """Return of how many a rate is, by the ends of its 95 % interval; 0 if these are NaN.

    >>> total_of(0.9, *wilson(36, 40)), total_of(1.0, *wilson(7, 7))
    (40, 7)
    """
    end = low if rate - low > high - rate else high
    return 0 if math.isnan(end) or end == rate else round(_Z**2 * end * (1 - end) / (rate - end) ** 2)
