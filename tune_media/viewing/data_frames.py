"""The rows of a catalog, and the episodes of an experiment, as DataFrames."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tune_media.experiment.params import settings_of
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage import episode_files
from tune_media.values import checks, score
from tune_media.values.metric_names import main_metrics
from tune_media.values.number import as_number
from tune_media.values.safe_names import full_name
from tune_media.viewing.episode_columns import EpisodeColumns

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("tune_media")

_PLACE = ("trial", "section", "key", "kind", "step", "training_iteration")
_CLIP = ("episode_return", "episode_length", "frames", "fps", "width", "height", "bytes", "id", "path", "file")
_EPISODE = ("episode_id", "seed", "terminated", *episode_files.SUCCESS, "task", "metrics", "note")
_POLICY = ("env_runner", "env_index", "env_steps", "explored", "weights_version", "rendered", "rolled_back", "lineage")
_PROOF = ("recipe", "compared")
_FILE = ("frame_stride", "agent", "view", "format", "sha256", "status", "abandoned", "time", "trial_id", "v")
_WRITTEN = ("undone", "again", "try", "row")

MEDIA_COLUMNS = [*_PLACE, *_CLIP, *_EPISODE, *_POLICY, *_PROOF, *_FILE, *_WRITTEN]
"""The columns of every DataFrame of media, in this order, even if nothing was recorded: all fields of the index."""

_NUMBERS = {"step", "training_iteration", "episode_return", "episode_length", "frames", "fps", "width", "height"}
_NUMBERS |= {"bytes", "seed", "env_index", "env_steps", "weights_version", "frame_stride", "time", "finished_at", "v"}
_FLAGS = ("rolled_back", "abandoned")  # columns of truth values; False if a row says nothing
_WHOLE = ("rank",)  # of configurations
_Row = TypeVar("_Row", bound=dict[str, Any])


def field_of(row: dict[str, Any], name: str) -> Any:
    """Return a field of a row, or a metric of its episode; None if it has none."""
    metrics = row.get("metrics")
    return row.get(name, metrics.get(name) if isinstance(metrics, dict) else None)


def fields_of(row: dict[str, Any]) -> list[str]:
    """Return the names for ``field_of``."""
    metrics = row.get("metrics")
    return [*(metrics if isinstance(metrics, dict) else ()), *row]


def value_of(row: dict[str, Any], metric: str) -> float:
    """Return a field of a row, or a metric of its episode, as a number; NaN if it has none."""
    return as_number(field_of(row, metric))


def best_row(rows: Sequence[_Row], metric: str, sign: int) -> _Row | None:
    """Return the row with the largest value of a field or metric (with ``sign`` -1, the smallest).

    One that does not count is returned only if there is no other.
    """
    best = _best_row(rows, metric, sign)
    return _best_row(rows, _number_named(rows, metric), sign) if best is None and rows else best


def of_media(
    trials: Sequence[TrialFiles],
    rows: Sequence[Sequence[dict[str, Any]]],
    params: str,
    differing: Sequence[str],
    metrics: bool | Sequence[str],
) -> pd.DataFrame:
    """Return one row a medium; for ``params`` and ``metrics`` see ``Catalog.to_pandas``."""
    joined = [
        {**config, **_metrics_of(trial, wanted)}
        for wanted in [_metric_names(trials, metrics)]
        for trial, config in zip(trials, _configs(trials, params, differing), strict=True)
    ]
    flat = [
        {name: value for name, value in row.items() if name != "params"} | of_trial
        for of_trial, of_rows in zip(joined, rows, strict=True)
        for row in of_rows
    ]
    return _data_frame(flat, MEDIA_COLUMNS, [name for of_trial in joined for name in of_trial])


def of_episodes(trials: Sequence[TrialFiles], params: str, differing: Sequence[str]) -> pd.DataFrame:
    """Return one row an episode; files that cannot be read are left out, with a warning."""
    import pandas as pd

    configs = _configs(trials, params, differing)
    names = ["trial", *episode_files.EPISODE_COLUMNS, *_FLAGS]
    settings = list(dict.fromkeys(name for config in configs for name in config))
    found = EpisodeColumns.of(trials)
    if found is None:
        return _data_frame([], names, settings)
    there, rows = np.unique(found.trials, return_inverse=True)
    told = [
        {"trial": trials[number].name, "abandoned": trials[number].is_abandoned, **configs[number]}
        for number in there.tolist()
    ]
    of_trials = _whole_frame(told, ["trial", "abandoned", *settings]).take(rows).reset_index(drop=True)
    own = {**found.as_series(), "rolled_back": pd.Series(found.rolled_back)}
    columns = {name: own[name] if name in own else of_trials[name] for name in dict.fromkeys([*names, *own])}
    return pd.DataFrame(columns | {name: of_trials[name] for name in list(of_trials)[2:]})


def _best_row(rows: Iterable[_Row], metric: str, sign: int) -> _Row | None:
    best, best_rank = None, (False, -math.inf)
    for row in rows:
        rank = (score.does_count(row), sign * value_of(row, metric))
        if rank[1] > -math.inf and rank > best_rank:
            best, best_rank = row, rank
    return best


def _number_named(rows: Sequence[dict[str, Any]], name: str) -> str:
    """Return the full name of a field of the index, or of a row or its metrics, that is a number."""
    known = dict.fromkeys(MEDIA_COLUMNS)
    numbers: dict[str, None] = {}
    for row in rows:
        names = fields_of(row)
        known |= dict.fromkeys(names)
        numbers |= {name: None for name in names if name not in numbers and not math.isnan(value_of(row, name))}
    found = full_name(name, known)
    if found is None and any(full_name(name, getattr(row, "config", ())) for row in rows):
        raise ValueError(
            f"best: {name!r} is a hyperparameter, and rows are compared by their numbers "
            f"({checks.name_some(numbers)}); compare(by={name!r}) ranks its values."
        )
    if found is None:
        raise ValueError(f"best: no row has {name!r}; " + checks.did_you_mean(name, numbers, "the fields are"))
    if any(isinstance(field_of(row, found), (str, Mapping, Sequence)) for row in rows):
        raise ValueError(f"best: {name!r} is no number; the numbers are {checks.name_some(numbers)}.")
    return found


def _configs(trials: Sequence[TrialFiles], params: str, differing: Sequence[str]) -> list[dict[str, Any]]:
    checks.one_of("differing", "all", "none").check("to_pandas(params=...)", params)
    names = () if params == "none" else differing
    return [
        {f"config/{name}": value for name, value in settings_of(trial.config, wanted).items()}
        for trial in trials
        for wanted in [trial.config if params == "all" else names]
    ]


def _metric_names(trials: Sequence[TrialFiles], metrics: bool | Sequence[str]) -> Sequence[str]:
    if isinstance(metrics, bool):
        return main_metrics(name for trial in trials for name in trial.metrics) if metrics else ()
    known = dict.fromkeys(name for trial in trials for name in trial.metrics)
    for name in metrics:
        if known and name not in known:
            near = checks.did_you_mean(name, known)
            logger.warning("tune_media: to_pandas(metrics=...): no trial has %r; %s", name, near)
    return metrics


def _metrics_of(trial: TrialFiles, names: Sequence[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for name in names:
        metric = trial.metrics.get(name)
        values[f"last/{name}"] = metric.last if metric else math.nan
        values[f"best/{name}"] = metric.largest if metric else math.nan
    return values


def _data_frame(rows: list[dict[str, Any]], first: Sequence[str], last: Sequence[str]) -> pd.DataFrame:
    """Return rows as a DataFrame with the columns ``first``, then all others, then those of the trial."""
    import pandas as pd

    names = dict.fromkeys([*first, *(name for row in rows for name in row)])
    columns = [*(name for name in names if name not in set(last)), *dict.fromkeys(last)]
    flags = [name for name in _FLAGS if name in names]
    if not rows:  # numbers are numbers, so that the frame can be merged, grouped and plotted like any other
        numbers = [name for name in columns if name in _NUMBERS or name.startswith(("last/", "best/"))]
        return pd.DataFrame(columns=columns).astype({**dict.fromkeys(numbers, float), **dict.fromkeys(flags, bool)})
    for row in rows:  # in place: there may be many
        row |= {name: bool(row.get(name)) for name in flags}
    return _whole_frame(rows, columns)


def _whole_frame(rows: list[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a DataFrame; halves of characters in texts become question marks if pandas takes none."""
    try:
        return data_frame(rows, columns)
    except UnicodeEncodeError:  # halves of characters, which no table of Arrow's takes
        whole = [{_whole(name): _whole(value) for name, value in row.items()} for row in rows]
        return data_frame(whole, [_whole(name) for name in columns])


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> pd.DataFrame:
    """Return rows as a DataFrame; a hyperparameter or rank that is a whole number stays one if some rows have none.

    None, NaN and no value at all (``pd.NA``) stay apart if a hyperparameter has two of them.

    >>> data_frame([{"rank": 1}, {"rank": None}], ["rank"])["rank"].tolist()
    [1, <NA>]
    """
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list(columns))
    for name in (one for one in frame.columns if one in _WHOLE or str(one).startswith("config/")):
        exact = _exact([row.get(name, pd.NA) for row in rows])
        if exact is not None:
            frame[name] = exact
    return frame


def _exact(values: list[Any]) -> Any:
    """Return the values of a column that pandas would change: different missing ones, or whole numbers; else None."""
    import pandas as pd

    lacking = [value for value in values if value is None or value is pd.NA or value != value]
    if len({str(value) for value in lacking}) > 1:
        return pd.Series(values, dtype=object)
    numbers = [value for value in values if not (value is None or value is pd.NA)]
    if numbers and len(numbers) < len(values) and all(type(one) is int and abs(one) < 2**63 for one in numbers):
        return pd.array(values, dtype="Int64")
    return None


def _whole(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
