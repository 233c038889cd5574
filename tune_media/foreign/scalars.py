"""Tables of scalars: ``progress.csv`` of many loggers, lines of JSON of DreamerV3, TorchRL's CSV files."""

from __future__ import annotations

import csv
import functools
import io
import posixpath
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tune_media.foreign.curve_cache import Series, cached
from tune_media.foreign.return_tags import RETURN_TAGS, STEP_COLUMNS, ReturnTag, by_part, curves_of, hidden_returns
from tune_media.foreign.run_files import RunFiles, whole_lines
from tune_media.foreign.settings import env_id_of, literal, without_own
from tune_media.foreign.told import ENV_STEPS, STEPS, Curve, Told, unnamed, unread
from tune_media.storage.filesystem import open_file
from tune_media.storage.passed_over import warn_of_broken_lines, warn_passed_over
from tune_media.values.checks import first_names
from tune_media.values.clip_columns import Columns
from tune_media.values.number import as_number, number_in
from tune_media.values.secrets import error_text
from tune_media.values.sections import EVALUATION
from tune_media.values.strict_json import parse_json

_BY_SECTION = ("train.csv", "eval.csv")  # of DrQ and TD-MPC, or a table of clips
TABLES = ("progress.csv", "progress.txt", "metrics.csv", *_BY_SECTION)
LINES = ("scores.jsonl", "metrics.jsonl", "progress.json")
TORCHRL = ("scalars/*.csv", "texts/hparams0.txt")
_TORCHRL_TAGS = (*RETURN_TAGS, ReturnTag("eval/reward", ENV_STEPS, EVALUATION))  # train/reward may be that of a step
_FIRST_BYTES = 2**18
_STEP, _VALUE = "step", "value"
_Row: TypeAlias = Mapping[str, float] | None  # None: a line that cannot be read
_Rows: TypeAlias = Callable[[bytes], Iterator[_Row]]


def read_tables(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the columns of CSV files, with tabs or commas, as curves over the column of their steps."""
    return _told(files, paths, columns or {}, _table_rows)


def read_lines(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the numbers in lines of JSON as curves over their ``step``, nested ones as ``outer/inner``."""
    return _told(files, paths, columns or {}, _json_rows)


def read_torchrl(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the files of TorchRL's CSVLogger: ``scalars/<tag>.csv`` with steps and values, and its hyperparameters."""
    keys, config, not_understood = dict[str, tuple[str, str]](), dict[str, Any](), list[str]()
    for path in paths:
        if path.endswith(".csv"):
            part, _, tag = f"/{path}".rpartition("/scalars/")
            keys[path] = part.strip("/"), tag.removesuffix(".csv")
            continue
        try:
            lines = (line.partition(": ") for line in files.read(path).decode("utf-8-sig").splitlines())
            config |= {name: literal(text) for name, sign, text in lines if sign}
        except (OSError, ValueError) as error:
            not_understood.append(unread(path, error))
    tags = frozenset(tag for _, tag in keys.values())
    if alike := hidden_returns(tags, columns or {}, _TORCHRL_TAGS):
        not_understood.append(unnamed("scalars", "return", alike))

    def curves() -> list[Curve]:
        read = {key: _stepped(_numbers(files, path, _pairs), _STEP) for path, key in keys.items()}
        found = {key: one[_VALUE] for key, one in read.items() if _VALUE in one}
        return curves_of(found, columns or {}, STEPS, _TORCHRL_TAGS)

    own = without_own(config, files.run_folder)
    return Told(own, env_id_of(config), columns=tags, curves=curves if keys else None, not_understood=not_understood)


def _told(files: RunFiles, paths: Sequence[str], columns: Columns, rows: _Rows) -> Told:
    steps, all_names, not_understood = {}, frozenset[str](), []
    for path, _ in by_part(paths):
        try:
            with open_file(files.filesystem, files.full(path)) as file:
                first = [row for row in rows(bytes(file.read(_FIRST_BYTES))) if row]
        except (OSError, ValueError, csv.Error) as error:
            not_understood.append(unread(path, error))
            continue
        names = dict.fromkeys(name for row in first for name in row)
        step = next((name for name in (columns.get("step"), *STEP_COLUMNS) if name in names), None)
        if step is not None:
            steps[path] = step
        elif names and posixpath.basename(path) not in _BY_SECTION:
            not_understood.append(unnamed(path, "step", first_names(list(names))))
        if rows is _table_rows and (alike := hidden_returns(names, columns)):
            not_understood.append(unnamed(path, "return", alike))
        all_names |= names.keys()
    return Told(
        columns=all_names,
        curves=functools.partial(_curves, files, steps, columns, rows) if steps else None,
        not_understood=not_understood,
    )


def _curves(files: RunFiles, steps: Mapping[str, str], columns: Columns, rows: _Rows) -> list[Curve]:
    """Return the curves of files, each over the column of its steps; of two with one tag the first."""
    found: dict[tuple[str, str], Series] = {}
    for path, part in sorted(by_part(list(steps)), key=lambda item: _order(item[0])):
        if posixpath.basename(path) in _BY_SECTION:
            part = posixpath.join(part, posixpath.splitext(posixpath.basename(path))[0])
        for tag, series in _stepped(_numbers(files, path, rows), steps[path]).items():
            found.setdefault((part, tag), series)
    units = {STEP_COLUMNS.get(step, STEPS) for step in steps.values()}
    return curves_of(found, columns, units.pop() if len(units) == 1 else STEPS)


def _order(path: str) -> int:
    """Return the place of a file among ``LINES``: the first has some numbers of the second once more."""
    name = posixpath.basename(path)
    return LINES.index(name) if name in LINES else 0


def _numbers(files: RunFiles, path: str, rows: _Rows) -> dict[str, Series]:
    """Return the numbers of a file by column, with the numbers of their rows for steps."""

    def read() -> dict[str, Series]:
        found: dict[str, tuple[array[float], array[float]]] = {}
        broken = []
        for number, row in enumerate(rows(files.read(path)), 1):
            if row is None:
                broken.append(number)
            for name, value in (row or {}).items():
                for column, cell in zip(found.setdefault(name, (array("d"), array("d"))), (number, value), strict=True):
                    column.append(cell)
        warn_of_broken_lines(files.full(path), broken, "numbers")
        return {
            name: Series(np.array(numbers), np.array(values), np.full(len(values), np.nan))
            for name, (numbers, values) in found.items()
        }

    try:
        return cached(files, path, read)
    except (OSError, ValueError, csv.Error) as error:
        warn_passed_over(files.full(path), error_text(error))
        return {}


def _stepped(columns: Mapping[str, Series], step: str) -> dict[str, Series]:
    """Return columns without that of the steps, over its values in their rows; rows without a step are left out."""
    if step not in columns:
        return {}
    last = max(int(column.steps[-1]) for column in columns.values())
    steps = np.full(last + 1, np.nan)
    steps[columns[step].steps.astype(int)] = columns[step].values
    found = {}
    for name, column in columns.items():
        own = steps[column.steps.astype(int)]
        found[name] = Series(*(part[np.isfinite(own)] for part in (own, column.values, column.times)))
    return {name: series for name, series in found.items() if name != step and len(series.steps)}


def _table_rows(content: bytes) -> Iterator[_Row]:
    """Yield the numbers of a table with a line of names."""
    text = whole_lines(content)
    head = text.partition("\n")[0]
    for row in csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in head else ","):
        cells = {name: number_in(cell) for name, cell in row.items() if name}
        yield {name: number for name, number in cells.items() if number is not None}


def _pairs(content: bytes) -> Iterator[_Row]:
    for line in whole_lines(content).splitlines():
        numbers = [number for cell in line.split(",") if (number := number_in(cell)) is not None]
        yield dict(zip((_STEP, _VALUE), numbers, strict=True)) if len(numbers) == 2 else None


def _json_rows(content: bytes) -> Iterator[_Row]:
    for line in whole_lines(content).splitlines():
        try:
            row = parse_json(line.encode()) if line.strip() else {}
        except ValueError:
            row = None
        yield dict(_flat(row, "")) if isinstance(row, dict) else None


def _flat(row: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{prefix}{name}", as_number(value)
