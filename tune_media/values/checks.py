"""Checks of single arguments: the message names the argument, says what it takes, and shows the value."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from tune_media.values.foreign import shown

_MAX_SHOWN = 80  # characters of a value in a message
_MAX_NAMES = 10
_NEAR, _NEAR_PART, _SIMILAR = 0.85, 0.75, 0.7  # how similar a name, or a part of it, is that was meant; 1: equal
_Callable = TypeVar("_Callable", bound=Callable[..., Any])


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
    >>> did_you_mean("trigger", ["step", "episode_trigger"])
    "did you mean 'episode_trigger'?"
    >>> did_you_mean("x", ["return", "length"], "the fields are")
    "the fields are 'return', 'length'."
    """
    names = list(dict.fromkeys(known))
    text, parts = str(name), {part: one for one in reversed(names) for part in re.split("[/_]", one)}
    near = (
        difflib.get_close_matches(text, names, 1, _NEAR)
        or [parts[part] for part in difflib.get_close_matches(text, parts, 1, _NEAR_PART)]
        or [part for part in re.split("[/_]", text) if part in names]
        or difflib.get_close_matches(text, names, 1, _SIMILAR)
    )
    if near:
        return f"did you mean {near[0]!r}?"
    return f"{there_are} {name_some(names)}." if names else "there are none."


def name_some(names: Iterable[object]) -> str:
    """Return a few names or values as text, and how many there are besides.

    >>> name_some(["a", "b"])
    "'a', 'b'"
    """
    names = list(names)
    text = ", ".join(repr(name) for name in names[:_MAX_NAMES])
    return text + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")


def check_names(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Check the names of the arguments that a user passed.

    Raises:
        TypeError: One is unknown.

    Example:
        >>> check_names("VideoOptions", ["heigth"], ["height", "width"])
        Traceback (most recent call last):
        TypeError: VideoOptions() got an unexpected keyword argument 'heigth'; did you mean 'height'?
    """
    known = list(known)
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known, "it takes")
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}; {hint}")


def suggests_names(called: _Callable) -> _Callable:
    """Make a function, or a class, name the argument that was meant if it is given one that it does not have.

    Example:
        >>> @suggests_names
        ... def clip(*, fps=30):
        ...     return fps
        >>> clip(fpss=20)
        Traceback (most recent call last):
        TypeError: clip() got an unexpected keyword argument 'fpss'; did you mean 'fps'?
    """
    known = list(inspect.signature(called).parameters)
    inner: Any = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]

    @functools.wraps(inner)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_names(called.__name__, kwargs, known)
        return inner(*args, **kwargs)

    if not isinstance(called, type):
        return checked  # type: ignore[return-value]
    called.__init__ = checked  # type: ignore[misc]
    return called


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, of Python's or NumPy's; a truth value is none.

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


def check_encodes(argument: str, text: str) -> None:
    """Check text that is to be written, or to be sent: half of a character (a lone surrogate) has no encoding.

    Raises:
        ValueError: It has one.

    Example:
        >>> check_encodes("RecordEpisodes(name_prefix=...)", "ok\\ud800")
        Traceback (most recent call last):
        ValueError: RecordEpisodes(name_prefix=...): 'ok\\ud800' holds half of a character, which cannot be encoded.
    """
    if any("\ud800" <= one <= "\udfff" for one in text):
        raise ValueError(f"{argument}: {as_shown(text)} holds half of a character, which cannot be encoded.")


def check_positive(
    argument: str, value: Any, *, whole: bool = False, or_none: bool = False, finite: bool = False
) -> None:
    """Check an argument that is a number above 0.

    Args:
        argument: Its name.
        value: Its value.
        whole: Whether it must be a whole number.
        or_none: Whether it may be None.
        finite: Whether it must be finite, which a whole number is.

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
    if or_none and value is None:
        return
    nothing = " or None" if or_none else ""
    if not is_number(value):
        raise TypeError(f"{argument} takes a number{nothing}, got {as_shown(value)}.")
    if not value > 0 or (finite and value == math.inf):
        raise ValueError(f"{argument} must be positive{nothing}, got {value!r}.")
    if whole and (value == math.inf or value != int(value)):
        raise ValueError(f"{argument} must be a whole number, got {value!r}.")


def takes_one(function: Callable[..., Any]) -> bool:
    """Return whether a function can be called with one argument; True if it does not tell.

    Example:
        >>> takes_one(lambda index: True), takes_one(lambda first, second: True), takes_one(bool)
        (True, False, True)
    """
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a builtin
        return True
    return True


def local_path(argument: str, path: str | os.PathLike[str]) -> Path:
    """Return a path on this machine; a ``~`` at its beginning is the user's home.

    Raises:
        ValueError: No path can be this text.

    Example:
        >>> local_path("Video.from_file(path)", "clip\\0.mp4")
        Traceback (most recent call last):
        ValueError: Video.from_file(path) takes a path, and 'clip\\x00.mp4' holds a NUL character.
    """
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


def check_between(
    argument: str, value: Any, lowest: float, highest: float, *, whole: bool = False, or_none: bool = False
) -> None:
    """Check an argument that is a number between two others, both included.

    Raises:
        TypeError: It is no number.
        ValueError: It is below the lowest or above the highest, or not whole.

    Example:
        >>> check_between("save(fps=...)", 100, 1, 50)
        Traceback (most recent call last):
        ValueError: save(fps=...) takes a number from 1 to 50, got 100.
    """
    if or_none and value is None:
        return
    takes = f"{argument} takes a {'whole ' if whole else ''}number from {lowest} to {highest}"
    takes += " or None" if or_none else ""
    if not is_number(value):
        raise TypeError(f"{takes}, got {as_shown(value)}.")
    if not lowest <= value <= highest or (whole and value != int(value)):
        raise ValueError(f"{takes}, got {value!r}.")


def number_range(argument: str, value: Any) -> tuple[float, float] | None:
    """Return the first and the last number of a range; a single number is both.

    Raises:
        TypeError: It is neither None, a number, nor a pair of numbers.
        ValueError: The first is larger than the last.

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
        if not first <= last:
            raise ValueError(f"{argument} takes the first and the last of a range, got {as_shown(value)}.")
        return first, last
    raise TypeError(f"{argument} takes a number, or the first and the last, got {as_shown(value)}.")
