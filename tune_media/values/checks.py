"""Checks of single arguments: the message names the argument, says what it takes, and shows the value."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable
from typing import Any

from tune_media.values.foreign import shown

_MAX_SHOWN = 80  # characters of a value in a message
_MAX_NAMES = 10


def as_shown(value: Any) -> str:
    """Return a value as a message shows it: its repr on one line, cut short; a class is called a class.

    >>> as_shown("64"), as_shown([0] * 100)[-5:]
    ("'64'", '0 ...')
    >>> as_shown(dict)
    'the class dict'
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = " ".join(shown(value).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 4].rstrip(', ')} ..."


def did_you_mean(name: object, known: Iterable[str], there_are: str = "there are") -> str:
    """Return the end of a message about a name that is not there: the name that was meant, or those that there are.

    >>> did_you_mean("retrun", ["return", "length"])
    "did you mean 'return'?"
    >>> did_you_mean("x", ["return", "length"], "the fields are")
    "the fields are 'return', 'length'."
    """
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(str(name), names, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"{there_are} {name_some(names)}." if names else "there are none."


def name_some(names: Iterable[str]) -> str:
    """Return a few names as text, and how many there are besides.

    >>> name_some(["a", "b"])
    "'a', 'b'"
    """
    names = list(names)
    text = ", ".join(repr(name) for name in names[:_MAX_NAMES])
    return text + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")


def is_number(value: Any) -> bool:
    """Say whether a value is a real number, of Python's or NumPy's; a truth value is none.

    >>> is_number(3.5), is_number(True), is_number("3")
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_flag(argument: str, value: Any) -> None:
    """Check an argument that is True or False.

    Raises:
        TypeError: It is neither.

    Example:
        >>> check_flag("record_episodes(strict=...)", "yes")
        Traceback (most recent call last):
        TypeError: record_episodes(strict=...) takes True or False, got 'yes'.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{argument} takes True or False, got {as_shown(value)}.")


def check_text(argument: str, value: Any, example: str, *, or_none: bool = True) -> None:
    """Check an argument that is text.

    Raises:
        TypeError: It is not.

    Example:
        >>> check_text("Retention(by=...)", 3, "'episode_return'", or_none=False)
        Traceback (most recent call last):
        TypeError: Retention(by=...) takes text, for example 'episode_return', got 3.
    """
    if not isinstance(value, str) and not (or_none and value is None):
        nothing = " or None" if or_none else ""
        raise TypeError(f"{argument} takes text{nothing}, for example {example}, got {as_shown(value)}.")


def check_positive(argument: str, value: Any, *, whole: bool = False) -> None:
    """Check an argument that is a number above 0.

    Args:
        argument: Its name.
        value: Its value.
        whole: Whether it must be a whole number; if not, it may be infinite.

    Raises:
        TypeError: It is no number.
        ValueError: It is not above 0, or not whole.

    Example:
        >>> check_positive("MediaOptions(gif_width=...)", None)
        Traceback (most recent call last):
        TypeError: MediaOptions(gif_width=...) takes a number, got None.
        >>> check_positive("MediaOptions(gif_width=...)", 0)
        Traceback (most recent call last):
        ValueError: MediaOptions(gif_width=...) must be positive, got 0.
    """
    if not is_number(value):
        raise TypeError(f"{argument} takes a number, got {as_shown(value)}.")
    if not value > 0:
        raise ValueError(f"{argument} must be positive, got {value!r}.")
    if whole and (value == math.inf or value != int(value)):
        raise ValueError(f"{argument} must be a whole number, got {value!r}.")


def number_range(argument: str, value: Any) -> tuple[float, float] | None:
    """Return the first and the last number of a range; a single number is both.

    Raises:
        TypeError: It is neither None, a number, nor a pair of numbers.

    Example:
        >>> number_range("filter(step=...)", 20), number_range("filter(step=...)", [10, 20])
        ((20, 20), (10, 20))
        >>> number_range("filter(step=...)", "20")
        Traceback (most recent call last):
        TypeError: filter(step=...) takes a number, or the first and the last, got '20'.
    """
    if value is None:
        return None
    try:
        first, last = (value, value) if is_number(value) else value
    except (TypeError, ValueError):
        first = last = None
    if is_number(first) and is_number(last):
        return first, last
    raise TypeError(f"{argument} takes a number, or the first and the last, got {as_shown(value)}.")
