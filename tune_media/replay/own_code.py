"""The user's code in memory that an env consists of: its modules, the globals that it names, and a hash of it."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from typing import Any

_INSTALLED = tuple({*sysconfig.get_paths().values(), os.path.dirname(os.__file__)})  # noqa: PTH120 - as they are written
_PACKAGES = ("site-packages", "dist-packages")
_MOST_FUNCTIONS = 4000
_UNCHANGING = (type(None), bool, int, float, complex, str, bytes)


@functools.lru_cache(4096)
def is_installed(module: str) -> bool:
    """Return whether a module is one that was installed, not a file of the user's.

    >>> is_installed("numpy"), is_installed("__main__")
    (True, False)
    """
    if module == "__main__" or module.partition(".")[0] == "tune_media":
        return module != "__main__"
    loaded = sys.modules.get(module)
    if loaded is None:
        return False  # a class that was pickled by its code
    file = getattr(loaded, "__file__", None)
    if file is None:
        return module in sys.builtin_module_names or hasattr(loaded, "__path__")
    return any(part in file for part in _PACKAGES) or file.startswith(_INSTALLED)


@functools.lru_cache(256)
def globals_of(classes: tuple[type, ...]) -> tuple[tuple[str, dict[str, Any], str], ...]:
    """Return the globals that the user's classes and the functions that these name use, as module, dict and name."""
    # the functions of a class that was pickled by its code have their own globals
    holders: dict[tuple[str, str], dict[str, Any]] = {}
    for function in _functions_of(classes):
        for module, holder, name in _named_by(function):
            if not name.startswith("__"):
                holders.setdefault((module, name), holder)
    return tuple((module, holder, name) for (module, name), holder in sorted(holders.items(), key=lambda item: item[0]))


def _functions_of(classes: Iterable[type]) -> Iterator[types.FunctionType]:
    """Yield the functions of the user's classes, and those of the user's functions and classes that they name."""
    todo: list[Any] = [part for part in classes if not is_installed(part.__module__)]
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if id(part) in seen or len(seen) > _MOST_FUNCTIONS:
            continue
        seen.add(id(part))
        if isinstance(part, type):
            todo += [
                inner
                for value in vars(part).values()
                for inner in (value, getattr(value, "__func__", None), getattr(value, "fget", None))
                if isinstance(inner, types.FunctionType)
            ]
            continue
        yield part
        for _, holder, name in _named_by(part):
            value = holder[name]
            if isinstance(value, (types.FunctionType, type)) and not is_installed(str(value.__module__)):
                todo.append(value)


def _named_by(function: types.FunctionType) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the globals that a function names: its own, and those of the user's modules that it names."""
    namespace, names = function.__globals__, set(_names_in(function.__code__))
    holders = [(str(function.__module__), namespace)]
    for name in names:
        value = namespace.get(name)
        if isinstance(value, types.ModuleType) and not is_installed(value.__name__):
            holders.append((value.__name__, vars(value)))
    for module, holder in holders:
        for name in names & holder.keys():
            yield module, holder, name


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def code_hashes(classes: Iterable[type]) -> dict[str, str]:
    """Return a hash by ``module:function`` of each function of the user's modules in or named by some classes.

    Classes of ``__main__``, and those that are pickled by their code, travel with a recipe and have none.
    """
    hashes = {}
    for function in _functions_of(tuple(classes)):
        module = str(function.__module__)
        loaded = sys.modules.get(module)
        if module != "__main__" and loaded is not None and vars(loaded) is function.__globals__:
            defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
            shown = [repr(value) for value in defaults if isinstance(value, _UNCHANGING)]
            digest = hashlib.sha256(repr((facts_of_code(function.__code__), shown)).encode()).hexdigest()
            hashes[f"{module}:{function.__qualname__}"] = digest[:12]
    return dict(sorted(hashes.items()))


def facts_of_code(code: types.CodeType) -> Any:
    """Return the instructions of a code object, without lines and docstring; the same ``repr`` in every process.

    >>> facts_of_code((lambda: 3).__code__) == facts_of_code((lambda: 4).__code__)
    False
    """
    first = code.co_consts[:1]
    has_docstring = first and isinstance(first[0], str) and not code.co_name.startswith("<")  # as comprehensions have
    constants = code.co_consts[1:] if has_docstring else code.co_consts
    parts = [facts_of_code(item) if isinstance(item, types.CodeType) else _constant(item) for item in constants]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, parts


def _constant(value: Any) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
