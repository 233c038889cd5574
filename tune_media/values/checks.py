"""Checks of single arguments: the message names the argument, says what it takes, and shows the value."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tune_media.values import problems
from tune_media.values.foreign import shown

_MAX_SHOWN = 80  # characters of a value in a message
_MAX_NAMES = 10
_NEAR, _NEAR_PART, _SIMILAR = 0.85, 0.75, 0.7  # how similar a name, or a part of it, is that was meant; 1: equal
_Callable = TypeVar("_Callable", bound=Callable[..., Any])


def as_shown(value: Any) -> str:
    """Return a value's repr on one line, cut short, for a message; a class is called a class."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = " ".join(shown(value).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 4].rstrip(', ')} ..."


def did_you_mean(name: object, choices: Iterable[str], there_are: str = "there are") -> str:
    """Return the end of a message about a name that is not there: the name that was meant, or those that there are.

    >>> did_you_mean("retrun", ["return", "length"])
    "did you mean 'return'?"
    >>> did_you_mean("trigger", ["step", "episode_trigger"])
    "did you mean 'episode_trigger'?"
    >>> did_you_mean("x", ["return", "length"], "the fields are")
    "the fields are 'return', 'length'."
    """
    names = list(dict.fromkeys(choices))
    text, parts = str(name), {part: choice for choice in reversed(names) for part in re.split("[/_]", choice)}
    near = (
        difflib.get_close_matches(text, names, 1, _NEAR)
        or [parts[part] for part in difflib.get_close_matches(text, parts, 1, _NEAR_PART)]
        or [part for part in re.split("[/_]", text) if part in names]
        or difflib.get_close_matches(text, names, 1, _SIMILAR)
    )
    if near:
        return problems.remedy(f"did you mean {near[0]!r}?")
    return f"{there_are} {name_some(names)}." if names else "there are none."


def name_some(names: Iterable[object]) -> str:
    """Return a few names or values as text, and how many there are besides."""
    names = list(names)
    text = ", ".join(repr(name) for name in names[:_MAX_NAMES])
    return text + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")


def first_names(names: Sequence[str], most: int = 5, *, count: int | None = None) -> str:
    """Return the first names as text, and whether there are more; ``count``: how many there are, if not all are given.

    >>> first_names(["a", "b", "c"], 2), first_names(["a"], 2), first_names(["a", "b"], 2, count=9)
    ('a, b, ...', 'a', 'a, b, ...')
    """
    return ", ".join(names[:most]) + (", ..." if (len(names) if count is None else count) > most else "")


def check_names(function: str, names: Iterable[str], arguments: Iterable[str]) -> None:
    """Raise a TypeError that names the argument that was meant if one of those that a user passed is unknown."""
    arguments = list(arguments)
    for name in names:
        if name not in arguments:
            hint = did_you_mean(name, arguments, "it takes")
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}; {hint}")


def suggests_names(called: _Callable) -> _Callable:
    """Make a function, or a class, name the argument that was meant if it is given one that it does not have.

    >>> @suggests_names
    ... def clip(*, fps=30):
    ...     return fps
    >>> clip(fpss=20)
    Traceback (most recent call last):
    TypeError: clip() got an unexpected keyword argument 'fpss'; did you mean 'fps'?
    """
    arguments = list(inspect.signature(called).parameters)
    inner: Any = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]

    @functools.wraps(inner)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_names(called.__name__, kwargs, arguments)
        return inner(*args, **kwargs)

    if not isinstance(called, type):
        return checked  # type: ignore[return-value]
    called.__init__ = checked  # type: ignore[misc]
    return called


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, of Python's or NumPy's; a truth value is none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


@dataclass(frozen=True)
class Takes:
    """The values that an argument takes: one row of a table of options."""

    text: str  # what it takes, as a message says it
    # whether a value is of a type that can be; any other value is a ``TypeError``
    is_kind: Callable[[Any], bool] = lambda value: True
    fits: Callable[[Any], bool] = lambda value: True  # whether such a value can work; any other is a ``ValueError``
    or_none: bool = False  # whether None can, too
    example: str = ""  # a value that works, as code; empty if the text needs none

    def check(self, argument: str, value: Any) -> None:
        """Raise a TypeError if the value is of the wrong type, a ValueError if it cannot work."""
        if value is None and self.or_none:
            return
        is_kind = self.is_kind(value)
        if is_kind and self.fits(value):
            return
        takes = f"{self.text}{' or None' if self.or_none else ''}"
        takes += f", for example {self.example}" if self.example else ""
        raise (ValueError if is_kind else TypeError)(refusal(argument, takes, value))


def refusal(argument: str, takes: str, value: Any) -> problems.Message:
    """Return the message for an argument that takes something else than the value that it got."""
    return problems.argument(argument) + f" takes {takes}, got {as_shown(value)}."


def check_each(function: str, values: Mapping[str, Any], table: Mapping[str, Takes]) -> None:
    """Check the arguments of a function by a table of what each takes. Raises TypeError or ValueError."""
    for name, takes in table.items():
        takes.check(f"{function}({name}=...)", values[name])


FLAG = Takes("True or False", lambda value: isinstance(value, bool))
SECONDS = Takes("a number of seconds above 0", is_number, lambda value: bool(value > 0))  # also infinity: no limit


def a_text(example: str, *, or_none: bool = False) -> Takes:
    """Return the row of an argument that is text."""
    return Takes("text", lambda value: isinstance(value, str), or_none=or_none, example=example)


def an_instance(words: str, kind: type | tuple[type, ...], *, example: str = "") -> Takes:
    """Return the row of an argument that is an instance of a class, or None."""
    return Takes(words, lambda value: isinstance(value, kind), or_none=True, example=example)


def a_function(argument: str, *, or_none: bool = False) -> Takes:
    """Return the row of an argument that is a function of one argument.

    >>> a_function("the step").check("collect=", 3)
    Traceback (most recent call last):
    TypeError: collect= takes a function that is called with one argument, the step, got 3.
    """
    words = f"a function that is called with one argument, {argument}"
    return Takes(words, lambda value: callable(value) and _takes_one(value), or_none=or_none)


def one_of(*choices: str) -> Takes:
    """Return the row of an argument that is one of some names.

    >>> one_of("max", "min").check("catalog.best(mode=...)", "mx")
    Traceback (most recent call last):
    ValueError: catalog.best(mode=...) takes 'max' or 'min', got 'mx'.
    """
    *others, last = map(repr, choices)
    return Takes(f"{', '.join(others)} or {last}", fits=lambda value: isinstance(value, str) and value in choices)


def above_0(most: float = math.inf, *, whole: bool = False, or_none: bool = False, example: str = "") -> Takes:
    """Return the row of an argument that is a finite number above 0."""

    def fits(value: Any) -> bool:
        return bool(0 < value <= most and value < math.inf and (not whole or value == int(value)))

    words = f"a {'whole ' if whole else ''}number above 0{'' if most == math.inf else f' (at most {most})'}"
    return Takes(words, is_number, fits, or_none, example)


def between(lowest: float, highest: float, *, or_none: bool = False) -> Takes:
    """Return the row of an argument that is a number between two others, both included.

    >>> between(1, 50).check("save(fps=...)", 100)
    Traceback (most recent call last):
    ValueError: save(fps=...) takes a number from 1 to 50, got 100.
    """
    words = f"a number from {lowest} to {highest}"
    return Takes(words, is_number, lambda value: bool(lowest <= value <= highest), or_none)


def a_count(words: str, least: float = 1, most: float = math.inf, *, or_none: bool = False, example: str = "") -> Takes:
    """Return the row of an argument that counts something, as an integer.

    >>> a_count("a number of episodes").check("best(k)", 0)
    Traceback (most recent call last):
    ValueError: best(k) takes a number of episodes, got 0.
    """

    def fits(value: Any) -> bool:
        return isinstance(value, numbers.Integral) and least <= int(value) <= most

    return Takes(words, is_number, fits, or_none, example)


def check_encodes(argument: str, text: str) -> None:
    """Raise a ValueError for text with half of a character (a lone surrogate), which cannot be written or sent.

    >>> check_encodes("RecordEpisodes(name_prefix=...)", "ok\\ud800")
    Traceback (most recent call last):
    ValueError: RecordEpisodes(name_prefix=...): 'ok\\ud800' holds half of a character, which cannot be encoded.
    """
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError(f"{argument}: {as_shown(text)} holds half of a character, which cannot be encoded.")


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a builtin
        return True
    return True


def local_path(argument: str, path: Any) -> Path:
    """Return a path on this machine; a ``~`` at its beginning is the user's home. Raises TypeError or ValueError."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{argument} takes a path, got {as_shown(path)}.")
    if "\0" in os.fspath(path):
        raise ValueError(f"{argument} takes a path, and {os.fspath(path)!r} holds a NUL character.")
    try:
        os.fsencode(path)  # the system's own names of other bytes pass
    except UnicodeEncodeError:
        check_encodes(argument, os.fspath(path))
    try:
        return Path(path).expanduser()
    except RuntimeError:  # ~nobody
        return Path(path)


def file_content(argument: str, path: Any) -> bytes:
    """Return the content of a file that a user names. Raises TypeError, ValueError, or OSError that names both."""
    place = local_path(argument, path)
    try:
        return place.read_bytes()
    except OSError as error:
        why = f": {str(place)!r} cannot be read: {error.strerror or type(error).__name__}."
        raise type(error)(problems.argument(argument) + why) from error


def number_range(argument: str, value: Any) -> tuple[float, float] | None:
    """Return the first and the last number of a range; a single number is both. Raises TypeError or ValueError.

    >>> number_range("gate(bounds=...)", 20), number_range("gate(bounds=...)", [10, 20])
    ((20, 20), (10, 20))
    >>> number_range("gate(bounds=...)", "20")
    Traceback (most recent call last):
    TypeError: gate(bounds=...) takes a number, or the first and the last, got '20'.
    """
    if value is None:
        return None
    try:
        first, last = (value, value) if is_number(value) else value
    except (TypeError, ValueError):
        first = last = None
    if is_number(first) and is_number(last):
        if not first <= last:
            raise ValueError(refusal(argument, "the first and the last of a range", value))
        return first, last
    raise TypeError(refusal(argument, "a number, or the first and the last", value))
