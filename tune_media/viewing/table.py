"""Lays out text for a terminal: cells in columns that fit its width, and sentences in lines."""

from __future__ import annotations

import math
import posixpath
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence

from tune_media.values import checks

_MIN_HEADER, _MIN_NAME = 12, 20  # characters of the longest part of a header, and of a name that is cut
_NUMBERS = re.compile(r"([-+\d.,/\[\] ]|e[-+]\d|inf|nan)*")  # one, an interval, or none


def printable(text: str) -> str:
    """Return text with everything escaped that would move, hide or colour other text of a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def laid_out(
    lines: Sequence[Sequence[str]],
    width: float | None = None,
    *,
    uncut: str | None = None,
    optional: Sequence[str] = (),
) -> str:
    """Return lines of cells in columns. If they do not fit, headers take several lines, and names lose their middle.

    Args:
        lines: The cells, the header first.
        width: Characters a line, by default as many as the terminal has; without a terminal, as many as it takes.
        uncut: The header of the column to leave out if the lines do not fit as they are.
        optional: Headers of columns to leave out, one after the other, if the lines do not fit with cut names, either.
            A last line names all that are left out.
    """
    space = width or _terminal_width()
    columns = [list(map(printable, column)) for column in zip(*lines, strict=True)]
    widths = [max(map(cell_width, column)) for column in columns]
    least = [max([*map(cell_width, _pieces(head)), *map(_least, cells)]) for head, *cells in columns]
    left_out = []
    for name, needed in [(uncut, widths), *((name, least) for name in optional)]:
        if name is not None and name in lines[0] and not _fit(needed, space):
            place = [head for head, *_ in columns].index(printable(name))
            del columns[place], widths[place], least[place]
            left_out.append(name)
    _narrow(widths, least, space)
    heads = [_wrapped(head, width) for (head, *_), width in zip(columns, widths, strict=True)]
    height = max(map(len, heads), default=0)
    laid = [
        [*(line.ljust(width) for line in [""] * (height - len(lines)) + lines), *_column(column, width)[1:]]
        for lines, column, width in zip(heads, columns, widths, strict=True)
    ]
    rows = ["  ".join(row).rstrip() for row in zip(*laid, strict=True)]
    if left_out:
        told = f"No room for {checks.name_some(left_out)}; a wider terminal or `| cat` shows all."
        rows.append(in_lines(told, space))
    return "\n".join(rows)


def _fit(widths: Sequence[int], space: float) -> bool:
    return sum(widths) + 2 * (len(widths) - 1) <= space


def _narrow(widths: list[int], least: Sequence[int], space: float) -> None:
    """Take from the widest column until all fit, or none can be narrower."""
    while not _fit(widths, space) and widths != least:
        _, place = max((wide, place) for place, wide in enumerate(widths) if wide > least[place])
        widths[place] -= 1


def in_lines(text: str, width: float | None = None, indent: int | None = None) -> str:
    """Return sentences in lines that fit the terminal; a longer path or name, and what stands in backticks, stay whole.

    ``indent`` is that of all lines but the first; by default, they have that of the first.

    >>> print(in_lines("  Note: one seed.", 12))
      Note: one
      seed.
    >>> print(in_lines("Run `pip install ray`.", 12))
    Run
    `pip install ray`.
    """
    space = width or _terminal_width()
    if space == math.inf:
        return text
    margin = " " * (len(text) - len(text.lstrip(" ")) if indent is None else indent)
    wrapper = textwrap.TextWrapper(int(space), subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)
    whole = re.sub("`[^`\n]+`", lambda command: command[0].replace(" ", "\0"), text)
    return "\n".join(map(wrapper.fill, whole.split("\n"))).replace("\0", " ")


def _terminal_width() -> float:
    """Return how many characters a line may have; without a terminal, any number."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf


def is_numeric(cell: str) -> bool:
    """Return whether a cell is a number, an interval, or empty.

    >>> is_numeric("0.5 [0.1, 0.9]"), is_numeric("PPO_1")
    (True, False)
    """
    return bool(_NUMBERS.fullmatch(cell))


def _least(cell: str) -> int:
    """Return how wide a cell stays in any case."""
    return cell_width(cell) if is_numeric(cell) else min(cell_width(cell), _MIN_NAME)


def _pieces(head: str) -> list[str]:
    """Return the parts of a header between which a line may end, none too long for a narrow terminal.

    >>> _pieces("mean env_runners/return")
    ['mean ', 'env_', 'runners/', 'return']
    """
    return re.findall(rf"[^ _/]{{1,{_MIN_HEADER}}}[ _/]?", head) or [head]


def _wrapped(head: str, width: int) -> list[str]:
    lines = [""]
    for piece in _pieces(head):
        if lines[-1] and cell_width(lines[-1] + piece.rstrip(" ")) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip(" ") for line in lines]


def _column(cells: Sequence[str], width: int) -> list[str]:
    """Return a column of one width, the header first; if cut cells look alike, they begin where they differ.

    >>> _column(["trial", "PPO_a1b2_00000_lr=0.1", "PPO_a1b2_00001_lr=0.1"], 9)
    ['trial    ', '…0_lr=0.1', '…1_lr=0.1']
    """
    shown = [_cut(cell, width) for cell in cells]
    if len(set(shown)) < len(set(cells)):
        start = len(posixpath.commonprefix(cells[1:]))
        shown[1:] = [f"…{_cut(cell[start:], width - 1)}" for cell in cells[1:]]
    return [text + " " * (width - cell_width(text)) for text in shown]


def _cut(text: str, width: int) -> str:
    """Return a text without its middle if it is wider.

    >>> _cut("abcdefghij", 7), _cut("🤖🤖🤖🤖", 7)
    ('abcd…ij', '🤖🤖…🤖')
    """
    shown, kept = text, min(len(text), width)
    while cell_width(shown) > width:
        kept -= 1
        end = kept // 3  # the beginning tells more: names of trials end with dates
        shown = f"{text[: kept - end]}…{text[len(text) - end :]}"
    return shown


def cell_width(text: str) -> int:
    """Return how many cells of a terminal a text takes: an emoji or a Chinese character takes two.

    >>> cell_width("lr=1"), cell_width("🤖"), cell_width("e\u0301")
    (4, 2, 1)
    """
    if text.isascii():
        return len(text)
    shown = [c for c in text if unicodedata.category(c) not in ("Mn", "Me", "Cf")]
    return len(shown) + sum(unicodedata.east_asian_width(c) in "WF" for c in shown)
