"""The facts of a clip in a row of named numbers, whatever the row is from: a table, a JSON file, the clip's name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tune_media.values.clip_columns import FACTS, Columns
from tune_media.values.number import number_in

_NAMES = {
    "return": (
        *("episode_return", "return", "sum_reward", "sum_rewards", "episode_reward", "total_reward", "episode/r"),
    ),
    "seed": ("seed", "episode_seed"),
    "success": ("success", "is_success", "successes"),
    "step": ("step", "global_step", "step_id"),
}
_TOO_LARGE_TO_COUNT = 2**53  # for a float
_TRUTHS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


def names_of(fact: str, columns: Columns) -> tuple[str, ...]:
    """Return the names that a column with a fact may have: the one that was given, or the usual ones."""
    return (columns[fact],) if fact in columns else _NAMES[fact]


def facts_of(row: Mapping[str, Any], columns: Columns) -> dict[str, tuple[Any, str]]:
    """Return the facts that a row has, each with the name of its column.

    >>> facts_of({"sum_reward": "1.5", "seed": 7, "score": 3}, {})
    {'return': (1.5, 'sum_reward'), 'seed': (7, 'seed')}
    >>> facts_of({"sum_reward": "1.5", "score": 3}, {"return": "score"})
    {'return': (3.0, 'score')}
    """
    found = {}
    for fact in FACTS:
        column = next((name for name in names_of(fact, columns) if name in row), None)
        value = None if column is None else fact_value(fact, row[column])
        if column is not None and value is not None:
            found[fact] = (value, column)
    return found


def as_facts(found: Mapping[str, tuple[Any, str]], source: str) -> dict[str, Any]:
    """Return facts as an index line has them, with the columns that they come from.

    >>> as_facts({"return": (1.5, "sum_reward"), "seed": (7, "seed")}, "t.csv")
    {'episode_return': 1.5, 'seed': 7, 'columns': 'return=sum_reward, seed=seed of t.csv'}
    """
    if not found:
        return {}
    columns = columns_text(((fact, column) for fact, (_, column) in found.items()), source)
    return {**{FACTS[fact]: value for fact, (value, _) in found.items()}, "columns": columns}


def columns_text(taken: Iterable[tuple[str, str]], source: str) -> str:
    """Return which columns of a source have facts."""
    return f"{', '.join(f'{fact}={column}' for fact, column in taken)} of {source}"


def fact_value(fact: str, value: Any) -> float | int | bool | None:
    """Return a fact in its type, or None if the value cannot be one."""
    if fact == "success":
        return _TRUTHS.get(str(value).strip().lower())
    number = number_in(value)
    if number is None:
        return None
    if fact == "return":
        return number if math.isfinite(number) else None
    is_exact = abs(number) < _TOO_LARGE_TO_COUNT and number.is_integer()
    return int(number) if is_exact and (number >= 0 or fact == "seed") else None
