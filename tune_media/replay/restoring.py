"""Gives an env the state that one like it had before an episode."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tune_media.replay.env_state import Baseline, Change, EnvState, text_of
from tune_media.replay.leaves import (
    ALIAS,
    ARRAY,
    BUFFER,
    DICT,
    ENUM,
    FIXED,
    HOLDS_PARTS,
    LAYER,
    NAMED_TUPLE,
    OBJECT,
    SEQUENCE,
    TUPLE,
    VALUE,
    Attribute,
    Path,
    encoded,
    is_in,
    plain_form,
)
from tune_media.replay.own_code import globals_of
from tune_media.replay.own_types import slots_of

_MAKES_ANEW = {kind.__name__: kind for kind in (list, dict, deque, OrderedDict, Counter)}
_MISSING = object()


def restore(env: Any, base: Baseline | None, change: Change) -> list[str]:
    """Give an env the state that one like it had; return what could not be restored.

    Nothing is imported or unpickled for it, and only loaded classes of the env's own packages are made.

    Args:
        base: The baseline that the change refers to. None: everything else stays as it is.
    """
    own = EnvState(env, change.left_out)
    wanted = _target(base, change, own.left_out)
    groups: dict[Attribute, list[Path]] = {}
    for path in wanted:
        groups.setdefault(path[:2], []).append(path)
    differing = {
        attribute
        for attribute, paths in groups.items()
        if any(own.leaves.get(path) != encoded(*wanted[path]) for path in paths)
    }
    differing |= {path[:2] for path in change.removed}
    differing -= own.not_to_compare(base) if base is not None else set()
    held_back = _held_back(own, wanted, differing)
    failed = [f"{text_of(one, own.layers)} (it holds what cannot be made again)" for one in sorted(held_back, key=repr)]
    setter = _Setter(own)
    for path in sorted(change.removed, key=len):
        if path[:2] not in held_back:
            with contextlib.suppress(Exception):
                setter.remove(path)
    is_alias = {path: wanted[path][0] == ALIAS for path in wanted}
    for path in sorted(wanted, key=lambda one: (is_alias[one], len(one))):
        if path[:2] in differing - held_back:
            try:
                setter.set(path, *wanted[path])
            except Exception as error:
                failed.append(f"{text_of(path[:2], own.layers)} ({type(error).__name__}: {error})")
    return failed


def _target(base: Baseline | None, change: Change, left_out: Collection[Path]) -> dict[Path, tuple[str, Any]]:
    """Return all leaves of the state that is to be restored."""
    found = {**(base.plain if base is not None else {}), **change.leaves}
    gone = set(change.removed)
    target: dict[Path, tuple[str, Any]] = {}
    for path in sorted(found, key=len):
        if is_in(path, left_out) or is_in(path, gone):
            continue
        if len(path) == 2 or base is None or _has_part(target.get(path[:-1]), path[-1]):
            target[path] = found[path]
    return target


def _has_part(holder: tuple[str, Any] | None, step: Any) -> bool:
    """Return whether a leaf of this kind may have a part: what the baseline had below it may be gone."""
    if holder is None or holder[0] not in HOLDS_PARTS:
        return False
    kind, value = holder
    if kind in (SEQUENCE, TUPLE):
        return bool(step < value[2])
    return kind != DICT or any(_same_key(step[1], key) for key in value[1])


def _same_key(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _held_back(
    own: EnvState, wanted: Mapping[Path, tuple[str, Any]], differing: Collection[Attribute]
) -> set[Attribute]:
    """Return the attributes whose shape differs and that hold something that cannot be made again."""
    fixed = {path[:2] for path in own.leaves if own.kind(path) in FIXED}
    fixed |= {path[:2] for path, (kind, _) in wanted.items() if kind in FIXED}
    shapes = {
        path[:2]
        for path, (kind, value) in wanted.items()
        if kind != VALUE and kind != ARRAY and own.leaves.get(path) != encoded(kind, value)
    }
    held = {attribute for attribute in differing if attribute in fixed and attribute in shapes}
    while True:
        more = {
            path[:2]
            for path, (kind, value) in wanted.items()
            if kind == ALIAS and tuple(value)[:2] in held and path[:2] in differing
        } - held
        if not more:
            return held
        held |= more


class _Setter:
    """Sets the attributes of an env."""

    def __init__(self, own: EnvState) -> None:
        self._state = own
        self._modules = {module: holder for module, holder, _ in globals_of(own.classes)}
        self._classes = {(kind.__module__, kind.__qualname__): kind for kind in own.classes}

    def _resolved(self, path: Path) -> Any:
        root = path[0]
        found: Any
        if isinstance(root, int):
            found = self._state.layers[root]
        else:
            found = self._modules[root[1]] if root[0] == "module" else self._classes[root[1], root[2]]
        for step in path[1:]:
            found = _part_of(found, step)
        return found

    def remove(self, path: Path) -> None:
        owner, step = self._resolved(path[:-1]), path[-1]
        if isinstance(owner, dict):
            owner.pop(step, None)
        else:
            delattr(owner, step)

    def set(self, path: Path, kind: str, value: Any) -> None:
        owner, step = self._resolved(path[:-1]), path[-1]
        now = _part_of(owner, step, _MISSING)
        if kind == VALUE and _names_a_file(value) and not (type(now) is type(value) and now == value):
            raise TypeError("it names a file, which is the recorded env's own")
        new = self._made(now, kind, value)
        if new is not now:
            _set_part(owner, step, new)

    def _made(self, now: Any, kind: str, value: Any) -> Any:
        """Return a value as it is to be: what is there now, changed in place, if possible."""
        if kind == ALIAS:
            return self._resolved(tuple(value))
        if kind == VALUE:
            return _filled(now, value) if type(now) is type(value) and type(now) in (list, dict, set) else value
        if kind == ARRAY:
            if isinstance(now, np.ndarray) and now.shape == value.shape and now.dtype == value.dtype:
                if now.flags.writeable:
                    now[...] = value
                elif not np.array_equal(now, value, equal_nan=value.dtype.kind in "fc"):
                    return value.copy()
                return now
            return value.copy()
        if kind == BUFFER:
            memoryview(now).cast("B")[:] = value[1]
            return now
        if kind == SEQUENCE:
            name, most, count = value
            if type(now).__name__ != name:
                now = deque(maxlen=most) if name == "deque" else _MAKES_ANEW[name]()
            if len(now) != count:
                items = (list(now) + [None] * count)[:count]
                now.clear()
                now.extend(items)
            return now
        if kind == DICT:
            name, keys = value
            if type(now).__name__ != name:
                now = _MAKES_ANEW[name]()
            if list(now) != list(keys):
                _filled(now, {key: now.get(key) for key in keys})
            return now
        if kind == OBJECT:
            found = self._class(*value)
            return now if type(now) is found else object.__new__(found)
        if kind == LAYER:
            raise TypeError(f"the env was wrapped in {value[1]}, and is not in the replay")
        if kind == ENUM:
            return self._class(value[0], value[1])[value[2]]
        if kind == NAMED_TUPLE:
            return tuple.__new__(self._class(value[0], value[1]), value[2])
        if encoded(kind, plain_form(kind, now)) != encoded(kind, value):
            raise TypeError("it holds what cannot be made again")
        return now

    def _class(self, module: str, name: str) -> Any:
        """Return a loaded class of the env's own packages."""
        found: Any = self._classes.get((module, name))
        if found is None:
            found = sys.modules[module]
            for part in name.split("."):
                found = getattr(found, part)
            if not isinstance(found, type) or not self._state._own.is_own(found):
                raise TypeError(f"{module}.{name} is no class of the env's")
        return found


def _names_a_file(value: Any) -> bool:
    """Return whether plain data hold the path of a file that exists: a replay must not write to it."""
    if isinstance(value, str):
        return value.startswith(os.sep) and os.path.lexists(value)
    items = [*value, *value.values()] if isinstance(value, dict) else value
    return isinstance(value, (list, tuple, set, frozenset, dict)) and any(map(_names_a_file, items))


def _part_of(owner: Any, step: Any, otherwise: Any = None) -> Any:
    try:
        if isinstance(step, (tuple, list)):
            return owner[step[1]] if step[0] == "key" else owner.__closure__[step[1]].cell_contents
        if isinstance(owner, (list, tuple, deque)) or type(owner) is dict:  # the globals of a module
            return owner[step]
        own = getattr(owner, "__dict__", {})
        return own[step] if step in own else getattr(owner, step)
    except (LookupError, AttributeError, ValueError):
        if otherwise is None:
            raise
        return otherwise


def _set_part(owner: Any, step: Any, value: Any) -> None:
    if isinstance(step, (tuple, list)):
        if step[0] == "key":
            owner[step[1]] = value
        else:
            owner.__closure__[step[1]].cell_contents = value
    elif isinstance(owner, (list, deque)) or type(owner) is dict:
        owner[step] = value
    elif isinstance(owner, type) or not hasattr(owner, "__dict__") or step in slots_of(type(owner).__mro__):
        (type.__setattr__ if isinstance(owner, type) else object.__setattr__)(owner, step, value)
    else:
        owner.__dict__[step] = value


def _filled(now: Any, value: Any) -> Any:
    now.clear()
    now.extend(value) if isinstance(now, list) else now.update(value)
    return now
