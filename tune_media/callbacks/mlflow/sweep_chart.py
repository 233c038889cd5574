"""The chart of a sweep: the best return of each trial so far over its steps, as SVG without a script."""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _EDGE = 800, 260, 70, 24, 8  # pixels

Points = Sequence[tuple[float, float]]


def color_of(number: int) -> str:
    """Return the colour of a trial, far from those of its neighbours.

    Example:
        >>> color_of(0)
        'hsl(210,65%,45%)'
    """
    return f"hsl({round(210 + 137.5 * number) % 360},65%,45%)"


def sweep_chart(curves: Mapping[str, Points]) -> str:
    """Draw one line a trial; nothing if no trial has a point.

    Args:
        curves: For each trial, in the order of the colours, its steps and the best return so far.

    Example:
        >>> sweep_chart({"trial": [(0.0, 1.0), (10.0, 3.0)]}).count("<polyline")
        1
    """
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return ""
    last = max(step for step, _ in points)
    left, right = min(step for step, _ in points), last
    low, high = min(value for _, value in points), max(value for _, value in points)

    def x(step: float) -> float:
        return _LEFT + (step - left) / ((right - left) or 1) * (_WIDTH - _LEFT - _EDGE)

    def y(value: float) -> float:
        return _EDGE + (high - value) / ((high - low) or 1) * (_HEIGHT - _BOTTOM - _EDGE)

    lines = []
    for number, (name, curve) in enumerate(curves.items()):
        if not curve:
            continue
        drawn = _steps([*sorted(curve), (last, sorted(curve)[-1][1])])
        places = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in drawn)
        title = f"<title>{html.escape(name)}: {sorted(curve)[-1][1]:.6g}</title>"
        lines.append(
            f"<polyline points='{places}' fill='none' stroke='{color_of(number)}' stroke-width='2'>{title}</polyline>"
        )
    texts = [
        _text(_LEFT - 6, _EDGE + 8, "end", f"{high:.6g}"),
        _text(_LEFT - 6, _HEIGHT - _BOTTOM, "end", f"{low:.6g}"),
        _text(_LEFT, _HEIGHT - 6, "start", f"step {left:.6g}"),
        _text(_WIDTH - _EDGE, _HEIGHT - 6, "end", f"{right:.6g}"),
    ]
    frame = f"<path d='M{_LEFT} {_EDGE}V{_HEIGHT - _BOTTOM}H{_WIDTH - _EDGE}' fill='none' stroke='#999'/>"
    label = "The best return of each trial so far, over its steps"
    return (
        f"<figure><figcaption>{label}</figcaption><svg role='img' aria-label='{label}' "
        f"viewBox='0 0 {_WIDTH} {_HEIGHT}' style='max-width:{_WIDTH}px;width:100%'>"
        f"{frame}{''.join(lines)}{''.join(texts)}</svg></figure>"
    )


def _steps(curve: Points) -> list[tuple[float, float]]:
    """Return the corners of a line that keeps each value until the next one comes."""
    corners = [curve[0]]
    for (_, before), (step, value) in itertools.pairwise(curve):
        corners += [(step, before), (step, value)]
    return corners


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f"<text x='{x}' y='{y}' font-size='12' fill='#555' text-anchor='{anchor}'>{html.escape(text)}</text>"
