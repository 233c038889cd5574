"""Writes JSON that every parser can read, makes values into its plain data, and parses it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from tune_media.values.convert import converted
from tune_media.values.foreign import MAX_INT_BITS, UnreadableError, as_builtin, is_a, leaf_text, of_type, opened, shown
from tune_media.values.secrets import error_text

_MAX_NAME = 100
_MAX_READ_LEVELS = 200  # far below Python's limit of 1,000 calls
_TOO_DEEP = f"JSON that is nested more than {_MAX_READ_LEVELS} levels deep"
_AS_TEXT = json.JSONEncoder(allow_nan=False, ensure_ascii=False)
_AS_ASCII = json.JSONEncoder(allow_nan=False)
_NOT_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
_LIKE_THESE = re.compile(r'"*(?:-?Infinity|NaN)"*')
_PLAIN, _CONTAINERS = frozenset({str, bool, type(None)}), frozenset({dict, list, tuple})


def json_bytes(value: Any) -> bytes:
    """Write a value as one line of JSON.

    NumPy numbers and arrays become numbers and lists. NaN and infinity become null. Any other object becomes text, also
    what contains itself or is nested too deep. Invisible characters (line ends, marks that change the
    direction of writing, lone surrogates) are escaped.
    """
    plain = finite(value)
    text = _AS_TEXT.encode(plain)
    return (text if text.isprintable() else _AS_ASCII.encode(plain)).encode()


def finite(value: Any) -> Any:
    """Return a value as JSON has it, with null for each number that is not finite, and text for anything unknown."""
    return _plain(value, None, ())


def told_apart(value: Any) -> Any:
    """Return a hyperparameter or metric for strict JSON: what is not finite as text, and a text that says so in quotes.

    >>> [told_apart(value) for value in (-math.inf, math.nan, "NaN", 0.5, None)]
    ['-Infinity', 'NaN', '"NaN"', 0.5, None]
    """
    if is_a(value, (float, np.floating)) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if is_a(value, str):
        return f'"{value}"' if _LIKE_THESE.fullmatch(value) else value
    return finite(value)


def read_apart(value: Any) -> Any:
    """Return what ``told_apart`` was given.

    >>> [read_apart(value) for value in ("-Infinity", "NaN", '"NaN"', 0.5, None)]
    [-inf, nan, 'NaN', 0.5, None]
    """
    if not is_a(value, str):
        return value
    return _NOT_FINITE.get(value, value[1:-1] if _LIKE_THESE.fullmatch(value) else value)


def as_plain(value: Any, name: str) -> Any:
    """Return a value as plain JSON data: None, numbers (NaN, too), text, lists and dicts; tensors become lists.

    Anything else is a TypeError that names it.
    """
    return _plain(value, name, ())


def _plain(value: Any, name: str | None, around: tuple[int, ...]) -> Any:
    """Return a value as JSON has it; for all else, null or text without a name, and a TypeError with one."""
    kind = type(value)  # the most frequent types come first: each index line is written here, twice
    if kind is float:
        return value if name is not None or math.isfinite(value) else None
    if kind in _PLAIN or (kind is int and value.bit_length() <= MAX_INT_BITS):
        return value
    try:
        if kind in _CONTAINERS or is_a(value, (np.ndarray, Mapping, list, tuple, set, frozenset)):
            return _container(value, name, around)
        own = as_builtin(value)
        if type(own) is not kind:
            return _plain(own, name, around)
        if name is None or kind is int:
            return leaf_text(value)
    except UnreadableError as error:
        if name is None:
            return error.text
        raise TypeError(f"{name if len(name) <= _MAX_NAME else f'{name[:_MAX_NAME]}...'} {error}") from error
    try:
        array = converted(value)
    except Exception as error:
        raise TypeError(f"{name} is {of_type(value)}: {error_text(error)}") from error
    if isinstance(array, np.ndarray):
        return array.tolist()
    raise TypeError(f"{name} is {of_type(value)}")


def _container(value: Any, name: str | None, around: tuple[int, ...]) -> Any:
    is_array = is_a(value, np.ndarray)
    if is_array and not value.dtype.hasobject:
        is_plain = name is not None and value.dtype.kind in "biufUS"
        return value.tolist() if is_plain else _plain(value.tolist(), name, around)
    items = opened(value, around)
    inside = (*around, id(value))
    if is_array:
        return _plain(value.tolist(), name, inside)
    if is_a(value, Mapping):
        named = ((key if type(key) is str else shown(key, str), item) for key, item in items)
        return {key: _plain(item, None if name is None else f"{name}/{key}", inside) for key, item in named}
    return [_plain(item, None if name is None else f"{name}/{i}", inside) for i, item in enumerate(items)]


def parsed_bytes(value: Any) -> bytes:
    """Return a value that ``parse_json`` returned as JSON again, about five times as fast as ``json_bytes``.

    >>> parsed_bytes({"seed": 2**70})
    b'{"seed": 1180591620717411303424}'
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer above 64 bits, or half of a character
        return json_bytes(value)


def parse_json(text: bytes | memoryview) -> Any:
    """Parse JSON, about three times as fast as ``json.loads``; nested beyond 200 levels, it is a ValueError, too."""
    try:
        value = orjson.loads(text)
    except ValueError:  # Python also reads NaN, integers above 64 bits and halves of characters
        try:
            value = json.loads(bytes(text))
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None
    content = bytes(text)
    if content.count(b"{") + content.count(b"[") > _MAX_READ_LEVELS:  # otherwise it cannot be too deep
        _check_levels(value)
    return value


def _check_levels(value: Any) -> None:
    level = [value]
    for _ in range(_MAX_READ_LEVELS):
        level = [
            item
            for around in level
            if isinstance(around, (dict, list))
            for item in (around.values() if isinstance(around, dict) else around)
        ]
        if not level:
            return
    raise ValueError(_TOO_DEEP)
