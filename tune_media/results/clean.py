"""Makes a result that every logger can write: text as keys, no value that contains itself or cannot be shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from tune_media.values.convert import is_of_known_library
from tune_media.values.foreign import JSON_KEYS, MAX_INT_BITS, UnopenedError, is_a, is_readable, key_text, opened
from tune_media.values.medium import Medium

_MAX_CONTAINERS = 100_000  # of a result, each counted wherever it is
_PLAIN = frozenset({str, float, bool, complex, bytes, type(None), *np.sctypeDict.values()} - {np.object_, np.str_})
_SEQUENCES = (list, tuple, set, frozenset, deque)


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
    _Cleaner(report).clean(result, "", ())


class _Cleaner:
    """One walk through a result."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._containers = 0

    def clean(self, value: Any, place: str, around: tuple[int, ...]) -> Any:
        """Return a value, changed in place, or what replaces it."""
        kind = type(value)
        if kind in _PLAIN or is_a(value, Medium):
            return value
        if kind is int:
            is_large = value.bit_length() > MAX_INT_BITS
            return self._replaced(value, place, "is too large a number") if is_large else value
        if not is_a(value, (dict, np.ndarray, *_SEQUENCES)):
            # Text of a tensor or table takes long; if it cannot be converted, the reader looks at its text.
            is_text = is_of_known_library(value) or is_readable(value)
            return value if is_text else self._replaced(value, place, "raises when it is turned into text")
        if is_a(value, np.ndarray) and not value.dtype.hasobject:
            return value
        try:
            items = opened(value, around)
            self._containers += 1
            if self._containers > _MAX_CONTAINERS:
                raise UnopenedError(f"comes after {_MAX_CONTAINERS} other lists and dicts", "<too many>")
        except UnopenedError as error:
            return self._replaced(error.text, place, str(error))
        clean = self._dict if is_a(value, dict) else self._sequence
        return clean(value, items, place, (*around, id(value)))

    def _dict(self, mapping: Any, items: Collection[Any], place: str, around: tuple[int, ...]) -> Any:
        has_other_keys = False
        for key, value in items:
            if type(key) is not str or not key.isascii():
                has_other_keys = True
            elif type(value) is not float:
                cleaned = self.clean(value, f"{place}/{key}" if place else key, around)
                if cleaned is not value:
                    dict.__setitem__(mapping, key, cleaned)
        if has_other_keys:
            cleaned_items = list(dict.items(mapping))
            dict.clear(mapping)
            for key, value in cleaned_items:
                self._put(mapping, key, value, place, around)
        return mapping

    def _put(self, mapping: Any, key: Any, value: Any, place: str, around: tuple[int, ...]) -> None:
        text = key_text(key)
        inner = f"{place}/{text}" if place else text
        if dict.__contains__(mapping, text):
            self._report(inner, "is the text of two keys; the first one is kept")
            return
        is_same = type(key) is str and text == key
        if not is_same and type(key) not in JSON_KEYS and not is_a(key, np.integer):
            self._report(inner, f"is the text of a key of type {type(key).__name__}; keys must be whole text")
        is_clean = type(key) is str and key.isascii()
        dict.__setitem__(mapping, text, value if is_clean else self.clean(value, inner, around))

    def _sequence(self, values: Any, items: Collection[Any], place: str, around: tuple[int, ...]) -> Any:
        kinds = set(map(type, items))
        if kinds <= _PLAIN or (kinds == {int} and max(map(int.bit_length, items)) <= MAX_INT_BITS):
            return values
        cleaned = [self.clean(item, place, around) for item in items]
        if all(new is item for new, item in zip(cleaned, items, strict=True)):
            return values
        if type(values) is list:
            values[:] = cleaned
            return values
        return tuple(cleaned) if is_a(values, tuple) else cleaned

    def _replaced(self, value: Any, place: str, reason: str) -> str:
        self._report(place, reason)
        return value if type(value) is str else f"<{type(value).__name__}>"
