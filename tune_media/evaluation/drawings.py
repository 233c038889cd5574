"""The drawings of a gate's page, as HTML: a mean with its interval, and the values of the seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

_BESIDE, _ABOVE = 0.32, 0.12  # of a drawing's range: the room on each side, for labels
_LABEL = 10.0  # per cent of the height


def interval(value: float, low: float, high: float, lines: Mapping[str, float]) -> str:
    """Return a mean with its interval and lines by their names: first the one left of which it is too low.

    An end of the interval that is infinite is not known yet.

    >>> 'aria-label="1, interval not yet to 2, margin -0.5, equal 0"' in interval(
    ...     1.0, -math.inf, 2.0, {"margin": -0.5, "equal": 0.0}
    ... )
    True
    """
    left_of = _scale([end for end in (value, low, high, *lines.values()) if math.isfinite(end)], _BESIDE)
    left, right = (left_of(low) if math.isfinite(low) else 0.0), (left_of(high) if math.isfinite(high) else 100.0)
    ends = [short(end) if math.isfinite(end) else "not yet" for end in (low, high)]
    is_open = [" open" if math.isinf(end) else "" for end in (low, high)]
    styles = ["left:0" if is_open[0] else f"right:{100 - left:.2f}%"]
    styles += ["right:0" if is_open[1] else f"left:{right:.2f}%"]
    told = ", ".join(f"{name} {short(line)}" for name, line in lines.items())
    least, *others = lines
    return "".join(
        (
            f'<div class="gain" role="img" aria-label="{short(value)}, interval {ends[0]} to {ends[1]}, {told}">',
            f'<i class="too-low" style="width:{left_of(lines[least]):.2f}%"></i>',
            f'<i class="line least" style="left:{left_of(lines[least]):.2f}%"></i>',
            f'<span style="right:{100 - left_of(lines[least]):.2f}%">{least}<br>{short(lines[least])}</span>',
            *(f'<i class="line" style="left:{left_of(lines[name]):.2f}%"></i>' for name in others),
            *(
                f'<span style="left:{left_of(lines[name]):.2f}%">{name}<br>{short(lines[name])}</span>'
                for name in others
            ),
            f'<i class="range" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>',
            f'<i class="mean" style="left:{left_of(value):.2f}%"></i>',
            *(f'<span class="end{is_open[n]}" style="{styles[n]}">{ends[n]}</span>' for n in (0, 1)),
            "</div>",
        )
    )


def dot_plot(values: Mapping[int, float], lines: Mapping[str, float], won: float, told: str) -> str:
    """Return a dot for the value of each seed, in their order.

    Args:
        values: The values by seed.
        lines: Lines by their names: first the one below which a seed is lost.
        won: The value above which a seed is won.
        told: What the plot shows.
    """
    above = _scale([*values.values(), *lines.values()], _ABOVE)
    most, least = max(values.values()), min(values.values())
    ends = [most, least] if above(most) - above(least) > _LABEL else [most]
    lost, *_ = lines.values()
    dots = []
    for number, (seed, value) in enumerate(values.items()):
        kind = "lost" if value < lost else "won" if value > won else "near"
        start = f"M{100 * (number + 0.5) / len(values):.3f} {100 - above(value):.2f}h0"
        dots.append(f'<path class="{kind}" d="{start}"><title>seed {seed}: {short(value)}</title></path>')
    drawn, names = [], []
    for name, line in lines.items():
        place, is_least = 100 - above(line), line == lost
        drawn.append(
            f'<line class="{"least" if is_least else "equal"}" x1="0" x2="100" y1="{place:.2f}" y2="{place:.2f}"/>'
        )
        style = f"top:calc({place:.2f}% - 3px)" if is_least else f"bottom:calc({100 - place:.2f}% - 3px)"
        names.append(f'<span class="at" style="{style}">{name}</span>')
    seeds = list(values)
    return "".join(
        (
            f'<div class="dots-of-seeds" role="img" aria-label="{told}">',
            *(f'<span style="top:calc({100 - above(end):.2f}% - 8px)">{short(end)}</span>' for end in ends),
            '<svg viewBox="0 0 100 100" preserveAspectRatio="none">',
            *drawn,
            *dots,
            "</svg>",
            *names,
            f'</div><p class="first-and-last"><span>seed {seeds[0]}</span><span>seed {seeds[-1]}</span></p>',
        )
    )


def short(value: float) -> str:
    """Return a number as the gate's sentence has it.

    >>> short(-1.639123)
    '-1.6391'
    """
    return f"{value:.5g}"


def _scale(values: Sequence[float], room: float) -> Callable[[float], float]:
    """Return a function from values to per cent of their range, with room on both sides."""
    low, high = min(values), max(values)
    size = (high - low) or 1.0
    return lambda value: 100 * ((value - low) / size + room) / (1 + 2 * room)
