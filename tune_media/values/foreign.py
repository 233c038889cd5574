"""Looks at objects that other people's code made, and never raises: their ``__class__`` and ``__repr__`` may."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

MAX_LEVELS = 32
"""How many containers may lie in each other in a value that is walked."""
MAX_INT_BITS = 1000
"""Python itself refuses to write or read much larger integers."""
_BUILTIN: dict[type, Callable[[Any], Any]] = {int: int.__int__, float: float.__float__, str: str.__str__}
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


def whole_characters(text: str) -> str:
    """Return text without halves of characters, which no page, table, terminal or tracker takes."""
    return text if type(text) is str and text.isascii() else str(text).encode("utf-8", "replace").decode()


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Like ``isinstance``, without asking the value's ``__class__`` attribute, which may raise or lie.

    >>> is_a(True, int), is_a("1", (int, float))
    (True, False)
    """
    return issubclass(type(value), kinds)


class UnreadableError(ValueError):
    """Why a value is not taken as it is, in words that follow its name; ``text`` stands for it."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(reason)
        self.text = text


def as_builtin(value: Any) -> Any:
    """Return a number or text of NumPy, or of a subclass, as Python's own; any other value as it is.

    >>> as_builtin(np.longdouble(0.5)), as_builtin(np.str_("x")), as_builtin(None)
    (0.5, 'x', None)
    """
    if is_a(value, np.generic):
        value = float(value) if is_a(value, np.floating) else value.item()
    if type(value) is not bool:
        for kind, own in _BUILTIN.items():
            if is_a(value, kind):
                return own(value)
    return value


def leaf_text(value: Any) -> str:
    """Return a value that is no container as text; the one rule for the leaves of all walks.

    Raises UnreadableError if it is too large an integer, or raises when loggers turn it into text.
    """
    if is_a(value, int) and int.bit_length(value) > MAX_INT_BITS:
        raise UnreadableError("is too large a number", f"<{type(value).__name__}>")
    try:
        repr(value)
        return str(value)
    except Exception as error:
        raise UnreadableError("raises when it is turned into text", f"<{type(value).__name__}>") from error


def opened(value: Any, around: tuple[int, ...]) -> Collection[Any]:
    """Return the items of a container, pairs for a mapping; ``around`` are the ids of the containers around it.

    Raises UnreadableError if it contains itself, is too deep, or raises when it is read: the one rule for all walks.
    """
    if id(value) in around:
        raise UnreadableError("contains itself", "<contains itself>")
    if len(around) >= MAX_LEVELS:
        raise UnreadableError(f"is more than {MAX_LEVELS} levels down", "<too deep>")
    if is_a(value, dict):
        return dict.items(value)  # a subclass may override items()
    if type(value) is list or type(value) is tuple:
        return value
    try:
        if is_a(value, np.ndarray):
            return list(value.flat)
        return list(value.items() if is_a(value, Mapping) else value)
    except Exception as error:
        raise UnreadableError(f"cannot be read ({type(error).__name__})", f"<{type(value).__name__}>") from error


def walked(
    value: Any,
    leaf: Callable[[Any, Any], Any],
    place: Any = None,
    inside: Callable[[Any, Any], Any] = lambda place, key: None,
    name_of: Callable[[Any], Any] = lambda key: key,
    around: tuple[int, ...] = (),
) -> Any:
    """Return a copy of dicts, lists and tuples in each other, with what ``leaf`` returns for all other values.

    ``leaf`` gets a value and its place; ``inside`` makes the place of a key, or of a number, from the one around it. A
    container that ``opened`` refuses becomes its text.

    >>> walked({1: [2, (3,)]}, lambda value, place: -value, name_of=str)
    {'1': [-2, (-3,)]}
    """
    if not is_a(value, (dict, list, tuple)):
        return leaf(value, place)
    try:
        items = opened(value, around)
    except UnreadableError as error:
        return error.text

    around = (*around, id(value))
    if is_a(value, dict):
        return {
            (name := name_of(key)): walked(item, leaf, inside(place, name), inside, name_of, around)
            for key, item in items
        }
    kind = tuple if type(value) is tuple else list
    return kind(walked(item, leaf, inside(place, i), inside, name_of, around) for i, item in enumerate(items))


def key_text(key: Any) -> str:
    """Return a key as text, as JSON has it.

    >>> key_text(1.5), key_text(None), key_text((1, 2))
    ('1.5', 'null', '(1, 2)')
    """
    return json.dumps(key) if type(key) in JSON_KEYS else whole_characters(shown(key, str))


def without_address(text: str) -> str:
    """Return a text without the memory addresses of objects, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)
