"""The trials, configurations or media of an experiment for other programs: CSV and JSON lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tune_media.values.secrets import without_secret
from tune_media.viewing.catalog import Catalog
from tune_media.viewing.comparison import success_of
from tune_media.viewing.data_frames import data_frame
from tune_media.viewing.table import (
    state_of,
)

if TYPE_CHECKING:
    import pandas as pd

TRIALS, CONFIGURATIONS, MEDIA = ("trials", "configurations", "media")
"""What one line is."""
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "…": r"\dots{}"}
_SPECIAL |= {c: rf"\{c}" for c in "&%$#_{}"}


def as_csv(catalog: Catalog, rows: str) -> str:
    """Return a table as CSV, with all digits; a list of names is one text with semicolons between them.

    Args:
        of: What one line is: ``trials``, ``configurations`` or ``media``.
    """
    frame = _without_secrets(catalog.to_pandas()) if rows == MEDIA else _frame(catalog, rows)
    for name in ("trials", "left_out"):
        if name in frame:
            frame[name] = [";".join(names) for names in frame[name]]
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return text.rstrip("\n")


def as_json(catalog: Catalog, rows: str, *, with_config: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a table as objects for JSON, one a line.

    Args:
        of: As in ``as_csv``.
        with_config: Whether a medium has the whole config of its trial.
    """
    if rows == MEDIA:
        for row in catalog:
            line = {**row, "config": row.config} if with_config else dict(row)
            for settings in line.keys() & {"params", "config"}:
                line[settings] = {name: without_secret(name, value) for name, value in line[settings].items()}
            yield line
        return
    for record in _frame(catalog, rows).to_dict("records"):
        yield {str(name): _plain(value) for name, value in record.items()}


def _frame(catalog: Catalog, rows: str) -> pd.DataFrame:
    return _without_secrets(catalog.compare() if rows == CONFIGURATIONS else _of_trials(catalog))


def _without_secrets(frame: pd.DataFrame) -> pd.DataFrame:
    """Hide keys and passwords in the columns of hyperparameters; return the frame."""
    import pandas as pd

    for name in [str(one) for one in frame.columns if str(one).startswith("config/")]:
        values = list(frame[name])
        shown = [value if value is pd.NA else without_secret(name, value) for value in values]
        if any(one is not value for one, value in zip(shown, values, strict=True)):
            frame[name] = shown
    return frame


def _of_trials(catalog: Catalog) -> pd.DataFrame:
    """Return one row a trial, the highest score first: its hyperparameters that differ, its scores, its best clip."""
    videos, rows = catalog.clips, []
    counts = videos.counts
    for trial, score, best in videos.best_first():
        known: Mapping[str, Any] = {} if best is None else best
        row: dict[str, Any] = {"trial": trial.name, "status": state_of(trial)}
        row |= {f"config/{name}": trial.config.get(name) for name in catalog.differing_params}
        rate, low, high = success_of(trial)
        row |= {"score": score, "success_rate": rate, "success_low": low, "success_high": high}
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
