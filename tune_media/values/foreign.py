"""Looks at objects that other people's code made, and never raises: their ``__class__`` and ``__repr__`` may."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

JSON_KEYS = (bool, int, float, type(None))
"""Types of keys that JSON makes text by itself."""


def shown(value: Any, text: Callable[[Any], str] = repr) -> str:
    """Return a value as text, or the name of its type if turning it into text raises.

    >>> shown(3), shown("x", str)
    ('3', 'x')
    >>> class Broken:
    ...     def __repr__(self):
    ...         raise RuntimeError
    >>> shown(Broken())
    '<Broken>'
    """
    try:
        return text(value)
    except Exception:
        return f"<{type(value).__name__}>"


def of_type(value: Any) -> str:
    """Return the name of a value's type with its article.

    >>> of_type(object()), of_type(3.0)
    ('an object', 'a float')
    """
    name = type(value).__qualname__
    if type(value).__module__ != "builtins":
        name = f"{type(value).__module__}.{name}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def is_readable(value: Any) -> bool:
    """Return whether loggers can turn a value into text, as ``str`` and as ``repr``."""
    try:
        return str(value) is not None and repr(value) is not None
    except Exception:
        return False


def whole_characters(text: str) -> str:
    """Return text without halves of characters, which no page, table, terminal or tracker takes."""
    return text if type(text) is str and text.isascii() else str(text).encode("utf-8", "replace").decode()


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Like ``isinstance``, without asking the value's ``__class__`` attribute, which may raise or lie.

    >>> is_a(True, int), is_a("1", (int, float))
    (True, False)
    """
    return issubclass(type(value), kinds)


def walked(
    value: Any,
    leaf: Callable[[Any, Any], Any],
    place: Any = None,
    inside: Callable[[Any, Any], Any] = lambda place, key: None,
    name_of: Callable[[Any], Any] = lambda key: key,
) -> Any:
    """Return a copy of dicts, lists and tuples in each other, with what ``leaf`` returns for all other values.

    ``leaf`` gets a value and its place; ``inside`` makes the place of a key, or of a number, from the one around it.

    >>> walked({1: [2, (3,)]}, lambda value, place: -value, name_of=str)
    {'1': [-2, (-3,)]}
    """
    if is_a(value, dict):
        return {
            (name := name_of(key)): walked(item, leaf, inside(place, name), inside, name_of)
            for key, item in value.items()
        }
    if is_a(value, (list, tuple)):
        kind = tuple if type(value) is tuple else list
        items = enumerate(value)
        return kind(walked(item, leaf, inside(place, number), inside, name_of) for number, item in items)
    return leaf(value, place)


def key_text(key: Any) -> str:
    """Return a key as text, as JSON has it.

    >>> key_text(1.5), key_text(None), key_text((1, 2))
    ('1.5', 'null', '(1, 2)')
    """
    return json.dumps(key) if type(key) in JSON_KEYS else whole_characters(shown(key, str))


def without_address(text: str) -> str:
    """Return a text without the memory addresses of objects, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)
