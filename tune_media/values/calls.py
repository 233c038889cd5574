"""The text of a call, as people write it: the repr of what the call made."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, ParamSpec, TypeVar

from tune_media.values.checks import as_shown
from tune_media.values.foreign import without_address

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def call_text(name: str, args: Sequence[Any] = (), options: Mapping[str, Any] | None = None) -> str:
    """Return a call with its arguments; a function among these is its name.

    >>> call_text("where", [len, "all"], {"limit": None})
    "where(len, 'all', limit=None)"
    """
    parts = [*map(_shown, args), *(f"{option}={_shown(value)}" for option, value in (options or {}).items())]
    return f"{name}({', '.join(parts)})"


def shows_call(maker: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """Make a function note the call in what it returns, whose repr shows it by ``call_of``."""

    @functools.wraps(maker)
    def noting(*args: _Given.args, **options: _Given.kwargs) -> _Made:
        made = maker(*args, **options)
        object.__setattr__(made, "_call", call_text(maker.__name__, args, options))  # it may be frozen
        return made

    return noting


def call_of(made: Any) -> str:
    """Return the call that made an object; empty if nothing noted it."""
    return str(vars(made).get("_call", ""))


def _shown(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    if callable(value) and isinstance(name, str):
        return name.rpartition("<locals>.")[2]
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_shown, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    # params.json has the text, by which trials are compared: an address would tell two equal ones apart
    return without_address(repr(value) if is_dataclass(value) else as_shown(value))
