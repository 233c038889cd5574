"""Conditions on rows by name: fields of the index, metrics of the episode, and hyperparameters."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_media.values.checks import as_shown, did_you_mean, is_number, name_some, number_range
from tune_media.values.number import as_number
from tune_media.values.safe_names import full_name

_BOUNDS: dict[str, Callable[[float, float], bool]] = {"_min": float.__ge__, "_max": float.__le__}
_PARAM = "config/"  # as in the columns of to_pandas


@dataclass(frozen=True)
class Condition:
    """A condition on one value of a row.

    Attributes:
        name: The full name of the value.
        is_param: Whether it is a hyperparameter of the row's trial.
        holds: Told the value, says whether the row matches.
        hint: What may have been meant instead; empty if nothing else could be.

    Example:
        >>> (condition,) = conditions({"distance_max": 3}, ["distance"], ["lr"])
        >>> condition.holds(2.5), condition.holds(3.5), condition.holds(None)
        (True, False, False)
        >>> conditions({"gravity": 9.8}, ["distance"], ["env_config/gravity"])[0].name
        'env_config/gravity'
        >>> conditions({"distnace": 3}, ["distance"], [])
        Traceback (most recent call last):
        ValueError: filter(distnace=...): no row and no hyperparameter has this name; did you mean 'distance'?
    """

    name: str
    is_param: bool
    holds: Callable[[Any], bool]
    hint: str = ""


def conditions(
    given: Mapping[str, Any],
    fields: Iterable[str],
    params: Iterable[str],
    empty_fields: Iterable[str] = (),
    configs: Sequence[Mapping[str, Any]] = (),
) -> list[Condition]:
    """Return the conditions that keyword arguments of ``Catalog.filter`` mean.

    Args:
        given: The arguments: a value, a range, or, after ``_min`` and ``_max``, a bound. A list that is the value of a
            hyperparameter in one of ``configs`` means this value.
        fields: The names of fields and metrics that rows have. If there are none, since there are no rows yet, an
            argument with an unknown name is passed over.
        params: The names of hyperparameters.
        empty_fields: The names of fields that rows may have, and none has here. Hyperparameters come before them.
        configs: The hyperparameters of each trial; lists are texts there.

    Raises:
        ValueError: A name that is none of these.
        TypeError: A bound that is no number.
        ValueError: A range whose first number is larger than its last.
    """
    of_rows, of_trials = list(fields), list(params)
    known = [(of_rows, False), (of_trials, True), (list(empty_fields), False)]
    found = []
    for argument, wanted in given.items():
        base, suffix = argument[:-4], argument[-4:]
        bound = _BOUNDS.get(suffix)
        meant = _find(argument, known)
        if meant is not None:
            values = dict.fromkeys(config.get(meant[0]) for config in configs) if meant[1] else {}
            holds = _equality(argument, wanted, values)
            hint = f"{meant[0]!r} is a name of its own; {argument}{suffix}={wanted!r} is a bound" if bound else ""
            if values and not any(map(holds, values)):
                hint = hint or f"the values of {meant[0]!r} are {name_some(values)}."
            found.append(Condition(*meant, holds, hint or _of_param(argument, meant, of_trials)))
            continue
        meant = None if bound is None else _find(base, known)
        if (meant is None or bound is None) and not of_rows:
            continue
        if meant is None or bound is None:
            names = [name for some, _ in known for name in some]
            hint = did_you_mean(argument, names if bound is None else [*names, *(f"{name}{suffix}" for name in names)])
            raise ValueError(f"filter({argument}=...): no row and no hyperparameter has this name; {hint}")
        if not is_number(wanted):
            raise TypeError(f"filter({argument}=...) takes a number, got {as_shown(wanted)}.")
        found.append(Condition(*meant, _bound(bound, float(wanted)), _of_param(base, meant, of_trials, suffix)))
    return found


def _find(name: str, known: Iterable[tuple[Sequence[str], bool]]) -> tuple[str, bool] | None:
    """Return the full name, and whether it is of a hyperparameter, as the names that are known say."""
    only_params = name.startswith(_PARAM)
    for names, is_param in known:
        full = full_name(name.removeprefix(_PARAM), names) if is_param or not only_params else None
        if full is not None:
            return full, is_param
    return None


def _of_param(name: str, meant: tuple[str, bool], params: Sequence[str], suffix: str = "") -> str:
    """Return that the hyperparameter of the same name may have been meant; nothing if there is none."""
    param = None if meant[1] else full_name(name, params)
    if param is None:
        return ""
    return f"{meant[0]!r} is a field of the episodes; the hyperparameter is {_PARAM + param + suffix!r}."


def _bound(holds: Callable[[float, float], bool], limit: float) -> Callable[[Any], bool]:
    return lambda value: holds(as_number(value), limit)  # a comparison with NaN is false


def _equality(argument: str, wanted: Any, values: Collection[Any] = ()) -> Callable[[Any], bool]:
    """Return a function that says whether a value is the wanted one, one of several, or in a range.

    ``values`` are those that a hyperparameter has.
    """
    if isinstance(wanted, (str, bool)) or wanted is None:
        return lambda value: bool(value == wanted)
    if isinstance(wanted, Iterable):
        several = list(wanted)
        text = _as_param(several)
        if text in values:
            return lambda value: bool(value == text)
        if any(isinstance(one, (str, list, tuple)) or one is None for one in several):
            several = list(map(_as_param, several))
            return lambda value: value in several
        if any(isinstance(value, str) and value.startswith("[") for value in values):
            return lambda value: False  # a list, and no trial has it: no range
    first, last = number_range(f"filter({argument}=...)", wanted) or (-math.inf, math.inf)
    return lambda value: first <= as_number(value) <= last


def _as_param(value: Any) -> Any:
    """Return a value as the hyperparameters have it: a list is its JSON.

    >>> _as_param((64, 64)), _as_param(64)
    ('[64, 64]', 64)
    """
    return json.dumps(value, default=str) if isinstance(value, (list, tuple)) else value
