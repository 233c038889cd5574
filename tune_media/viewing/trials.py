"""What ``list`` prints of an experiment: its trials, configurations or media, a line each."""

from __future__ import annotations

import math
import posixpath
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tune_media.experiment.params import setting_of
from tune_media.experiment.status import TRIAL_FAILED
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.entry import why_missing
from tune_media.values import checks, score
from tune_media.values.metric_names import main_metrics
from tune_media.values.number import counted
from tune_media.values.secrets import without_secret
from tune_media.viewing.catalog import Catalog
from tune_media.viewing.comparison import importances_of, reported, success_of, success_rates
from tune_media.viewing.configurations import NOT_FINITE, short
from tune_media.viewing.statistics import STATISTICS
from tune_media.viewing.table import in_lines, laid_out, printable
from tune_media.viewing.verdict_picture import Row, rows
from tune_media.viewing.wording import CLEARLY, standing, with_interval

if TYPE_CHECKING:
    import pandas as pd

_MOST_METRICS = 4  # of a trial without clips
_MOST_LOST = 3  # lost media that are named


class NumberColumn(NamedTuple):
    """A column of numbers that tables of trials have if any trial has one."""

    head: str
    fields: tuple[str, ...]  # the names of the numbers in CSV and JSON, which have them in any case
    of: Callable[[TrialFiles], tuple[float, ...]]  # the number, and the ends of its interval if it has one; or NaN
    digits: int = 5

    def cell(self, trial: TrialFiles) -> str:
        """Return the cell of a trial; empty text if its number is unknown."""
        value, *ends = self.of(trial)
        low, high = ends or (math.nan, math.nan)
        return with_interval(value, low, high, self.digits)


NUMBERS = (NumberColumn("success", ("success_rate", "success_low", "success_high"), success_of, digits=3),)
"""The numbers of a trial beside its score and its best clip, in a shell, in CSV and in JSON."""


def trial_table(catalog: Catalog, width: float | None = None) -> str:
    """Lay out one line a trial, the highest score first: its hyperparameters that differ, its score, its best clip.

    If the lines do not fit, they have no column for the clip's file, and then fewer others. The errors of failed trials
    stand below. If nothing was recorded, a line has what became of the trial, and its last metrics.
    """
    failed = [trial for trial in catalog.trials if trial.status.word == TRIAL_FAILED]
    errors = [f"failed: {trial.name}: {trial.status.error or 'Tune wrote no error'}" for trial in failed]
    errors += ["whole errors: error.txt in a trial's folder"] if any(trial.status.error for trial in failed) else []
    lines = lines_of_trials(catalog)
    label = catalog.scores.label if catalog.scores.label in lines[0] else "best return"
    optional = [name for name in reversed(lines[0]) if name not in ("trial", "status", label, "best clip")]
    # A path that is cut is of no use; `--all` and `--json` have it.
    table = laid_out(lines, width, uncut="best clip", optional=optional)
    return "\n".join([table, *(in_lines(printable(error), width) for error in errors)])


def lines_of_trials(catalog: Catalog) -> list[list[str]]:
    """Return the cells of ``trial_table``, the header first."""
    if not len(catalog):
        return _lines_of_results(catalog)
    params, numbers = catalog.differing_params, _known_numbers(catalog)
    videos = catalog.clips
    counts = videos.counts
    label = videos.scores.label
    ranks_by_clip = label == score.CLIP_LABEL
    rows = []
    for trial, value, best in videos.best_first():
        cells = [setting_text(trial, name) for name in params]
        told = reported(trial, value, videos.scores.metric)
        cells += [] if ranks_by_clip else ["" if told is None else short(told)]
        cells += [column.cell(trial) for column in numbers]
        clips = str(counts[trial.name])
        name = f"{trial.name} (abandoned)" if trial.is_abandoned else trial.name
        name += " (failed)" if trial.status.word == TRIAL_FAILED else ""
        if best is None:
            rows.append([name, *cells, "", "", "", clips, "no clip"])
            continue
        shown = [short(best.get(field, "")) for field in ("episode_return", "episode_length", "step")]
        newest = "" if "episode_return" in best else " (the newest)"
        rows.append([name, *cells, *shown, clips, f"{_relative(best, catalog)}{newest}"])
    header = ["trial", *params, *([] if ranks_by_clip else [label]), *(column.head for column in numbers)]
    return [[*header, "best return", "length", "step", "clips", "best clip"], *rows]


def _known_numbers(catalog: Catalog) -> list[NumberColumn]:
    return [column for column in NUMBERS if any(map(column.cell, catalog.trials))]


def _lines_of_results(catalog: Catalog) -> list[list[str]]:
    """Return one line a trial if nothing was recorded, the highest score first."""
    params, scores, numbers = catalog.differing_params, catalog.scores, _known_numbers(catalog)
    metrics = main_metrics(name for trial in catalog.trials for name in trial.last_metrics)
    labels = {name: scores.label for name, label in score.RETURNS.items() if label == scores.label}
    names = sorted(metrics, key=lambda name: name not in labels)[:_MOST_METRICS]
    head = ["trial", "status", *params, "iteration", *(labels.get(name, name) for name in names)]
    lines = [[*head, *(column.head for column in numbers)]]
    for trial, *_ in catalog.best_first():
        values = [setting_text(trial, name) for name in params]
        values += [short(trial.last_metrics.get(name, "")) for name in ("training_iteration", *names)]
        lines.append([trial.name, state_of(trial), *values, *(column.cell(trial) for column in numbers)])
    return lines


def setting_text(trial: TrialFiles, name: str) -> str:
    """Return a hyperparameter of a trial as a table shows it, without secrets."""
    return short(without_secret(name, setting_of(trial.config, name)))


def state_of(trial: TrialFiles) -> str:
    """Return the status of a trial in Tune's words, or that a killed driver left it."""
    return "abandoned" if trial.is_abandoned else trial.status.word


def configuration_table(catalog: Catalog, width: float | None = None, *, always: bool = False) -> str:
    """Lay out one line a configuration, the best mean first, if any has several trials; otherwise nothing."""
    table = catalog.compare()
    if not always and (len(table) < 2 or table["n"].max() < 2):
        return ""
    params = [name.removeprefix("config/") for name in table.columns if name.startswith("config/")]
    first, *others = STATISTICS
    optional = list(dict.fromkeys([*others, "success", *reversed(params[1:]), "95 % interval"]))
    return laid_out(lines_of_configurations(catalog), width, uncut=first, optional=optional)


def lines_of_configurations(catalog: Catalog) -> list[list[str]]:
    """Return the cells of ``configuration_table``, the header first."""
    table = catalog.compare()
    params = [name for name in table.columns if name.startswith("config/")]
    names = [name.removeprefix("config/") for name in params]
    by_name = {trial.name: trial for trial in catalog.trials}
    rates = success_rates(catalog.trials, catalog.judged)
    tells = any(rates)
    called = ["configuration"] if "name" in table else []
    head = [*called, *names, "runs", f"mean of {catalog.scores.label}", "95 % interval", *STATISTICS]
    lines = [[*head, *(["success"] if tells else []), ""]]
    drawn = rows(catalog.judged, catalog.statuses)
    for (_, row), rate, beside in zip(table.iterrows(), rates, drawn, strict=True):
        values = [row["name"] for _ in called]
        values += [setting_text(by_name[row["trials"][0]], name) for name in names]
        success = with_interval(rate.value, rate.low, rate.high, digits=3) if rate else ""
        lines.append([*values, *_numbers(row), *([success] if tells else []), _remark(row, beside)])
    return lines


def _numbers(row: pd.Series[Any]) -> list[str]:
    """Return how many runs of a configuration count, their mean and its interval, and their other statistics."""
    if not row["n"]:
        return ["0", "", "", *("" for _ in STATISTICS)]
    interval = "" if math.isnan(row["low"]) else f"{row['low']:.4g} .. {row['high']:.4g}"
    return [str(row["n"]), short(row["mean"]), interval, *(short(row[name]) for name in STATISTICS)]


def _remark(row: pd.Series[Any], beside: Row) -> str:
    """Return whether a configuration is the best one or may be, and how many of its trials do not count."""
    told = standing(is_best=bool(row["n"]) and row["rank"] == 1, is_close=row["not_clearly_worse"])
    told = beside.words if row["n"] and beside.words and not beside.is_judged else told
    left_out = f"{len(row['left_out'])} left out" if row["left_out"] else ""
    left_out += ": not finite" if row["why"] == NOT_FINITE else ""
    return ", ".join(filter(None, [told, left_out]))


def importance_line(catalog: Catalog) -> str:
    """Return which hyperparameters matter, as a line; empty if unknown, see ``Catalog.importance``."""
    scores = catalog.scores
    importances, count = importances_of(catalog.trials, catalog.statuses, scores.values, scores.metric)
    if not importances:
        return ""
    sure = [
        f"{entry.name} ({100 * entry.share:.0f} %, {100 * entry.low:.0f} to {100 * entry.high:.0f} %)"
        for entry in importances
        if entry.matters
    ]
    unsure = [entry.name for entry in importances if not entry.matters]
    explained = f"Share of the score's differences that a hyperparameter explains: {', '.join(sure)}" if sure else ""
    lacking = f"; not {CLEARLY}" if sure else f"No hyperparameter {CLEARLY} matters:"
    more = f"{lacking} {checks.name_some(unsure)}" if unsure else ""
    return printable(f"{explained}{more} ({count} configurations)")


def lost_lines(catalog: Catalog) -> list[str]:
    """Return a line for each of the newest lost media, and one that counts the others; none if none was lost."""
    lost = [(trial, line) for trial in catalog.trials for line in trial.lost]
    lost.sort(key=lambda pair: int(pair[1]["row"]))
    lines = [
        f"lost: {trial.name}: {line['section']}/{line['key']} of step {line.get('step')}: {why_missing(line)}"
        for trial, line in lost[-_MOST_LOST:]
    ]
    others = len(lost) - len(lines)
    return [*map(printable, lines), *([f"lost: {counted(others, 'older medium', 'older media')}"] if others else [])]


def column_lines(catalog: Catalog) -> list[str]:
    """Return a line for each choice of columns that clips have their facts from, and the notes on files of results."""
    runs = [(trial, trial.run) for trial in catalog.trials if trial.run is not None]
    taken = Counter(line["columns"] for trial, _ in runs for line in trial.lines if "columns" in line)
    notes = dict.fromkeys(run.note for _, run in runs if run.note)
    return [*(f"{counted(count, 'clip')}: {columns}" for columns, count in taken.items()), *notes]


def media_table(catalog: Catalog) -> str:
    """Lay out one line a medium, however long; the files are relative to the experiment's folder."""
    return laid_out(lines_of_media(catalog), math.inf)


def lines_of_media(catalog: Catalog) -> list[list[str]]:
    """Return the cells of ``media_table``, the header first."""
    lines = [["trial", "step", "key", "return", "frames", "file"]]
    for row in catalog:
        facts = [row.get("step", ""), row["key"], row.get("episode_return", ""), row.get("frames", "")]
        lines.append([row["trial"], *map(short, facts), _relative(row, catalog)])
    return lines


def _relative(row: dict[str, Any], catalog: Catalog) -> str:
    return posixpath.relpath(row["file"], catalog.path)
