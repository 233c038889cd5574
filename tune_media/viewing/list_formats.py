"""The trials, configurations or media of an experiment for other programs and pages: CSV, JSON lines and Markdown."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tune_media.experiment.params import UNKNOWN, UNSET, in_quotes, setting_of
from tune_media.experiment.trial_files import TrialFiles
from tune_media.values import strict_json
from tune_media.values.secrets import without_secret
from tune_media.viewing.catalog import Catalog
from tune_media.viewing.comparison import reported
from tune_media.viewing.data_frames import data_frame
from tune_media.viewing.table import is_numeric, printable
from tune_media.viewing.trials import NUMBERS, lines_of_configurations, lines_of_media, lines_of_trials, state_of

if TYPE_CHECKING:
    import pandas as pd

TRIALS, CONFIGURATIONS, MEDIA = ("trials", "configurations", "media")
"""The kinds of rows."""
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "…": r"\dots{}"}
_SPECIAL |= {c: rf"\{c}" for c in "&%$#_{}"}


def as_csv(catalog: Catalog, rows: str) -> str:
    """Return a table as CSV, with all digits; a list of names is one text with semicolons between them."""
    frame = _frame(catalog, rows, _as_cell)
    for name in ("trials", "left_out"):
        if name in frame:
            frame[name] = [";".join(names) for names in frame[name]]
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return text.rstrip("\n")


def as_json(catalog: Catalog, rows: str, *, with_config: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a table as objects for JSON, one a line; with ``with_config``, a medium has its trial's whole config."""
    if rows == MEDIA:
        for row in catalog:
            line = {**row, "config": row.config} if with_config else dict(row)
            for settings in line.keys() & {"params", "config"}:
                shown = {n: without_secret(n, value) for n, value in line[settings].items()}
                line[settings] = {n: strict_json.told_apart(value) for n, value in shown.items()}
            yield line
        return
    said = {"verdict": catalog.verdict.sentence, "verdict_is_clear": catalog.verdict.is_clear}
    version = {"v": 2, **said} if rows == CONFIGURATIONS else {}  # 2: not_clearly_worse, why
    for record in _frame(catalog, rows, _as_json).to_dict("records"):
        yield version | {str(name): _plain(value) for name, value in record.items() if value is not UNSET}


def as_markdown(catalog: Catalog, rows: str) -> str:
    """Return a table for a page of GitHub, as on the terminal, below the verdict on the configurations."""
    of_rows = {TRIALS: lines_of_trials, CONFIGURATIONS: lines_of_configurations, MEDIA: lines_of_media}
    table = markdown_table(of_rows[rows](catalog))
    if rows == MEDIA:
        return table
    said = catalog.verdict
    return "\n\n".join([f"**{in_markdown(said.sentence)}**", table, *map(in_markdown, said.why)])


def markdown_table(lines: Sequence[Sequence[str]]) -> str:
    """Return cells as a table in Markdown, the header first; columns of numbers stand at the right.

    >>> print(markdown_table([["policy", "mean"], ["a|b", "1.5"]]))
    | policy | mean |
    | :-- | --: |
    | a\\|b | 1.5 |
    """
    head, *rows = [[in_markdown(cell) for cell in line] for line in lines]
    ends = ["--:" if all(map(is_numeric, column)) else ":--" for column in zip(*rows, strict=True)] or [":--"] * len(
        head
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ends, *rows))


def in_markdown(text: str) -> str:
    """Return a text in which no character stands for something else; a place is no link to an issue of its number.

    >>> print(in_markdown("#2, a_b <c>"))
    no. 2, a_b &lt;c&gt;
    """
    text = re.sub(r"#(?=\d)", "no. ", html.escape(printable(text), quote=False))
    return re.sub(r"([\\|`*]|(?<!\w)_|_(?!\w)|\](?=\())", r"\\\1", text)


def _frame(catalog: Catalog, rows: str, shown: Callable[[Any], Any]) -> pd.DataFrame:
    """Return a table with the hyperparameters and metrics of the trials as they are shown."""
    import pandas as pd

    own = catalog.to_pandas if rows == MEDIA else catalog.compare
    frame = _of_trials(catalog, shown) if rows == TRIALS else own()
    trials = {trial.name: trial for trial in catalog.trials}
    owners = [names[0] for names in frame["trials"]] if rows == CONFIGURATIONS else list(frame.get("trial", ()))
    for column in [str(one) for one in frame.columns if str(one).startswith(("config/", "last/"))]:
        values = [shown(_value_of(trials[owner], *column.split("/", 1))) for owner in owners]
        frame[column] = pd.Series(values, frame.index, object)
    return frame


def _value_of(trial: TrialFiles, kind: str, name: str) -> Any:
    """Return a hyperparameter of a trial, without keys and passwords, or the last value of a metric."""
    if kind == "config":
        return without_secret(name, setting_of(trial.config, name))
    return trial.metrics[name].last if name in trial.metrics else UNSET


def _as_cell(value: Any) -> Any:
    """Return a hyperparameter or metric as a cell of a CSV has it, in which nothing stands for one that is not set."""
    is_number = isinstance(value, (int, float)) and value == value
    return "" if value is UNSET else value if is_number else in_quotes(value) if isinstance(value, str) else str(value)


def _as_json(value: Any) -> Any:
    return value if value is UNSET else {} if value is UNKNOWN else strict_json.told_apart(value)


def _of_trials(catalog: Catalog, shown: Callable[[Any], Any]) -> pd.DataFrame:
    """Return one row a trial, the highest score first: its hyperparameters that differ, its scores, its best clip."""
    videos, rows = catalog.clips, []
    counts = videos.counts
    for trial, score, best in videos.best_first():
        known: Mapping[str, Any] = {} if best is None else best
        row: dict[str, Any] = {"trial": trial.name, "status": state_of(trial)}
        row |= {f"config/{name}": setting_of(trial.config, name) for name in catalog.differing_params}
        told = reported(trial, score, videos.scores.metric)
        row["score"] = None if told is None else shown(float(told))
        for column in NUMBERS:
            row |= zip(column.fields, column.of(trial), strict=True)
        row |= {name: known.get(name) for name in ("episode_return", "episode_length", "step")}
        row |= {"clips": counts[trial.name], "lost": len(trial.lost), "best_clip": known.get("file")}
        row |= {"error": trial.status.error or None}
        rows.append(row)
    return data_frame(rows, rows[0] if rows else ())


def _plain(value: Any) -> Any:
    """Return a value of a frame as JSON has it: NaN is nothing."""
    import pandas as pd

    value = value.item() if hasattr(value, "item") else value
    return None if value is pd.NA or (isinstance(value, float) and math.isnan(value)) else value
