"""The hyperparameters of trials: flat, and those that tell trials apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tune_media.values.foreign import without_address

PARAMS = "params.json"
_MAX_LIST = 8  # longer lists are no hyperparameter that anyone reads in a table


def flat_values(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield scalars and short lists of scalars by name, nested ones as ``outer/inner``; reprs without addresses.

    Example:
        >>> dict(flat_values({"lr": 0.1, "model": {"hiddens": [64, 64], "module": object()}}))
        {'lr': 0.1, 'model/hiddens': '[64, 64]'}
        >>> dict(flat_values({"schedule": "<function warm at 0x7f01>"}))
        {'schedule': '<function warm>'}
    """
    for key, value in values.items():
        name = _whole_characters(key)
        if isinstance(value, Mapping):
            yield from flat_values(value, f"{prefix}{name}/")
        elif isinstance(value, str) and value.startswith("<"):  # Tune writes an object as its repr
            yield f"{prefix}{name}", _whole_characters(without_address(value))
        elif _is_scalar(value):
            yield f"{prefix}{name}", _whole_characters(value) if isinstance(value, str) else value
        elif isinstance(value, list) and len(value) <= _MAX_LIST and all(map(_is_scalar, value)):
            yield f"{prefix}{name}", json.dumps(value)


def differing(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the hyperparameters that are not the same in all trials, outer ones first.

    Memory addresses inside texts do not count as a difference.

    Example:
        >>> differing([{"lr": 0.1, "env": "A", "f": "<f at 0x7f01>"}, {"lr": 0.2, "env": "A", "f": "<f at 0x7f02>"}])
        ['lr']
    """
    names = dict.fromkeys(name for found in params for name in found)
    differ = [name for name in names if len({_comparable(found.get(name)) for found in params}) > 1]
    return sorted(differ, key=lambda name: (name.count("/"), name))


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _comparable(value: Any) -> str:
    return without_address(repr(value))


def _whole_characters(text: Any) -> str:
    """Return text without halves of characters, which no page, table or terminal takes.

    >>> _whole_characters(f"a half: {chr(0xD800)}")
    'a half: ?'
    """
    return text if isinstance(text, str) and text.isascii() else str(text).encode("utf-8", "replace").decode()
