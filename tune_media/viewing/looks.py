"""How lines and marks of configurations and trials look, alike on the page and in figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COLORS = (
    *("#4269d0", "#e08b1d", "#d2485c", "#3a9e92", "#3f9b57", "#a463c2", "#c2672b", "#6b8fd6"),
    *("#9c6b4e", "#7a828e", "#1f8fb8", "#b3a125", "#c0569b", "#5f7f33", "#7d6be0", "#b5493a"),
)
"""They are legible on the page, light and dark, and on paper."""


def color_of(place: int) -> str:
    """Return the colour of a configuration or trial by its place among all."""
    return COLORS[place % len(COLORS)]


def looks(places: Sequence[int]) -> list[tuple[str, Any]]:
    """Return the colour and Matplotlib's line style of each line of a chart, both together of no two lines.

    Of those with one colour, the first is solid, as ``dashOf`` in charts.js has it.

    >>> looks([16, 0, 1])
    [('#4269d0', (0, (5, 2))), ('#4269d0', '-'), ('#e08b1d', '-')]
    """
    before = [sum(other < place and color_of(other) == color_of(place) for other in places) for place in places]
    return [(color_of(place), _style(number)) for place, number in zip(places, before, strict=True)]


def _style(number: int) -> Any:
    """Return a style that no other number has: solid, dashes, dots, then dashes with more and more dots between."""
    return ("-", (0, (5, 2)), (0, (1, 1.2)))[number] if number < 3 else (0, (5, 1.5) + (1, 1.5) * (number - 2))
