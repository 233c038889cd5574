"""The user's source of which policies and envs are made: the files of modules, and of those that these import."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import itertools
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from tune_media.replay.own_code import is_installed, is_installed_file


def sources_of(modules: Iterable[str]) -> dict[str, str]:
    """Return a digest of the file of each of the user's modules among some, and of those that these import, by name.

    Imports count wherever they stand, also in a function that has not been called. No module is imported for it.
    """
    sources: dict[str, str] = {}
    todo = list(modules)
    while todo:
        name = todo.pop()
        file = None if name in sources else _file_of(name)
        if file is not None:
            content = file.read_bytes()
            sources[name] = hashlib.sha256(content).hexdigest()[:12]
            with contextlib.suppress(SyntaxError, ValueError):  # a library, or a source that cannot be imported
                todo += _imported(name if file.stem == "__init__" else name.rpartition(".")[0], ast.parse(content))
    return sources


def users_modules() -> frozenset[str]:
    """Return the names of the user's modules that this process has imported."""
    return frozenset(name for name in list(sys.modules) if name != "__main__" and not is_installed(name))


def module_of(function: Any) -> str:
    """Return the name of the module that a function, or an object that is called, is of."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__module__", ""))


def _file_of(module: str) -> Path | None:
    """Return the file of one of the user's modules; None: it is installed, or cannot be found."""
    if module.partition(".")[0] == "tune_media":
        return None
    file = None
    with contextlib.suppress(Exception):  # a module may be any object, and finders are of libraries
        file = getattr(sys.modules.get(module), "__file__", None) or getattr(_spec_of(module), "origin", None)
    is_users = isinstance(file, str) and not is_installed_file(file) and Path(file).is_file()
    return Path(str(file)) if is_users else None


def _spec_of(module: str) -> ModuleSpec | None:
    """Return where a module is; unlike ``importlib.util.find_spec`` it imports no package for it."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__spec__", None)
    package = module.rpartition(".")[0]
    if not package:
        return importlib.util.find_spec(module)
    parent = _spec_of(package)
    folders = None if parent is None else parent.submodule_search_locations
    return None if folders is None else PathFinder.find_spec(module, list(folders))


def _imported(package: str, tree: ast.AST) -> Iterator[str]:
    """Yield the names of the modules that a source of a package imports, and of the packages that they are in."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            with contextlib.suppress(ImportError):  # above the top: importing it raises
                origin = importlib.util.resolve_name(origin, package)
                names = [f"{origin}.{alias.name}" for alias in node.names]  # of a module, or in one
        for name in names:
            yield from itertools.accumulate(name.split("."), "{}.{}".format)
