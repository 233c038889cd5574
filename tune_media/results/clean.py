"""Walks a result; makes it one that loggers can write: text as keys, no value that contains itself or has no text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, ClassVar

import numpy as np

from tune_media.values.convert import is_of_known_library
from tune_media.values.foreign import JSON_KEYS, MAX_INT_BITS, UnreadableError, is_a, key_text, leaf_text, opened
from tune_media.values.medium import Medium

_MAX_CONTAINERS = 100_000  # of a result, each counted wherever it is
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)  # Ray 2.50 reports a metric that has a window as a deque
_NUMPY: set[type] = {*np.sctypeDict.values()} - {np.object_, np.str_}
PLAIN: frozenset[type] = frozenset({str, float, bool, complex, bytes, type(None), *_NUMPY})
"""Types of values that every logger can write, and that hold no other values."""


def clean_result(result: dict[str, Any], report: Callable[[str, str], None] = lambda place, reason: None) -> None:
    """Make all keys of a result text, and replace what no logger can write by text; in place.

    The walk is bounded in depth and size, so that flattening or writing the result ends, too. ``report`` gets the place
    of each change, and what was wrong there.

    >>> result = {"score": 1.0, "of": {(1, 2): 3, None: 4}}
    >>> result["of"]["itself"] = result
    >>> clean_result(result)
    >>> result
    {'score': 1.0, 'of': {'(1, 2)': 3, 'null': 4, 'itself': '<contains itself>'}}
    """
    _Cleaner(report, lambda place, key: f"{place}/{key}" if place else key).walk(result, "")


class ResultWalk(ABC):
    """One walk through a result, bounded in depth and size, that replaces values in place."""

    plain: ClassVar[frozenset[type]] = PLAIN  # types of values that stay as they are
    _containers = 0

    def __init__(self, report: Callable[[Any, str], None], inside: Callable[[Any, str], Any]) -> None:
        self._report = report  # gets the place of a value that is not taken, and the reason
        self._inside = inside  # makes the place of an item of a dict

    def walk(self, value: Any, place: Any, around: tuple[int, ...] = ()) -> Any:
        """Return a value, changed in place, or its replacement; ``around`` are the ids of the containers around it."""
        if type(value) in (plain := self.plain):
            return value
        try:
            if not (is_a(value, _CONTAINERS) or (is_a(value, np.ndarray) and value.dtype.hasobject)):
                return self._leaf(value, place)
            items = opened(value, around)
            self._containers += 1
            if self._containers > _MAX_CONTAINERS:
                raise UnreadableError(f"comes after {_MAX_CONTAINERS} other lists and dicts", "<too many>")
        except UnreadableError as error:
            self._report(place, str(error))
            return error.text
        around = (*around, id(value))
        if not is_a(value, dict):
            return self._sequence(value, items, place, around)
        own = self._items(value, place)
        if plain.issuperset(map(type, dict.values(value))):  # as of most
            return value
        for key, item in own:
            kind = type(item)
            if kind not in plain and (kind is not int or item.bit_length() > MAX_INT_BITS):  # most are numbers
                replaced = self.walk(item, self._inside(place, key), around)
                if replaced is not item:
                    dict.__setitem__(value, key, replaced)
        return value

    def _items(self, mapping: Any, place: Any) -> Collection[tuple[str, Any]]:
        return dict.items(mapping)

    @abstractmethod
    def _leaf(self, value: Any, place: Any) -> Any:
        """Return a value that is no container, or its replacement. May raise UnreadableError."""

    @abstractmethod
    def _sequence(self, values: Any, items: Collection[Any], place: Any, around: tuple[int, ...]) -> Any:
        """Return a list, tuple, set, deque or array of objects with its items walked, or its replacement."""


class _Cleaner(ResultWalk):
    def _leaf(self, value: Any, place: str) -> Any:
        if type(value) is int and value.bit_length() <= MAX_INT_BITS:
            return value
        # Text of a tensor or table takes long; if it cannot be converted, the reader looks at its text.
        if not (is_a(value, (Medium, np.ndarray)) or is_of_known_library(value)):
            leaf_text(value)
        return value

    def _sequence(self, values: Any, items: Collection[Any], place: str, around: tuple[int, ...]) -> Any:
        kinds = set(map(type, items))
        if kinds <= PLAIN or (kinds == {int} and max(map(int.bit_length, items)) <= MAX_INT_BITS):
            return values
        cleaned = [self.walk(item, place, around) for item in items]
        if all(new is item for new, item in zip(cleaned, items, strict=True)):
            return values
        if type(values) is list:
            values[:] = cleaned
            return values
        return tuple(cleaned) if is_a(values, tuple) else cleaned

    def _items(self, mapping: Any, place: str) -> Collection[tuple[str, Any]]:
        """Make the keys text, and return the items."""
        keys, items = dict.keys(mapping), dict.items(mapping)
        if set(map(type, keys)) <= {str} and "".join(keys).isascii():
            return items
        before = list(items)
        dict.clear(mapping)
        for key, value in before:
            text = key_text(key)
            if dict.__contains__(mapping, text):
                self._report(self._inside(place, text), "is the text of two keys; the first one is kept")
                continue
            if (type(key) is not str or text != key) and type(key) not in JSON_KEYS and not is_a(key, np.integer):
                reason = f"is the text of a key of type {type(key).__name__}; keys must be whole text"
                self._report(self._inside(place, text), reason)
            dict.__setitem__(mapping, text, value)
        return items
