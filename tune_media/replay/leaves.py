"""A leaf: a piece of plain data of an env's state, as it is stored on a tape and compared.

A leaf has a kind and a plain form. Where an object, a list or a dict holds more than plain data, its leaf is its shape:
its class, its length or its keys.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import marshal
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np
from crc32c import crc32c

Path = tuple[Any, ...]
"""Where a leaf is: a root, the name of an attribute, and the steps from there. A root is the number of a layer (0: the
innermost env), ``("class", module, name)`` or ``("module", name)``."""
Attribute = tuple[Any, str]
"""The first two parts of a path."""

VALUE, ARRAY, BUFFER, SEQUENCE, TUPLE, DICT = "value", "array", "buffer", "list", "tuple", "dict"
NAMED_TUPLE, OBJECT, ENUM, LAYER, ALIAS = "named tuple", "object", "enum", "layer", "@"
LARGE, CODE, UNREAD = "large", "code", "?"
HOLDS_PARTS = frozenset({SEQUENCE, TUPLE, DICT, OBJECT, CODE})
FIXED = frozenset({LARGE, UNREAD, CODE, TUPLE})
"""The kinds of what nobody can make again."""
ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
BUFFERS = (bytearray, array.array, ctypes.Array, ctypes.Structure, ctypes._SimpleCData)
COMPARED_AS_TEXT = ("datetime", "decimal", "fractions", "pathlib", "uuid", "zoneinfo")
"""The modules whose objects are compared by their text, and not restored."""
MOST_BYTES, MOST_ITEMS = 64 * 1024, 4000
"""Of one attribute; of one container."""
_MOST_SUMMED = 2**20  # bytes of an array; of a larger one, some are looked at


def is_in(path: Path, some: Collection[Path]) -> bool:
    """Return whether a path, or one that it is below, is among some.

    >>> is_in((0, "game", "wins"), {(0, "game")}), is_in((0, "game"), {(0, "game", "wins")})
    (True, False)
    """
    return any(path[:size] in some for size in range(2, len(path) + 1))


def plain_form(kind: str, value: Any) -> Any:
    """Return what is stored of a value, of which a leaf is this kind.

    >>> plain_form(SEQUENCE, [1, 2])
    ['list', None, 2]
    """
    if kind in (VALUE, ARRAY):
        return value
    if kind == ALIAS:
        return list(value)
    if kind in (SEQUENCE, TUPLE):
        return [type(value).__name__, getattr(value, "maxlen", None), len(value)]
    if kind == DICT:
        return [type(value).__name__, list(value)]
    if kind in (OBJECT, LAYER):
        return [type(value).__module__, type(value).__qualname__]
    if kind == ENUM:
        return [type(value).__module__, type(value).__qualname__, value.name]
    if kind == NAMED_TUPLE:
        return [type(value).__module__, type(value).__qualname__, tuple(value)]
    if kind == CODE:
        code = value.__code__
        return [str(value.__module__), value.__qualname__, zlib.crc32(code.co_code + repr(code.co_names).encode())]
    if kind == BUFFER:
        return [type(value).__qualname__, bytes(memoryview(value).cast("B"))]
    if kind == LARGE:
        return _checksum(value)
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _checksum(value: Any) -> Any:
    if type(value).__module__ in COMPARED_AS_TEXT:
        return repr(value)
    with contextlib.suppress(Exception):
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return ["array of objects", list(value.shape)]
            flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            return int(
                crc32c((flat if flat.nbytes <= _MOST_SUMMED else flat[:: flat.nbytes // MOST_BYTES].copy()).data)
            )
        return int(crc32c(value.get_view("0").raw))
    return type(value).__name__


def is_plain(value: Any, seen: set[int]) -> bool:
    """Return whether a container holds only plain data of Python's own types, each container once."""
    if id(value) in seen or len(seen) > MOST_ITEMS:
        return False  # shared, or without end
    seen.add(id(value))
    items = value
    if type(value) is dict:
        if not ATOMS.issuperset(map(type, value)) and not all(
            type(key) in ATOMS or (type(key) in (tuple, frozenset) and is_plain(key, set())) for key in value
        ):
            return False
        items = value.values()
    if ATOMS.issuperset(map(type, items)):
        return True
    return all(
        type(item) in ATOMS
        or (type(item) in (list, dict, set) and is_plain(item, seen))
        or (type(item) in (tuple, frozenset) and is_plain(item, set()))
        for item in items
    )


def encoded(kind: str, plain: Any) -> bytes:
    """Return a leaf as bytes, for comparing.

    Raises:
        ValueError: It is no plain data.
    """
    if kind == ARRAY:
        return b"a" + repr((plain.dtype.str, plain.shape)).encode() + bytes(plain.tobytes())
    if kind == VALUE:
        return b"v" + marshalled(plain)
    return kind.encode() + b":" + marshalled(plain)


def marshalled(value: Any) -> bytes:
    """Return a value as bytes, by C code: equal values have equal bytes in every process.

    Raises:
        ValueError: It is no plain data.
    """
    if type(value) in ATOMS:
        return marshal.dumps(value, 2)
    if isinstance(value, np.generic):
        return b"n" + value.dtype.str.encode() + value.tobytes()
    content = marshal.dumps(value, 2)  # of later versions, the bytes depend on the number of references
    if b"<" in content or b">" in content:  # perhaps a set: their order is any
        content = marshal.dumps(_sorted_sets(value), 2)
    return content


def _sorted_sets(value: Any) -> Any:
    kind = type(value)
    if kind in (set, frozenset):
        return (kind.__name__, sorted(marshal.dumps(_sorted_sets(item), 2) for item in value))
    if kind in (list, tuple):
        return kind(_sorted_sets(item) for item in value)
    if kind is dict:
        return {
            _sorted_sets(key) if isinstance(key, frozenset) else key: _sorted_sets(item) for key, item in value.items()
        }
    return value
