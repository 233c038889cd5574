"""Makes a result that every logger can write: text as keys, no value that contains itself or cannot be shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tune_media.values.convert import is_of_known_library
from tune_media.values.foreign import JSON_KEYS, is_a, is_readable, key_text
from tune_media.values.medium import Medium
from tune_media.values.strict_json import MAX_INT_BITS

_MAX_DEPTH = 32
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

    def clean(self, value: Any, at: str, around: tuple[int, ...]) -> Any:
        """Return a value, changed in place, or what replaces it."""
        kind = type(value)
        if kind in _PLAIN or is_a(value, Medium):
            return value
        try:
            if kind is int:
                is_large = value.bit_length() > MAX_INT_BITS
                return self._replaced(value, at, "is too large a number") if is_large else value
            if not is_a(value, (dict, np.ndarray, *_SEQUENCES)):
                # Text of a tensor or table takes long; if it cannot be converted, the reader looks at its text.
                is_text = is_of_known_library(value) or is_readable(value)
                return value if is_text else self._replaced(value, at, "raises when it is turned into text")
            if is_a(value, np.ndarray) and not value.dtype.hasobject:
                return value
            if id(value) in around:
                return self._replaced("<contains itself>", at, "contains itself")
            self._containers += 1
            if len(around) >= _MAX_DEPTH:
                return self._replaced("<too deep>", at, f"is more than {_MAX_DEPTH} levels down")
            if self._containers > _MAX_CONTAINERS:
                return self._replaced("<too many>", at, f"comes after {_MAX_CONTAINERS} other lists and dicts")
            clean = self._dict if is_a(value, dict) else self._sequence
            return clean(value, at, (*around, id(value)))
        except Exception as error:  # a container that raises when it is read
            return self._replaced(value, at, f"cannot be read ({type(error).__name__})")

    def _dict(self, mapping: Any, at: str, around: tuple[int, ...]) -> Any:
        has_other_keys = False
        for key, value in list(dict.items(mapping)):
            if type(key) is not str or not key.isascii():
                has_other_keys = True
            elif type(value) is not float:
                cleaned = self.clean(value, f"{at}/{key}" if at else key, around)
                if cleaned is not value:
                    dict.__setitem__(mapping, key, cleaned)
        if has_other_keys:
            items = list(dict.items(mapping))
            dict.clear(mapping)
            for key, value in items:
                self._put(mapping, key, value, at, around)
        return mapping

    def _put(self, mapping: Any, key: Any, value: Any, at: str, around: tuple[int, ...]) -> None:
        text = key_text(key)
        place = f"{at}/{text}" if at else text
        if text in mapping:
            self._report(place, "is the text of two keys; the first one is kept")
            return
        is_same = type(key) is str and text == key
        if not is_same and type(key) not in JSON_KEYS and not is_a(key, np.integer):
            self._report(place, f"is the text of a key of type {type(key).__name__}; keys must be whole text")
        is_clean = type(key) is str and key.isascii()
        dict.__setitem__(mapping, text, value if is_clean else self.clean(value, place, around))

    def _sequence(self, values: Any, at: str, around: tuple[int, ...]) -> Any:
        items = values.ravel().tolist() if is_a(values, np.ndarray) else list(values)
        kinds = set(map(type, items))
        if kinds <= _PLAIN or (kinds == {int} and max(map(int.bit_length, items)) <= MAX_INT_BITS):
            return values
        cleaned = [self.clean(item, at, around) for item in items]
        if all(new is item for new, item in zip(cleaned, items, strict=True)):
            return values
        if type(values) is list:
            values[:] = cleaned
            return values
        return tuple(cleaned) if is_a(values, tuple) else cleaned

    def _replaced(self, value: Any, at: str, reason: str) -> str:
        self._report(at, reason)
        return value if type(value) is str else f"<{type(value).__name__}>"
