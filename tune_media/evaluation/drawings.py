"""The drawings of a gate's page, as HTML: the interval of the gain, and the gain on each seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

_BESIDE, _ABOVE = 0.32, 0.12  # of a drawing's range: the room on each side, for labels
_LABEL = 10.0  # per cent of the height


def interval(gain: float, low: float, high: float, margin: float) -> str:
    """Return the gain with its interval, zero and the margin; an end that is infinite is not known yet.

    >>> "interval not yet to 2," in interval(1.0, -math.inf, 2.0, 0.5)
    True
    """
    at = _scale([end for end in (gain, low, high, 0.0, -margin) if math.isfinite(end)], _BESIDE)
    left, right = (at(low) if math.isfinite(low) else 0.0), (at(high) if math.isfinite(high) else 100.0)
    ends = [short(end) if math.isfinite(end) else "not yet" for end in (low, high)]
    is_open = [" open" if math.isinf(end) else "" for end in (low, high)]
    styles = ["left:0" if is_open[0] else f"right:{100 - left:.2f}%"]
    styles += ["right:0" if is_open[1] else f"left:{right:.2f}%"]
    return "".join(
        (
            '<div class="gain" role="img" aria-label="',
            f'A gain of {short(gain)}, interval {ends[0]} to {ends[1]}, margin {short(margin)}">',
            f'<i class="too-low" style="width:{at(-margin):.2f}%"></i>',
            f'<i class="line" style="left:{at(0.0):.2f}%"></i>',
            f'<i class="line margin" style="left:{at(-margin):.2f}%"></i>',
            f'<span style="right:{100 - at(-margin):.2f}%">margin<br>{short(-margin)}</span>',
            f'<span style="left:{at(0.0):.2f}%">equal<br>0</span>',
            f'<i class="range" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>',
            f'<i class="mean" style="left:{at(gain):.2f}%"></i>',
            *(f'<span class="end{is_open[n]}" style="{styles[n]}">{ends[n]}</span>' for n in (0, 1)),
            "</div>",
        )
    )


def dot_plot(gains: Mapping[int, float], margin: float, told: str) -> str:
    """Return a dot for the gain on each seed, in the order in which they were played; ``told`` says what it shows."""
    at = _scale([*gains.values(), 0.0, -margin], _ABOVE)
    most, least = max(gains.values()), min(gains.values())
    labels = [most, least] if at(most) - at(least) > _LABEL else [most]
    dots = []
    for number, (seed, gain) in enumerate(gains.items()):
        kind = "won" if gain > margin else "lost" if gain < -margin else "near"
        start = f"M{100 * (number + 0.5) / len(gains):.3f} {100 - at(gain):.2f}h0"
        dots.append(f'<path class="{kind}" d="{start}"><title>seed {seed}: {short(gain)}</title></path>')
    seeds = list(gains)
    lines = [
        f'<line class="{name}" x1="0" x2="100" y1="{100 - at(value):.2f}" y2="{100 - at(value):.2f}"/>'
        for name, value in (("zero", 0.0), ("margin", -margin))
    ]
    return "".join(
        (
            f'<div class="dots-of-seeds" role="img" aria-label="{told}">',
            *(f'<span style="top:calc({100 - at(end):.2f}% - 8px)">{short(end)}</span>' for end in labels),
            '<svg viewBox="0 0 100 100" preserveAspectRatio="none">',
            *lines,
            *dots,
            f'</svg><span class="at" style="bottom:calc({at(0.0):.2f}% - 3px)">equal</span>',
            f'<span class="at" style="top:calc({100 - at(-margin):.2f}% - 3px)">margin</span></div>',
            f'<p class="first-and-last"><span>seed {seeds[0]}</span><span>in the order they were played</span>',
            f"<span>seed {seeds[-1]}</span></p>",
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
