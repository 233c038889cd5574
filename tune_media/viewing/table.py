"""What was recorded, as text for a terminal: one line a trial with its best clip, or one line a medium."""

from __future__ import annotations

import posixpath
import re
import shutil
import unicodedata
from collections.abc import Sequence
from typing import Any

from tune_media.experiment.status import FAILED
from tune_media.values.score import CLIP_LABEL
from tune_media.viewing.catalog import Catalog
from tune_media.viewing.configurations import short

_MIN_CELL = 8
_WIDTHS = {"W": 2, "F": 2}  # of wide characters, as Unicode has them


def trial_table(catalog: Catalog, width: int | None = None) -> str:
    """Lay out one line a trial, the highest score first: its hyperparameters that differ, its score, its best clip.

    If the lines do not fit, they have no column for the clip's file. The errors of failed trials stand below.

    Args:
        catalog: What was recorded.
        width: Characters a line. None: as many as the terminal has.
    """
    params = catalog.differing_params
    videos = catalog.filter(kind="video")
    label = videos.scores.label
    ranks_by_clip = label == CLIP_LABEL
    known = zip(catalog.trials, catalog.statuses, strict=True)
    failed = {id(trial): status.error for trial, status in known if status.word == FAILED}
    rows = []
    for trial, score, best in videos.best_first():
        told = [_short(trial.config.get(name, "")) for name in params]
        told += [] if ranks_by_clip else [_short(score)]
        clips = str(len(videos.filter(trial=trial.name)))
        name = f"{trial.name} (abandoned)" if trial.is_abandoned else trial.name
        name += " (failed)" if id(trial) in failed else ""
        if best is None:
            rows.append([name, *told, "", "", "", clips, "no clip"])
            continue
        clips += f" ({suspects} suspect)" if (suspects := sum(map(len, trial.suspects.values()))) else ""
        shown = [_short(best["episode_return"]), str(best.get("episode_length", "")), str(best.get("step", ""))]
        rows.append([name, *told, *shown, clips, _relative(best, catalog)])
    header = ["trial", *params, *([] if ranks_by_clip else [label])]
    lines = [[*header, "best return", "length", "step", "clips", "best clip"], *rows]
    if _width_of(lines) > _space(width):  # a path that is cut is of no use; `--all` and `--json` have it
        lines = [line[:-1] for line in lines]
    errors = [(trial.name, failed[id(trial)]) for trial in catalog.trials if id(trial) in failed]
    told = [f"failed: {name}: {error or 'Tune wrote no error'}" for name, error in errors]
    return "\n".join([_laid_out(lines, width), *map(printable, told)])


def configuration_table(catalog: Catalog, width: int | None = None) -> str:
    """Lay out one line a configuration, the best mean first, if any has several trials; otherwise nothing.

    Args:
        catalog: What was recorded.
        width: Characters a line. None: as many as the terminal has.
    """
    table = catalog.compare()
    if len(table) < 2 or table["n"].max() < 2:
        return ""
    params = [name for name in table.columns if name.startswith("config/")]
    names = [name.removeprefix("config/") for name in params]
    lines = [[*names, "runs", f"mean of {catalog.scores.label}", "95 % interval", "iqm", ""]]
    for _, row in table.iterrows():
        left_out = f"{len(row['left_out'])} left out" if row["left_out"] else ""
        told = "best" if row["rank"] == 1 else "overlaps" if row["overlaps_best"] else ""
        interval = f"{row['low']:.4g} .. {row['high']:.4g}" if row["n"] > 1 else ""
        values = [short(row[name]) for name in params]
        shown = [_short(row["mean"]), interval, _short(row["iqm"])] if row["n"] else ["", "", ""]
        lines.append([*values, str(row["n"]), *shown, ", ".join(filter(None, [told, left_out]))])
    if _width_of(lines) > _space(width):  # rather no interquartile mean than half an interval
        lines = [[*line[:-2], line[-1]] for line in lines]
    return _laid_out(lines, width)


def media_table(catalog: Catalog) -> str:
    """Lay out one line a medium, however long; the files are relative to the experiment's folder."""
    lines = [["trial", "step", "key", "return", "frames", "file"]]
    for row in catalog:
        key = f"{row['key']} (suspect)" if row.get("suspect") else row["key"]
        facts = [row.get("step", ""), key, _short(row.get("episode_return")), row.get("frames", "")]
        lines.append([row["trial"], *map(str, facts), _relative(row, catalog)])
    return _laid_out(lines, 10_000)


def printable(text: str) -> str:
    r"""Return text with everything escaped that would move, hide or colour other text of a terminal.

    >>> printable("trial\x1b[2J")
    'trial\\x1b[2J'
    """
    return text if text.isprintable() else re.sub(r"[^ -~]", _escaped, text)


def _laid_out(lines: Sequence[Sequence[str]], width: int | None) -> str:
    """Return lines in columns; if they are wider than the terminal, the longest cells lose their middle."""
    cells = [[printable(str(cell)) for cell in line] for line in lines]
    widths = [max(cell_width(line[at]) for line in cells) for at in range(len(cells[0]))]
    space = _space(width) - 2 * (len(widths) - 1)
    while sum(widths) > space and max(widths) > _MIN_CELL:
        widest = widths.index(max(widths))
        widths[widest] = max(_MIN_CELL, widths[widest] - (sum(widths) - space), sorted(widths)[-2] - 1)
    columns = [_column([line[at] for line in cells], w) for at, w in enumerate(widths)]
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _column(cells: Sequence[str], width: int) -> list[str]:
    """Return a column of one width, the header first; if cut cells look alike, they begin where they differ.

    >>> _column(["trial", "PPO_a1b2_00000_lr=0.1", "PPO_a1b2_00001_lr=0.1"], 9)
    ['trial    ', '~0_lr=0.1', '~1_lr=0.1']
    """
    shown = [_cut(cell, width) for cell in cells]
    if len(set(shown)) < len(set(cells)):
        start = len(posixpath.commonprefix(cells[1:]))
        rests = [_cut(cell[start:], width - 1) for cell in cells[1:]]
        shown = [shown[0], *(f"~{rest}" for rest in rests)]
    return [_padded(text, width) for text in shown]


def _space(width: int | None) -> int:
    return width or shutil.get_terminal_size().columns


def _width_of(lines: Sequence[Sequence[str]]) -> int:
    """Return how many characters a line takes if nothing is cut."""
    return sum(max(cell_width(printable(str(cell))) for cell in column) + 2 for column in zip(*lines, strict=True)) - 2


def _cut(text: str, width: int) -> str:
    """Return a text without its middle if it is wider.

    >>> _cut("abcdefghij", 7), _cut("🤖🤖🤖🤖", 7)
    ('abcd~ij', '🤖🤖~🤖')
    """
    if cell_width(text) <= width:
        return text
    end = (width - 1) // 3  # the beginning tells more: names of trials end with dates
    return f"{_first(text, width - 1 - end)}~{_first(text[::-1], end)[::-1]}"


def _first(text: str, width: int) -> str:
    """Return as many first characters as fit."""
    text = text[:width]
    while cell_width(text) > width:
        text = text[:-1]
    return text


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_width(text))


def cell_width(text: str) -> int:
    """Return how many cells of a terminal a text takes: an emoji or a Chinese character takes two.

    >>> cell_width("lr=1"), cell_width("🤖"), cell_width("e\u0301")
    (4, 2, 1)
    """
    if text.isascii():
        return len(text)
    return sum(_WIDTHS.get(unicodedata.east_asian_width(c), 1) for c in text if not _takes_no_cell(c))


def _takes_no_cell(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me", "Cf")


def _relative(row: dict[str, Any], catalog: Catalog) -> str:
    return posixpath.relpath(row["file"], catalog.path)


def _short(value: Any) -> str:
    """Return a value as a table shows it: numbers with at most five digits.

    >>> _short(0.000123456), _short(500.0), _short(None)
    ('0.00012346', '500', '')
    """
    if isinstance(value, float):
        return f"{value:.5g}"
    return "" if value is None else str(value)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return character if character.isprintable() else ascii(character)[1:-1]
