"""Old names of arguments: they still work, and say what they are called now."""

from __future__ import annotations

import warnings
from typing import TypeVar

_Value = TypeVar("_Value")


def renamed(old: str, new: str, given: _Value, value: _Value, *, stacklevel: int = 3) -> _Value:
    """Return what was passed under the old name of an argument, or else under the new one.

    Args:
        old: The old name, as in ``best(metric=...)``.
        new: The new one, as in ``by=``.
        given: The argument of the old name; None: it was not passed.
        value: The argument of the new name.
        stacklevel: Which caller the warning names, as in ``warnings.warn``.

    Raises:
        TypeError: Both were passed.

    Example:
        >>> renamed("best(metric=...)", "by=", None, "episode_return")
        'episode_return'
    """
    if given is None:
        return value
    if value is not None:
        raise TypeError(f"{old} is the old name of {new}; pass {new} only.")
    warnings.warn(f"{old} is called {new} now; the old name will go away.", DeprecationWarning, stacklevel=stacklevel)
    return given
