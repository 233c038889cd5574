"""What was recorded, as text for a terminal: one line a trial with its best clip, or one line a medium."""

from __future__ import annotations

import math
import posixpath
import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

from tune_media.experiment.status import FAILED
from tune_media.values.metric_names import main_metrics
from tune_media.values.score import CLIP_LABEL, RETURNS
from tune_media.viewing.catalog import Catalog
from tune_media.viewing.configurations import short

_MOST_METRICS = 4  # of a trial without clips
_MIN_HEADER, _MIN_NAME = 8, 20  # characters that are left of a text that is cut
_NUMBERS = re.compile(r"([-+\d.,/\[\] ]|e[-+]\d|inf|nan)*")  # one, an interval, or none


def trial_table(catalog: Catalog, width: float | None = None) -> str:
    """Lay out one line a trial, the highest score first: its hyperparameters that differ, its score, its best clip.

    If the lines do not fit, they have no column for the clip's file. The errors of failed trials stand below. If
    nothing was recorded, a line has what became of the trial, and its last metrics.

    Args:
        catalog: What was recorded.
        width: As in ``laid_out``.
    """
    if not len(catalog):
        return _results_table(catalog, width)
    params = catalog.differing_params
    videos = catalog.filter(kind="video")
    label = videos.scores.label
    ranks_by_clip = label == CLIP_LABEL
    rows = []
    for trial, score, best in videos.best_first():
        told = [short(trial.config.get(name, "")) for name in params]
        told += [] if ranks_by_clip else ["" if score is None else short(score)]
        clips = str(len(videos.filter(trial=trial.name)))
        name = f"{trial.name} (abandoned)" if trial.is_abandoned else trial.name
        name += " (failed)" if trial.status.word == FAILED else ""
        if best is None:
            rows.append([name, *told, "", "", "", clips, "no clip"])
            continue
        clips += f" ({suspects} suspect)" if (suspects := sum(map(len, trial.suspects.values()))) else ""
        shown = [short(best.get(field, "")) for field in ("episode_return", "episode_length", "step")]
        rows.append([name, *told, *shown, clips, _relative(best, catalog)])
    header = ["trial", *params, *([] if ranks_by_clip else [label])]
    lines = [[*header, "best return", "length", "step", "clips", "best clip"], *rows]
    # A path that is cut is of no use; `--all` and `--json` have it.
    return "\n".join([laid_out(lines, width, optional=-1), *_errors(catalog)])


def _results_table(catalog: Catalog, width: float | None) -> str:
    """Lay out one line a trial of which nothing was recorded, the highest score first."""
    params, scores = catalog.differing_params, catalog.scores
    metrics = main_metrics(name for trial in catalog.trials for name in trial.last_metrics)
    labels = {name: scores.label for name, label in RETURNS.items() if label == scores.label}
    names = sorted(metrics, key=lambda name: name not in labels)[:_MOST_METRICS]
    lines = [["trial", "status", *params, "iteration", *(labels.get(name, name) for name in names)]]
    for trial, *_ in catalog.best_first():
        values = [trial.config.get(name, "") for name in params]
        values += [trial.last_metrics.get(name, "") for name in ("training_iteration", *names)]
        status = "abandoned" if trial.is_abandoned else trial.status.word
        lines.append([trial.name, status, *map(short, values)])
    return "\n".join([laid_out(lines, width), *_errors(catalog)])


def _errors(catalog: Catalog) -> list[str]:
    """Return a line for each trial that failed, which says why."""
    failed = [(trial.name, trial.status) for trial in catalog.trials if trial.status.word == FAILED]
    return [printable(f"failed: {name}: {status.error or 'Tune wrote no error'}") for name, status in failed]


def configuration_table(catalog: Catalog, width: float | None = None) -> str:
    """Lay out one line a configuration, the best mean first, if any has several trials; otherwise nothing.

    Args:
        catalog: What was recorded.
        width: As in ``laid_out``.
    """
    table = catalog.compare()
    if len(table) < 2 or table["n"].max() < 2:
        return ""
    params = [name for name in table.columns if name.startswith("config/")]
    names = [name.removeprefix("config/") for name in params]
    lines = [[*names, "runs", f"mean of {catalog.scores.label}", "95 % interval", "iqm", ""]]
    for _, row in table.iterrows():
        left_out = f"{len(row['left_out'])} left out" if row["left_out"] else ""
        told = "best" if row["rank"] == 1 else "not surely worse" if row["not_surely_worse"] else ""
        interval = f"{row['low']:.4g} .. {row['high']:.4g}" if row["n"] > 1 else ""
        values = [short(row[name]) for name in params]
        shown = [short(row["mean"]), interval, short(row["iqm"])] if row["n"] else ["", "", ""]
        lines.append([*values, str(row["n"]), *shown, ", ".join(filter(None, [told, left_out]))])
    return laid_out(lines, width, optional=-2)  # the interquartile mean


def media_table(catalog: Catalog) -> str:
    """Lay out one line a medium, however long; the files are relative to the experiment's folder."""
    lines = [["trial", "step", "key", "return", "frames", "file"]]
    for row in catalog:
        key = f"{row['key']} (suspect)" if row.get("suspect") else row["key"]
        facts = [row.get("step", ""), key, row.get("episode_return", ""), row.get("frames", "")]
        lines.append([row["trial"], *map(short, facts), _relative(row, catalog)])
    return laid_out(lines, math.inf)


def printable(text: str) -> str:
    r"""Return text with everything escaped that would move, hide or colour other text of a terminal.

    >>> printable("trial\x1b[2J")
    'trial\\x1b[2J'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def laid_out(lines: Sequence[Sequence[str]], width: float | None = None, *, optional: int | None = None) -> str:
    """Return lines of cells in columns. If they do not fit, names and headers lose their middle; numbers never do.

    Args:
        lines: The cells, the header first.
        width: Characters a line. None: as many as the terminal has; without a terminal, as many as it takes.
        optional: The column to leave out if the lines do not fit.
    """
    space = width or (shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf)
    columns = [list(map(printable, column)) for column in zip(*lines, strict=True)]
    widths = [max(map(cell_width, column)) for column in columns]
    if optional is not None and sum(widths) + 2 * (len(widths) - 1) > space:
        del columns[optional], widths[optional]
    least = [max([min(cell_width(head), _MIN_HEADER), *map(_least, cells)]) for head, *cells in columns]
    while sum(widths) + 2 * (len(widths) - 1) > space and widths != least:
        _, at = max((wide, at) for at, wide in enumerate(widths) if wide > least[at])
        widths[at] -= 1
    rows = zip(*map(_column, columns, widths), strict=True)
    return "\n".join("  ".join(row).rstrip() for row in rows)


def _least(cell: str) -> int:
    """Return how wide a cell stays in any case."""
    return cell_width(cell) if _NUMBERS.fullmatch(cell) else min(cell_width(cell), _MIN_NAME)


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


def _relative(row: dict[str, Any], catalog: Catalog) -> str:
    return posixpath.relpath(row["file"], catalog.path)
