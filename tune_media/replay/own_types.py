"""Which classes belong to an env, and what is done with the values of a type when the env's state is read."""

from __future__ import annotations

import enum
import functools
import random
import types
from collections import deque
from collections.abc import Callable

import numpy as np

from tune_media.replay.leaves import ARRAY, ATOMS, BUFFER, BUFFERS, COMPARED_AS_TEXT, ENUM, LARGE, OBJECT, UNREAD, VALUE
from tune_media.replay.own_code import is_installed

GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
CONTAINER, FUNCTION, GENERATOR, SPACE, SKIPPED = "container", "function", "generator", "space", "skipped"
"""What is done with the values of a type, beside the kinds of leaves."""
_SKIPPED_TYPES = (
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    property,
    classmethod,
    staticmethod,
    np.dtype,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
)
_SKIPPED_MODULES = ("tune_media.", "gymnasium.envs.registration", "logging", "threading")
_FOREIGN_CLASSES = ("builtins", "gymnasium.core", "gymnasium.wrappers", "typing", "abc", "collections", "pettingzoo")


class OwnTypes:
    """Tells the classes that belong to an env from those of others, each asked once.

    Args:
        packages: The top-level packages of the classes of the env's layers.

    Attributes:
        kind: Returns what is done with a value of a type.
        data_classes: Returns the classes whose own attributes are a part of the state of an object of a type.
    """

    def __init__(self, packages: frozenset[str]) -> None:
        self._packages = packages
        self.kind: Callable[[type], str] = functools.cache(self._kind)
        self.data_classes: Callable[[type], tuple[type, ...]] = functools.cache(self._data_classes)

    def _kind(self, of: type) -> str:
        if of in ATOMS or (issubclass(of, np.generic) and not issubclass(of, (np.void, np.object_))):
            return VALUE
        if issubclass(of, enum.Enum):
            return ENUM
        if issubclass(of, np.ndarray):
            return ARRAY
        if issubclass(of, (list, dict, tuple, set, frozenset, deque)):
            return CONTAINER
        if issubclass(of, GENERATORS):
            return GENERATOR
        if of in (types.FunctionType, types.MethodType):
            return FUNCTION
        if issubclass(of, BUFFERS):
            return BUFFER
        module = getattr(of, "__module__", None)
        if module in COMPARED_AS_TEXT:
            return LARGE
        if isinstance(module, str) and module.startswith("gymnasium.spaces"):
            return SPACE
        if issubclass(of, _SKIPPED_TYPES) or (isinstance(module, str) and f"{module}.".startswith(_SKIPPED_MODULES)):
            return SKIPPED
        if of.__name__ == "Surface" and str(module).startswith("pygame"):
            return LARGE
        return OBJECT if self.is_own(of) else UNREAD

    def is_own(self, of: type) -> bool:
        """Return whether a class is of the env's packages, or of the user's files."""
        module = getattr(of, "__module__", None)
        is_of_python = isinstance(of, type) and of.__flags__ & (1 << 9)  # a class that Python code made
        return isinstance(module, str) and bool(is_of_python) and self.is_own_module(module)

    def is_own_module(self, module: str) -> bool:
        """Return whether a module is of the env's packages, or the user's file."""
        return module.partition(".")[0] in self._packages or not is_installed(module)

    def _data_classes(self, of: type) -> tuple[type, ...]:
        return tuple(one for one in of.__mro__ if not one.__module__.startswith(_FOREIGN_CLASSES) and self.is_own(one))


@functools.lru_cache(4096)
def slots_of(classes: tuple[type, ...]) -> tuple[str, ...]:
    """Return the names of the slots of a type with these classes.

    >>> slots_of(type("Point", (), {"__slots__": "x"}).__mro__)
    ('x',)
    """
    named = [one.__dict__.get("__slots__", ()) for one in classes]
    names = [name for some in named for name in ((some,) if isinstance(some, str) else some)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


@functools.lru_cache(256)
def own_types_of(layers: tuple[type, ...]) -> OwnTypes:
    """Return what tells the classes that belong to an env whose layers have these types."""
    packages = {str(one.__module__).partition(".")[0] for layer in layers for one in layer.__mro__}
    return OwnTypes(frozenset(packages - {"builtins", "typing", "abc", "collections"}))
