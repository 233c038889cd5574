"""Writes JSON that every parser can read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from tune_media.values.foreign import is_a, shown

_MAX_LEVELS = 64
_MAX_READ_LEVELS = 200  # far below Python's limit of 1,000 calls
_TOO_DEEP = f"JSON that is nested more than {_MAX_READ_LEVELS} levels deep"
_MAX_INT_BITS = 1000  # Python itself refuses to write or read much larger integers
_AS_TEXT = json.JSONEncoder(allow_nan=False, ensure_ascii=False)
_AS_ASCII = json.JSONEncoder(allow_nan=False)
_PLAIN, _CONTAINERS = frozenset({str, bool, type(None)}), frozenset({dict, list, tuple})


def json_bytes(value: Any) -> bytes:
    """Write a value as one line of JSON.

    NumPy numbers and arrays become numbers and lists. NaN and infinity become null, and so does anything that contains
    itself or is nested too deep. Any other object becomes text. Invisible characters (line ends, marks that change the
    direction of writing, lone surrogates) are escaped.

    >>> json_bytes({"speed": np.float32(1.5), "path": np.arange(3), "loss": float("nan")})
    b'{"speed": 1.5, "path": [0, 1, 2], "loss": null}'
    """
    plain = _plain(value, ())
    text = _AS_TEXT.encode(plain)
    return (text if text.isprintable() else _AS_ASCII.encode(plain)).encode()


def _plain(value: Any, around: tuple[int, ...]) -> Any:
    kind = type(value)  # the most frequent types come first: each index line is written here, twice
    if kind is float:
        return value if math.isfinite(value) else None
    if kind in _PLAIN or (kind is int and value.bit_length() <= _MAX_INT_BITS):
        return value
    if kind in _CONTAINERS or is_a(value, (Mapping, list, tuple, set, frozenset)):
        return _container(value, around)
    if is_a(value, np.ndarray):
        return None if id(value) in around else _plain(value.tolist(), (*around, id(value)))
    if is_a(value, np.generic):
        value = value.item()
    if is_a(value, float) and not math.isfinite(value):
        return None
    if value is None or is_a(value, (bool, float, str)) or (is_a(value, int) and value.bit_length() <= _MAX_INT_BITS):
        return value
    return shown(value, str)


def _container(value: Any, around: tuple[int, ...]) -> Any:
    if id(value) in around or len(around) > _MAX_LEVELS:
        return None
    inside = (*around, id(value))
    try:
        if is_a(value, Mapping):
            return {key if type(key) is str else shown(key, str): _plain(item, inside) for key, item in value.items()}
        return [_plain(item, inside) for item in value]
    except Exception:  # the container raises when it is read
        return shown(value, str)


def parse_json(text: bytes | memoryview) -> Any:
    """Parse JSON, about three times as fast as ``json.loads``.

    >>> parse_json(b'{"seed": 3}')
    {'seed': 3}

    Raises:
        ValueError: It is not JSON, or nested so deeply that whoever walks through it would fail.
    """
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
