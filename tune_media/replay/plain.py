"""Plain data: values as JSON and back, without pickles, so that reading a tape runs no code of whoever wrote it."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

_AS_THEY_ARE = frozenset({type(None), bool, int, float, str})
_COLLECTIONS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_encode = json.JSONEncoder(separators=(",", ":")).encode


def to_json(value: Any) -> str:
    """Return a value as JSON: a number, text, bytes, an array, or nested dicts, lists, tuples and sets of these.

    Raises:
        TypeError: It is, or holds, something else.

    Example:
        >>> again = from_json(to_json({"speed": (1, np.float32(0.5)), 7: None}))
        >>> again, type(again["speed"][1]).__name__  # doctest: +ELLIPSIS
        ({'speed': (1, ...0.5...), 7: None}, 'float32')
        >>> to_json({"lock": object()})
        Traceback (most recent call last):
        ...
        TypeError: a value of type object is no plain data
    """
    return _encode(_tagged(value))


def from_json(text: str | bytes) -> Any:
    """Return the value that ``to_json`` was given.

    Raises:
        ValueError: It is no such JSON.
    """
    return _value(json.loads(text))


def _tagged(value: Any) -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is list:
        return [_tagged(item) for item in value]
    if kind is tuple:
        return {"tuple": [_tagged(item) for item in value]}
    if kind in (set, frozenset):
        return {kind.__name__: sorted((_tagged(item) for item in value), key=_encode)}
    if isinstance(value, dict):
        if _AS_THEY_ARE.issuperset(map(type, value)) and _AS_THEY_ARE.issuperset(map(type, value.values())):
            return {"dict": list(value.items())}  # JSON has a list for each pair, too
        return {"dict": [(_tagged(key), _tagged(item)) for key, item in value.items()]}
    if kind is bytes:
        return {"bytes": _base64(value)}
    is_array = kind is np.ndarray
    if (is_array or isinstance(value, np.generic)) and not value.dtype.hasobject and value.dtype.names is None:
        return {"array" if is_array else "number": [value.dtype.str, list(value.shape), _base64(value.tobytes())]}
    raise TypeError(f"a value of type {kind.__name__} is no plain data")


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) != 1:
        raise ValueError(f"no plain data: {str(plain)[:100]}")
    ((name, content),) = plain.items()
    if name in _COLLECTIONS:
        return _COLLECTIONS[name](_value(item) for item in content)
    if name == "dict":
        return {_value(key): _value(item) for key, item in content}
    if name == "bytes":
        return base64.b64decode(content)
    if name not in ("array", "number"):
        raise ValueError(f"no plain data: {name!r}")
    dtype, shape, data = content
    flat = np.frombuffer(base64.b64decode(data), np.dtype(dtype))
    return flat.reshape(shape).copy() if name == "array" else flat[0]


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
