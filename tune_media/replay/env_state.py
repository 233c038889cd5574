"""An env's own state: what a picture may show and no observation tells, such as a score board or a level.

A walk visits the plain data of an env, breadth first: the attributes of its layers (the env and its wrappers) and of
the objects of its own that they hold, the attributes of its classes, and the globals that the code of these classes
names. What it finds is grouped by *attribute*, and each piece of plain data is a *leaf* at a path below it.

An env's state right after it was made is its *baseline*. The tape of an episode has the leaves that differed from the
baseline before the reset, so that a replay can restore them, and digests of the attributes that differed after the
reset and after the last step, so that a replay that ends up elsewhere is noticed. State that is in C, in files, in
threads or in the globals of other packages is out of reach.
"""

from __future__ import annotations

import contextlib
import marshal
import types
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c

from tune_media.recording.rendering import inside
from tune_media.replay.leaves import (
    ALIAS,
    ARRAY,
    ATOMS,
    BUFFER,
    CODE,
    DICT,
    ENUM,
    FIXED,
    LARGE,
    LAYER,
    MOST_BYTES,
    MOST_ITEMS,
    NAMED_TUPLE,
    OBJECT,
    SEQUENCE,
    TUPLE,
    UNREAD,
    VALUE,
    Attribute,
    Path,
    encoded,
    is_in,
    is_plain,
    marshalled,
    plain_form,
)
from tune_media.replay.own_code import globals_of
from tune_media.replay.own_types import (
    CONTAINER,
    FUNCTION,
    GENERATOR,
    GENERATORS,
    SKIPPED,
    SPACE,
    own_types_of,
    slots_of,
)
from tune_media.values.plain import pack_exactly, unpack

Digests = dict[Path, int]
"""A checksum for each leaf that is not as in the baseline; for many leaves of an attribute, one at the attribute."""

MOST_LEAVES, MOST_DEPTH = 400, 9
"""Of one attribute. Attributes beyond these bounds, and those of ``MOST_BYTES``, are left out."""
MOST_BYTES_OF_ALL, MOST_BYTES_OF_A_CHANGE = 256 * 1024, 64 * 1024
_MOST_DIGESTS = 40  # of an attribute
_SMALL = 64  # bytes of a leaf
_OF_FRAMEWORKS = ("gymnasium.", "ray.", "tune_media.")  # layers that a framework adds, and a recipe does not
_SKIPPED_NAMES = frozenset({"spec", "_np_random_seed", "render_mode", "_abc_impl", "_cached_spec"})
_NEW_GENERATOR = "_np_random"  # where Gymnasium keeps the generator of an env or a space; None: it is not made yet


@dataclass(frozen=True)
class GeneratorPlace:
    """Where a random generator is.

    Attributes:
        name: Its name in the states of an env's generators.
        holder: The object that has it as an attribute.
    """

    name: str
    holder: Any
    attribute: str

    @property
    def generator(self) -> Any:
        """The generator; None: it is not made yet."""
        return getattr(self.holder, "__dict__", {}).get(self.attribute)


@dataclass(frozen=True)
class Baseline:
    """The state of an env right after it was made, or any other state that later ones are compared with.

    Attributes:
        leaves: The encoded leaf of each path.
        plain: The leaves that can be made again, as kind and plain data.
        left_out: The attributes that are beyond the bounds.
    """

    leaves: Mapping[Path, bytes]
    plain: Mapping[Path, tuple[str, Any]]
    left_out: frozenset[Attribute] = frozenset()

    def packed(self) -> bytes:
        """Return it as plain data."""
        leaves = [
            [list(path), *self.plain[path]] if path in self.plain else [list(path), "", content]
            for path, content in self.leaves.items()
        ]
        return pack_exactly({"leaves": leaves, "left_out": [list(one) for one in sorted(self.left_out, key=repr)]})

    @classmethod
    def unpacked(cls, content: bytes) -> Baseline:
        """Return what ``packed`` was called on.

        Raises:
            ValueError: It is something else.
        """
        found = unpack(content)
        plain = {tuple(path): (kind, value) for path, kind, value in found["leaves"] if kind}
        leaves = {tuple(path): encoded(kind, value) if kind else value for path, kind, value in found["leaves"]}
        return cls(leaves, plain, frozenset(tuple(one) for one in found["left_out"]))


@dataclass
class Change:
    """How an env's state differs from its baseline, as plain data: what a tape has of it.

    Attributes:
        leaves: The leaves that differ, as kind and plain data, by path.
        removed: The attributes, and those of objects, that are gone.
        left_out: The attributes and paths that are not compared: too large, or ``render()`` changes them.
        is_shared: Whether other envs of the process share its classes and modules: these are not compared at the end.
    """

    leaves: dict[Path, tuple[str, Any]] = field(default_factory=dict)
    removed: list[Path] = field(default_factory=list)
    left_out: frozenset[Path] = frozenset()
    is_shared: bool = False

    def packed(self) -> dict[str, Any]:
        """Return it as plain data; what is empty is left out."""
        told = {
            "leaves": [[list(path), kind, value] for path, (kind, value) in self.leaves.items()],
            "removed": [list(path) for path in self.removed],
            "left_out": [list(attribute) for attribute in sorted(self.left_out, key=repr)],
            "is_shared": self.is_shared,
        }
        return {name: value for name, value in told.items() if value}

    @classmethod
    def unpacked(cls, packed: Mapping[str, Any]) -> Change:
        """Return what ``packed`` was called on."""
        leaves = {tuple(path): (str(kind), value) for path, kind, value in packed.get("leaves", ())}
        removed = [tuple(path) for path in packed.get("removed", ())]
        left_out = frozenset(tuple(one) for one in packed.get("left_out", ()))
        return cls(leaves, removed, left_out, bool(packed.get("is_shared")))


class EnvState:
    """The state of an env at one moment. Reading it changes nothing.

    Args:
        left_out: Attributes and paths that are not wanted.

    Attributes:
        layers: The env and its wrappers, the innermost first.
        leaves: The encoded leaf of each path.
        places: Its random generators; they are no leaves.
        left_out: What is not there: what is not wanted, and attributes beyond the bounds.
    """

    def __init__(self, env: Any, left_out: Collection[Path] = ()) -> None:
        self.layers = layers_of(env)
        self.leaves: dict[Path, bytes] = {}
        self.places: list[GeneratorPlace] = []
        self.left_out: set[Path] = set(left_out)
        self._values: dict[Path, tuple[str, Any]] = {}  # of the leaves: their kind, and the live value
        self._sizes: dict[Attribute, list[int]] = {}  # leaves and bytes, of attributes that may be large
        self._drops = False
        self._known: dict[int, Path] = {id(layer): (number,) for number, layer in enumerate(self.layers)}
        self._layer_ids = frozenset(self._known)
        self._queue: deque[tuple[Path, Any]] = deque()
        self._own = own_types_of(tuple(map(type, self.layers)))
        self._classes: dict[type, None] = {}
        for number, layer in enumerate(self.layers):
            self._add((number, LAYER), LAYER, layer)
            self._queue.append(((number,), layer))
            self._lazy_generator(str(number), layer)
        self._walk()
        for kind in (classes := self.classes):
            root = ("class", kind.__module__, kind.__qualname__)
            for name, value in list(kind.__dict__.items()):
                if not name.startswith("__"):
                    self._put_global((root, name), value)
        for module, holder, name in globals_of(classes):
            self._put_global((("module", module), name), holder[name])
        self._walk()
        self._bound_all()

    # -- the walk -----------------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        while self._queue:
            path, owner = self._queue.popleft()
            # An attribute that is not compared may still hold a game with a generator.
            if len(path) > 3 and (path[:2] in self.left_out or path in self.left_out):
                continue
            if len(path) > MOST_DEPTH:
                self._leave_out(path[:2])
                continue
            try:
                for step, value in self._parts(owner):
                    self._put((*path, step), value, owner)
            except Exception:  # a property of the user's raises, or a thread of the env's changes it
                self._leave_out(path[:2])

    def _parts(self, owner: Any) -> Iterator[tuple[Any, Any]]:
        kind = type(owner)
        if issubclass(kind, (list, deque, tuple)):
            yield from enumerate(owner)
            if kind in (list, deque, tuple):
                return
        elif issubclass(kind, dict):
            for key, value in list(owner.items()):
                yield ("key", key), value
            if kind is dict:
                return
        elif kind is types.FunctionType:
            for number, cell in enumerate(owner.__closure__ or ()):
                with contextlib.suppress(ValueError):
                    yield ("cell", number), cell.cell_contents
            return
        for one in self._own.data_classes(kind):
            self._classes.setdefault(one)
        own = getattr(owner, "__dict__", None)
        if own:
            for name in sorted(own):
                if type(name) is str and (name not in _SKIPPED_NAMES or id(owner) not in self._layer_ids):
                    yield name, own[name]
        for name in slots_of(kind.__mro__):
            with contextlib.suppress(AttributeError):
                yield name, object.__getattribute__(owner, name)

    def _put_global(self, path: Path, value: Any) -> None:
        """Add an attribute of a class, or a global: data, and that of a function; all else is code, or of others."""
        if type(value) is types.FunctionType and value.__dict__ and self._own.is_own_module(str(value.__module__)):
            for name, one in value.__dict__.items():
                self._put((*path, name), one, value)
        if self._own.kind(type(value)) in (VALUE, ARRAY, BUFFER, CONTAINER, OBJECT, ENUM):
            self._put(path, value, None)

    def _put(self, path: Path, value: Any, owner: Any) -> None:
        if type(value) in ATOMS and len(path) == 2:  # most of them
            content = marshal.dumps(value, 2)
            if len(content) < _SMALL and path not in self.left_out:
                self.leaves[path], self._values[path] = b"v" + content, (VALUE, value)
                return
        kind = self._own.kind(type(value))
        if kind == VALUE:
            self._add(path, kind, value)
            return
        if kind == SKIPPED or (kind == CONTAINER and path[:2] in self.left_out):
            return
        number = id(value)
        if kind == GENERATOR:
            if number not in self._known and owner is not None:
                self._known[number] = path
                self.places.append(GeneratorPlace(_name_of(path), owner, path[-1]))
            return
        if kind == SPACE:
            if number not in self._known:
                self._known[number] = path
                self.places += _places_of_space(_name_of(path), value)
            return
        if number in self._known and kind not in (ENUM, TUPLE):
            self._add(path, ALIAS, self._known[number])
            return
        self._known[number] = path
        if kind == UNREAD:
            self._generators_of(path, value)
        if kind == CONTAINER:
            self._put_container(path, value)
        elif kind == ARRAY:
            self._add(path, LARGE if value.nbytes > MOST_BYTES or value.dtype.hasobject else ARRAY, value)
        elif kind == FUNCTION:
            function = getattr(value, "__func__", value)
            if not str(function.__module__).startswith("tune_media."):
                self._add(path, CODE, function)
                if function.__closure__ and function is value:
                    self._queue.append((path, value))
        else:
            self._add(path, kind, value)
            if kind == OBJECT:
                self._queue.append((path, value))

    def _put_container(self, path: Path, value: Any) -> None:
        """Add a list, a dict, a tuple: as one leaf if it holds only plain data, else as its shape and its parts."""
        if len(value) > MOST_ITEMS:
            self._leave_out(path[:2])
            return
        kind = type(value)
        if kind in (list, dict, tuple, set, frozenset) and is_plain(value, set()):
            self._add(path, VALUE, value)
            return
        if issubclass(kind, (set, frozenset)):
            self._add(path, UNREAD, value)
            return
        if issubclass(kind, tuple) and kind is not tuple and is_plain(tuple(value), set()):
            self._add(path, NAMED_TUPLE, value)
            return
        self._add(path, TUPLE if issubclass(kind, tuple) else DICT if issubclass(kind, dict) else SEQUENCE, value)
        self._queue.append((path, value))

    def _add(self, path: Path, kind: str, value: Any) -> None:
        """Add a leaf."""
        attribute = path[:2]
        if self.left_out and (attribute in self.left_out or path in self.left_out):
            return
        try:
            content = b"v" + marshalled(value) if kind == VALUE else encoded(kind, plain_form(kind, value))
        except ValueError:  # a dict with odd keys, say
            kind, content = UNREAD, encoded(UNREAD, plain_form(UNREAD, value))
        if len(path) > 2 or len(content) > _SMALL:
            size = self._sizes.setdefault(attribute, [0, 0])
            size[0] += 1
            size[1] += len(content)
            if size[0] > MOST_LEAVES or size[1] > MOST_BYTES:
                self._leave_out(attribute)
                return
        self.leaves[path], self._values[path] = content, (kind, value)

    def _leave_out(self, attribute: Attribute) -> None:
        self.left_out.add(attribute)
        self._drops = True

    def _bound_all(self) -> None:
        """Drop the leaves of attributes beyond the bounds, and of the largest ones if all take too much."""
        total = sum(nbytes for _, nbytes in self._sizes.values())
        if total > MOST_BYTES_OF_ALL:
            for attribute in sorted(self._sizes, key=lambda one: (-self._sizes[one][1], repr(one))):
                if total > MOST_BYTES_OF_ALL:
                    total -= self._sizes[attribute][1]
                    self._leave_out(attribute)
        if self._drops:
            self.leaves = {path: leaf for path, leaf in self.leaves.items() if path[:2] not in self.left_out}

    def _generators_of(self, path: Path, value: Any) -> None:
        """Note the generators that an object of somebody else's has as its attributes: a game, a simulator."""
        own = getattr(value, "__dict__", None)
        for name, inner in list(own.items()) if type(own) is dict and not callable(value) else ():
            if isinstance(inner, GENERATORS):
                self._put((*path, name), inner, value)

    def _lazy_generator(self, name: str, layer: Any) -> None:
        """Note Gymnasium's generator of a layer that nobody has needed yet."""
        own = getattr(layer, "__dict__", {})
        if own.get(_NEW_GENERATOR) is None and getattr(type(layer), _NEW_GENERATOR, 0) is None:
            self.places.append(GeneratorPlace(f"{name}/{_NEW_GENERATOR}", layer, _NEW_GENERATOR))

    # -- comparing ----------------------------------------------------------------------------------------------------

    def as_baseline(self) -> Baseline:
        """Return it as what later states are compared with."""
        return Baseline(self.leaves, self._as_plain(self.leaves), frozenset(self.left_out))

    def change(self, base: Baseline) -> Change:
        """Return how it differs from the baseline."""
        left_out = self.left_out | base.left_out
        changed = [path for path in self._differing(base) if not is_in(path, left_out)]
        gone = [
            path
            for path in base.leaves
            if path not in self.leaves and not is_in(path, left_out) and self._is_of_object(path[:-1])
        ]
        plain, sizes = self._as_plain(changed), dict[Attribute, int]()
        for path in plain:
            sizes[path[:2]] = sizes.get(path[:2], 0) + len(self.leaves[path])
        for attribute in sorted(sizes, key=lambda one: -sizes[one]):  # it is compared, and cannot be restored
            if sum(sizes.values()) <= MOST_BYTES_OF_A_CHANGE:
                break
            del sizes[attribute]
        kept = {path: leaf for path, leaf in plain.items() if path[:2] in sizes}
        return Change(kept, gone, frozenset(left_out - base.left_out))

    def digests(self, base: Baseline) -> Digests:
        """Return a checksum of each leaf that is not as in the baseline; 0: it is gone."""
        left_out, found = self.left_out | base.left_out, dict[Attribute, dict[Path, int]]()
        for path in self._differing(base):
            if not is_in(path, left_out):
                found.setdefault(path[:2], {})[path] = int(crc32c(self.leaves[path])) or 1
        for path in base.leaves:
            if path not in self.leaves and not is_in(path, left_out):
                found.setdefault(path[:2], {})[path] = 0
        digests: Digests = {}
        for attribute, of_attribute in found.items():
            if len(of_attribute) > _MOST_DIGESTS:
                text = repr(sorted((repr(path), check) for path, check in of_attribute.items()))
                of_attribute = {attribute: int(crc32c(text.encode()))}
            digests |= of_attribute
        return digests

    def changed_since(self, before: EnvState) -> set[Path]:
        """Return the paths at which it is not as it was in another state of the same env."""
        paths = self.leaves.keys() | before.leaves.keys()
        return {path for path in paths if self.leaves.get(path) != before.leaves.get(path)}

    def not_to_compare(self, base: Baseline) -> set[Path]:
        """Return what tells nothing of an episode if this is the state of a replay's env.

        These are the layers that a framework has added to one of the envs, and attributes of classes and modules that
        hold what cannot be made again: the instances of a class, say.
        """
        layers = {path[0]: str(plain[0]) for path, (kind, plain) in base.plain.items() if kind == LAYER}
        added = range(min(len(layers), len(self.layers)), max(len(layers), len(self.layers)))
        now = {number: f"{type(layer).__module__}." for number, layer in enumerate(self.layers)}
        foreign = {number for number in added if {**now, **layers}[number].startswith(_OF_FRAMEWORKS)}
        kinds = [*base.plain.items(), *self._values.items()]
        fixed = {path[:2] for path, (kind, _) in kinds if kind in FIXED and not isinstance(path[0], int)}
        return {path[:2] for path in (*base.leaves, *self.leaves) if path[0] in foreign or path[:2] in fixed}

    @property
    def classes(self) -> tuple[type, ...]:
        """The classes of its layers and of its own objects."""
        return tuple(self._classes)

    def kind(self, path: Path) -> str:
        """Return the kind of the leaf at a path; empty if there is none."""
        return self._values.get(path, ("", None))[0]

    def _differing(self, base: Baseline) -> list[Path]:
        known = base.leaves
        return [path for path, leaf in self.leaves.items() if known.get(path) != leaf]

    def _is_of_object(self, path: Path) -> bool:
        return len(path) == 1 or self.kind(path) == OBJECT

    def _as_plain(self, paths: Collection[Path]) -> dict[Path, tuple[str, Any]]:
        """Return the leaves at some paths as plain data, as far as they can be stored."""
        found = {}
        for path in paths:
            kind, value = self._values[path]
            with contextlib.suppress(TypeError, ValueError):
                plain = plain_form(kind, value)
                found[path] = kind, unpack(pack_exactly(plain))  # a copy, and a TypeError if it is no plain data
        return found


def of_env_alone(digests: Digests) -> Digests:
    """Return the digests without those of classes and modules, which envs of one process share.

    >>> of_env_alone({(0, "level"): 7, (("class", "maze", "Maze"), "count"): 8})
    {(0, 'level'): 7}
    """
    return {path: check for path, check in digests.items() if isinstance(path[0], int)}


def layers_of(env: Any) -> list[Any]:
    """Return an env and its wrappers, the innermost first."""
    return list(inside(env))[::-1]


def text_of(attribute: Attribute, layers: Collection[Any]) -> str:
    """Return an attribute as messages name it.

    >>> text_of((0, "level"), ["an env"]), text_of((("class", "maze", "Maze"), "count"), [])
    ('str.level', 'Maze.count')
    """
    root, name = attribute
    if isinstance(root, int):
        return f"{type(list(layers)[root]).__name__}.{name}" if root < len(layers) else str(name)
    return f"{root[-1]}.{name}"


def _name_of(path: Path) -> str:
    return "/".join(str(step[1]) if isinstance(step, tuple) else str(step) for step in path)


def _places_of_space(name: str, space: Any) -> list[GeneratorPlace]:
    """Return the places of a space's generators."""
    own = getattr(space, "__dict__", None)
    if own is None or _NEW_GENERATOR not in own or not hasattr(type(space), "sample"):
        return []
    places = [GeneratorPlace(f"{name}/{_NEW_GENERATOR}", space, _NEW_GENERATOR)]
    inner = own.get("spaces") or ()
    for key, one in inner.items() if isinstance(inner, Mapping) else enumerate(inner):
        places += _places_of_space(f"{name}/{key}", one)
    return places
