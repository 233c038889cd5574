"""A figure of the comparison, as papers have it: one row a configuration, its mean with the interval, its runs as dots.

The layout is a list of lines, dots and texts in points, which two writers draw: our own for SVG, and matplotlib, if it
is installed, for PNG and PDF.
"""

from __future__ import annotations

import html
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from tune_media.values.number import counted
from tune_media.values.secrets import without_secret
from tune_media.viewing.configurations import Configuration, Judged, short, titles

ENDINGS = (".svg", ".png", ".pdf")
_MOST_ROWS = 40
_MOST_CHARACTERS = 56  # of a title
_ROW, _TOP, _BOTTOM, _PLOT, _RIGHT = 24.0, 34.0, 44.0, 360.0, 250.0  # points
_CHARACTER = 5.9  # points that one takes, about
_SIZE = 11.0
_TICKS = 5
_NOTHING = 1e-300  # smaller numbers are zero: a computer divides them no further
_TEXT, _MUTED, _LINE, _MEAN, _BEST = "#1c2321", "#66716d", "#e1e5e3", "#44504c", "#2f7d6b"


class Line(NamedTuple):
    """A line from one point to another."""

    x: float
    y: float
    to_x: float
    to_y: float
    color: str
    width: float = 1.0


class Dot(NamedTuple):
    """A circle."""

    x: float
    y: float
    radius: float
    color: str
    opacity: float = 1.0


class Text(NamedTuple):
    """A text that begins, ends or has its middle at a point; ``y`` is its middle."""

    x: float
    y: float
    text: str
    color: str = _TEXT
    anchor: str = "start"
    is_bold: bool = False


@dataclass
class Figure:
    """What a figure shows, in points; the origin is at the upper left.

    Attributes:
        width: Its width.
        height: Its height.
        marks: Lines, dots and texts, in the order in which they are drawn.
    """

    width: float
    height: float
    marks: list[Line | Dot | Text] = field(default_factory=list)


def comparison_figure(found: Sequence[Judged], label: str) -> Figure:
    """Lay out configurations, in their order, the first one being the best.

    Args:
        found: The configurations.
        label: What the score is, in words.

    Raises:
        ValueError: None has a score.

    >>> comparison_figure([], "score")
    Traceback (most recent call last):
    ValueError: There is nothing to draw: no trial has a score.
    """
    names = titles([_without_secrets(one.configuration) for one in found])
    rows = [(_cut(name), one) for name, one in zip(names, found, strict=True) if one.n]
    if not rows:
        raise ValueError("There is nothing to draw: no trial has a score.")
    rows, left = rows[:_MOST_ROWS], len(rows) - _MOST_ROWS
    runs = [[float(run.mean()) for run in one.scores] for _, one in rows]
    ends = [end for _, one in rows for end in (one.mean.low, one.mean.high) if math.isfinite(end)]
    low, high = _axis(min(map(min, [*runs, ends or runs[0]])), max(map(max, [*runs, ends or runs[0]])))
    start = 20 + _CHARACTER * max(len(name) for name, _ in rows)
    bottom = _TOP + _ROW * len(rows)
    figure = Figure(start + _PLOT + _RIGHT, bottom + _BOTTOM + (16 if left > 0 else 0))

    def x(value: float) -> float:
        return start + _PLOT * (0.03 + 0.94 * (value - low) / (high - low))

    for tick, text in _ticks(low, high):
        figure.marks.append(Line(x(tick), _TOP - 4, x(tick), bottom, _LINE))
        figure.marks.append(Text(x(tick), bottom + 12, text, _MUTED, "middle"))
    figure.marks.append(Line(start, bottom, start + _PLOT, bottom, _MUTED))
    figure.marks.append(Text(start + _PLOT / 2, bottom + 30, f"{label}: runs, mean, 95 % interval", _TEXT, "middle"))
    for place, ((name, one), own) in enumerate(zip(rows, runs, strict=True)):
        y, color = _TOP + _ROW * (place + 0.5), _BEST if place == 0 else _MEAN
        figure.marks.append(Text(start - 10, y, name, _TEXT, "end", is_bold=place == 0))
        figure.marks += [Dot(x(run), y, 3.2, color, 0.3) for run in own]
        if math.isfinite(one.mean.low):
            figure.marks.append(Line(x(one.mean.low), y, x(one.mean.high), y, color, 2.2))
        figure.marks.append(Dot(x(one.mean.value), y, 4.4, color))
        figure.marks.append(Text(start + _PLOT + 12, y, _told(one, place), _MUTED))
    if left > 0:
        figure.marks.append(Text(start - 10, bottom + 46, f"{left} more are left out", _MUTED, "end"))
    return figure


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as ``.svg``, or with matplotlib as ``.png`` or ``.pdf``.

    Raises:
        ValueError: It is another ending.
        ImportError: It takes matplotlib, which is not installed.
        OSError: The file cannot be written.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"a figure is a {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} file, not {path.name!r}.")
    content = figure_content(figure, ending)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def figure_content(figure: Figure, ending: str) -> bytes:
    """Return a figure as a file with one of ``ENDINGS``.

    Raises:
        ImportError: It takes matplotlib, which is not installed.

    >>> figure_content(Figure(10, 10), ".svg")[:4]
    b'<svg'
    """
    return as_svg(figure).encode() if ending == ".svg" else _drawn_by_matplotlib(figure, ending)


def as_svg(figure: Figure) -> str:
    """Return a figure as SVG.

    >>> print(as_svg(Figure(10, 10, [Text(1, 2, "a<b")])).splitlines()[-2])
    <text x="1" y="2" fill="#1c2321" text-anchor="start" dominant-baseline="central">a&lt;b</text>
    """
    size = f'width="{figure.width:.6g}" height="{figure.height:.6g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {figure.width:.6g} {figure.height:.6g}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="{_SIZE:g}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for mark in figure.marks:
        if isinstance(mark, Line):
            ends = f'x1="{mark.x:.6g}" y1="{mark.y:.6g}" x2="{mark.to_x:.6g}" y2="{mark.to_y:.6g}"'
            lines.append(f'<line {ends} stroke="{mark.color}" stroke-width="{mark.width:g}"/>')
        elif isinstance(mark, Dot):
            place = f'cx="{mark.x:.6g}" cy="{mark.y:.6g}" r="{mark.radius:g}"'
            lines.append(f'<circle {place} fill="{mark.color}" fill-opacity="{mark.opacity:g}"/>')
        else:
            weight = ' font-weight="bold"' if mark.is_bold else ""
            place = f'x="{mark.x:.6g}" y="{mark.y:.6g}" fill="{mark.color}" text-anchor="{mark.anchor}"'
            lines.append(f'<text {place} dominant-baseline="central"{weight}>{html.escape(mark.text)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _drawn_by_matplotlib(figure: Figure, ending: str) -> bytes:
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Drawing
        from matplotlib.lines import Line2D
        from matplotlib.patches import Circle
    except ImportError as error:
        raise ImportError(
            f"a {ending} figure is drawn by matplotlib: pip install 'tune-media[figure]', or name a .svg file."
        ) from error
    anchors = {"start": "left", "end": "right", "middle": "center"}
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):  # text stays text
        drawing = Drawing(figsize=(figure.width / 72, figure.height / 72), dpi=200, facecolor="white")
        FigureCanvasAgg(drawing)
        axes = drawing.add_axes((0, 0, 1, 1), xlim=(0, figure.width), ylim=(figure.height, 0))
        axes.axis("off")
        for z, mark in enumerate(figure.marks):
            if isinstance(mark, Line):
                xs, ys = (mark.x, mark.to_x), (mark.y, mark.to_y)
                axes.add_line(Line2D(xs, ys, color=mark.color, linewidth=mark.width, solid_capstyle="butt", zorder=z))
            elif isinstance(mark, Dot):
                where = (mark.x, mark.y)
                axes.add_patch(Circle(where, mark.radius, color=mark.color, alpha=mark.opacity, linewidth=0, zorder=z))
            else:
                weight = "bold" if mark.is_bold else "normal"
                text = mark.text.replace("$", r"\$")  # no formula
                axes.text(
                    mark.x,
                    mark.y,
                    text,
                    color=mark.color,
                    ha=anchors[mark.anchor],
                    va="center",
                    fontsize=_SIZE - 1,
                    fontweight=weight,
                    zorder=z,
                )
        file = io.BytesIO()
        drawing.savefig(file, format=ending[1:])
    return file.getvalue()


def _told(one: Judged, place: int) -> str:
    """Return the numbers of a row as text."""
    runs = counted(one.n, "run")
    if not math.isfinite(one.mean.low):
        return f"{short(one.mean.value)}  {runs}"
    word = ", surely worse" if place > 0 and not one.is_not_surely_worse else ""
    return f"{one.mean.value:.4g} [{one.mean.low:.4g}, {one.mean.high:.4g}]  {runs}{word}"


def _axis(low: float, high: float) -> tuple[float, float]:
    """Return the ends of the axis of some numbers; it has room around numbers that are equal up to rounding.

    >>> _axis(1.0, 1.0), _axis(2e-13, 2e-13), _axis(1e17, 2e17), _axis(0.0, 0.0)
    ((0.5, 1.5), (0.0, 4e-13), (1e+17, 2e+17), (-0.5, 0.5))

    Raises:
        ValueError: The numbers lie too far apart.
    """
    size = max(abs(low), abs(high))
    if size < _NOTHING:
        low, high = -0.5, 0.5
    elif high - low <= 1e-9 * size:
        room = max(0.01 * size, min(0.5, size))
        low, high = low - room, high + room
    if not math.isfinite(high - low):
        raise ValueError("There is nothing to draw: the scores lie too far apart.")
    return low, high


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round numbers between two others, and their texts, which have room beside each other.

    >>> _ticks(0.3, 4.1)
    [(1.0, '1'), (2.0, '2'), (3.0, '3'), (4.0, '4')]
    >>> [text for _, text in _ticks(1e-14, 2.1e-14)], _ticks(1e17, 3e17)[0]
    (['1e-14', '1.5e-14', '2e-14'], (1e+17, '1e+17'))
    """
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough * (1 - 1e-9))
    numbers = [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    digits = math.ceil(math.log10(max(abs(low), abs(high)) / step)) + 1  # that tell one from the next
    ticks = [(float(text), text) for text in (f"{number:.{digits}g}" for number in numbers)]
    apart = _PLOT / _CHARACTER * (step / (high - low))  # characters from one to the next
    return ticks[:: math.ceil((max(len(text) for _, text in ticks) + 1) / apart)]


def _without_secrets(one: Configuration) -> Configuration:
    return replace(one, params={name: without_secret(name, value) for name, value in one.params.items()})


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
