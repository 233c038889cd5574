"""The language of filters: comparisons of columns, with ``and``, ``or``, ``not``, parentheses, ranges and words.

``return < 20 (task=hard or task=None) not lr=0.001..0.01 "my name" >= 3 trial_7``: what stands side by side must hold
together; a word without a comparison is looked for in all texts. The page reads the same language in filter.js, where a
comparison of a text by size is false instead of an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tune_media.experiment.params import WORDS, in_quotes

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

_TOKEN = re.compile(r'\s*(?:([()])|(<=|>=|!=|==|=|<|>)|((?:"[^"]*"|[^\s()<>=!"])+))')
_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_FEWEST_DIGITS = 4  # that the page shows of a number
_RANGE = re.compile(rf"({_NUMBER})?\.\.({_NUMBER})?")
_MOST_LEVELS = 100  # far below Python's limit of 1,000 calls
_MISSING = ("None", "nan", "unset", "unknown")
_EQUAL = ("=", "==")
_TRUTHS = {"true": "True", "yes": "True", "false": "False", "no": "False"}
_OR, _AND = ("or", "|", "||"), ("and", "&", "&&")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "==": np.equal,
    "!=": np.not_equal,
}


@dataclass(frozen=True)
class Texts:
    """A column of texts that mostly occur many times.

    Attributes:
        indices: For each row the number of its text; -1 if it has none.
        of_texts: The number that each text stands for, NaN if it is none. None if the column has no numbers.
        shown: Other names of the texts, as the page shows them; each has one for each text.
        is_setting: Whether they are hyperparameters: None is a text, and a row without one has it unset.

    >>> column = Texts.of(["a", None, "b", "a"])
    >>> column.equal("a").tolist(), column.equal(None).tolist(), column.take(np.array([1, 2]))
    ([True, False, False, True], [False, True, False, False], [None, 'b'])
    """

    indices: npt.NDArray[np.int32]
    texts: pa.StringArray
    of_texts: Numbers | None = None
    shown: Sequence[pa.StringArray] = ()
    is_setting: bool = False

    @classmethod
    def of(cls, values: Sequence[str | None]) -> Texts:
        """Return the column of some texts."""
        places: dict[str, int] = {}
        indices = [-1 if value is None else places.setdefault(value, len(places)) for value in values]
        return cls(np.array(indices, np.int32), pa.array(list(places), pa.string()))

    def __len__(self) -> int:
        return len(self.indices)

    def equal(self, text: str | None) -> Mask:
        """Return which rows have a text, by any of its names; for None, which have none.

        ``true`` and ``yes`` are also True, ``false`` and ``no`` are False.
        """
        if text is None:
            return self.indices < 0
        texts = pa.array([_TRUTHS.get(text.lower(), text), text], pa.string())
        holds = functools.reduce(pc.or_, [pc.is_in(names, texts) for names in (self.texts, *self.shown)])
        return self._of_rows(holds)

    @property
    def numbers(self) -> Numbers | None:
        """The number of each row, NaN if its text is none; None if the column has no numbers."""
        return None if self.of_texts is None else np.append(self.of_texts, np.nan)[self.indices]

    def contain(self, text: str) -> Mask:
        """Return which rows have a text that another one is part of, in upper or lower case."""
        return self._of_rows(pc.match_substring(self.texts, text, ignore_case=True))

    def ranks(self, rows: Rows) -> Numbers:
        """Return for some rows the place of their text in the alphabet; NaN if they have none."""
        ranks = np.empty(len(self.texts) + 1)
        ranks[np.from_dlpack(pc.sort_indices(self.texts))] = np.arange(len(self.texts))
        ranks[-1] = np.nan  # of the rows that have -1
        return ranks[self.indices[rows]]

    def take(self, rows: Rows) -> list[str | None]:
        """Return the texts of some rows."""
        return [None if index < 0 else self.texts[index].as_py() for index in self.indices[rows].tolist()]

    def _of_rows(self, holds: Any) -> Mask:
        return np.append(as_numpy(holds).astype(bool), False)[self.indices]


def as_numpy(column: Any) -> Numbers:
    """Return a column of Arrow as numbers, with NaN for missing ones."""
    numbers = pc.fill_null(pc.cast(column, pa.float64()), np.nan)
    whole = numbers.combine_chunks() if isinstance(numbers, pa.ChunkedArray) else numbers
    return np.asarray(np.from_dlpack(whole), np.float64)


class Columns(Protocol):
    """The columns that a filter is read against."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def column(self, name: str) -> Numbers | Texts:
        """Return a column by a name that a user typed; ValueError if there is none."""

    def texts(self) -> Sequence[Texts]:
        """Return the columns that words are looked for in."""


def mask(text: str, columns: Columns) -> Mask:
    """Return which rows a filter lets through; ValueError if it cannot be read, or there is no such column."""
    return _Filter(text, columns).read() if text.strip() else np.ones(len(columns), bool)


class _Filter:
    """Reads a filter from left to right: ``or`` of ``and`` of ``not``, parentheses, comparisons and words."""

    def __init__(self, text: str, columns: Columns) -> None:
        self._columns, self._level = columns, 0
        self._tokens: list[str] = []
        start = 0
        while start < len(text.rstrip()):
            match = _TOKEN.match(text, start)
            if not match:
                raise ValueError(f"the filter cannot be read from {text[start:].strip()!r} on.")
            self._tokens.append(next(filter(None, match.groups())))
            start = match.end()

    def read(self) -> Mask:
        passing = self._any()
        if self._tokens:
            raise ValueError(f"the filter has {self._tokens[0]!r} too much.")
        return passing

    def _next(self, *words: str) -> bool:
        """Take the next token if it is one of these."""
        if self._tokens and self._tokens[0].lower() in words:
            self._tokens.pop(0)
            return True
        return False

    def _any(self) -> Mask:
        passing = self._all()
        while self._next(*_OR):
            passing = passing | self._all()
        return passing

    def _all(self) -> Mask:
        passing = self._one()
        while self._next(*_AND) or (self._tokens and self._tokens[0].lower() not in (*_OR, ")")):
            passing = passing & self._one()
        return passing

    def _one(self) -> Mask:
        self._level += 1
        if self._level > _MOST_LEVELS:
            raise ValueError(f"the filter has more than {_MOST_LEVELS} parentheses and 'not' inside each other.")
        passing = self._part()
        self._level -= 1
        return passing

    def _part(self) -> Mask:
        if self._next("not"):
            return ~self._one()
        if self._next("("):
            passing = self._any()
            if not self._next(")"):
                raise ValueError("the filter lacks a ')'.")
            return passing
        if not self._tokens or self._tokens[0] in (*_COMPARE, ")"):
            raise ValueError(f"the filter needs a comparison such as return<20, not {' '.join(self._tokens[:3])!r}.")
        name = self._tokens.pop(0).replace('"', "")
        if not self._tokens or self._tokens[0] not in _COMPARE:
            masks = [column.contain(name) for column in self._columns.texts()]
            return functools.reduce(np.logical_or, masks, np.zeros(len(self._columns), bool))
        operator = self._tokens.pop(0)
        if not self._tokens or self._tokens[0] in (*_COMPARE, "(", ")"):
            raise ValueError(f"the filter needs a value after {name}{operator}.")
        return _compared(self._columns.column(name), operator, self._tokens.pop(0))


def _compared(values: Numbers | Texts, operator: str, text: str) -> Mask:
    if operator == "!=":
        return ~_compared(values, "=", text)
    word = WORDS.get(text.lower())
    text = text if in_quotes(text[1:-1]) == text else text.replace('"', "")
    if isinstance(values, Texts):
        return _compared_texts(values, operator, text, word)
    return np.asarray(np.isnan(values), bool) if word in _MISSING else _compared_numbers(values, operator, text)


def _compared_texts(values: Texts, operator: str, text: str, word: str | None) -> Mask:
    """Compare texts, and numbers that are among them; ``word`` is what the text stands for if it is no text."""
    is_equality, numbers = operator in _EQUAL, values.numbers
    if not is_equality and numbers is None:
        raise ValueError(f"the filter asks if texts are {operator} {text!r}.")
    is_missing = word == "unset" or (word == "None" and not values.is_setting)
    wanted = None if is_missing else word if word and values.is_setting else text
    same = values.equal(wanted) if is_equality else np.zeros(len(values), bool)
    is_number = not is_equality or bool(re.fullmatch(_NUMBER, text) or _RANGE.fullmatch(text))
    return same | _compared(numbers, operator, text) if numbers is not None and is_number else same


def _compared_numbers(values: Numbers, operator: str, text: str) -> Mask:
    """Compare numbers with a number, a truth value, or the ends of a range."""
    is_equality = operator in _EQUAL
    bounds = _RANGE.fullmatch(text) if is_equality else None
    if bounds and (bounds[1] or bounds[2]):
        low, high = float(bounds[1] or "-inf"), float(bounds[2] or "inf")
        return np.asarray((values >= low) & (values <= high), bool)
    try:
        number = {"True": 1.0, "False": 0.0}.get(_TRUTHS.get(text.lower(), ""))
        number = float(text) if number is None else number
    except ValueError:
        raise ValueError(f"the filter compares numbers with {text!r}.") from None
    if is_equality:
        return np.asarray(np.isclose(values, number, rtol=1e-9, atol=0.0), bool) | _is_shown_as(values, number, text)
    return np.asarray(_COMPARE[operator](values, number), bool)


def _is_shown_as(values: Numbers, number: float, text: str) -> Mask:
    """Return which values the page shows as a number: rounded as ui.js does, or to the four or more digits of its text.

    >>> _is_shown_as(np.array([0.00123456, 0.0012, np.nan]), 0.001235, "0.001235").tolist()
    [True, False, False]
    >>> _is_shown_as(np.array([123.46, 9.876, 1.23456e-05]), 9.88, "9.88").tolist()
    [False, True, False]
    """
    digits = len(re.sub(r"^-?[0.]*|[eE].*|\.", "", text))
    size = np.abs(values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        own = np.where((size >= 1e6) | (size < 1e-3), 3, np.where(size < 1, 4, np.inf))
        own = np.where(size == np.floor(size), np.inf, own)  # a whole number is shown as it is
        rounded = np.where(np.isinf(own), _rounded(size, np.where(size >= 100, 10.0, 100.0)), _to_digits(size, own))
        found = np.isclose(rounded, abs(number), rtol=1e-9, atol=0.0)
        if digits >= _FEWEST_DIGITS and re.search(r"[.eE]", text):
            found |= np.isclose(_to_digits(size, digits), abs(number), rtol=1e-9, atol=0.0)
        return np.asarray(found & (np.sign(values) == np.sign(number)), bool)


def _to_digits(values: Numbers, digits: Any) -> Numbers:
    """Return positive numbers rounded to some significant digits."""
    return _rounded(values, 10.0 ** (digits - 1 - np.floor(np.log10(values))))


def _rounded(values: Numbers, scale: Numbers) -> Numbers:
    """Return numbers rounded to multiples of one over a scale, halves up, as JavaScript does."""
    return np.asarray(np.floor(values * scale + 0.5) / scale)
