"""The random generators of an env: where they are, their states before a reset, and a guard around rendering.

With the same states, another env makes the same reset and the same steps. Reading a state changes nothing: Gymnasium
makes ``np_random`` when it is first needed; NumPy remembers how it was seeded, so the state that it began with is read
afterwards. The emulator of Atari games has its own generator, for sticky actions, whose state is a part of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import random
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from tune_media.recording.rendering import inside
from tune_media.replay.own_code import globals_of, is_installed

T = TypeVar("T")

# the states of an env's generators, plain data, by the place of each: the number of the layer (0: the innermost env),
# and the names of the attributes that lead to it
States = dict[str, Any]
Path = tuple[Any, ...]  # the number of a layer, or a class or a module, and attributes, indices, ``("key", key)``

# how the names of threads begin that are ours or Ray's and draw nothing, and the modules of their classes
_HARMLESS, _HARMLESS_MODULES = ("tune_media", "ray_"), ("ray.tune.", "ray._private.")
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_NEW = "_np_random"  # where Gymnasium keeps the generator of an env or a space, or None if it is not made yet
_MOST_VALUES, _MOST_ITEMS, _MOST_DEPTH = 5000, 256, 8  # that a walk looks at
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, np.ndarray, np.dtype})
_SKIPPED = (type, types.ModuleType, types.BuiltinFunctionType, types.MethodType, np.generic, property)
_SKIPPED_MODULES = ("tune_media.", "ray.", "torch.", "gymnasium.envs.registration.", "logging.", "threading.")
_FOREIGN_CLASSES = ("builtins", "gymnasium.", "typing", "abc", "collections", "pettingzoo", "ray.", "numpy.")


@dataclass(frozen=True)
class GeneratorPlace:
    """Where a random generator is."""

    name: str  # its name in the states of an env's generators
    holder: Any  # the object, class, dict or list that has it
    step: Any

    @property
    def generator(self) -> Any:
        """The generator, or None if it is not made yet."""
        return _part_of(self.holder, self.step)

    def set(self, generator: Any) -> None:
        """Put another generator there."""
        if isinstance(self.step, (tuple, int)):
            self.holder[self.step[1] if isinstance(self.step, tuple) else self.step] = generator
        else:
            setattr(self.holder, self.step, generator)


class EnvGenerators:
    """The generators of an env, found by a walk through its objects when 1, 2, 3, 5, 9, ... episodes have begun."""

    def __init__(self, env: Any) -> None:
        self._env, self._episodes, self._walk_at = env, 0, 0
        self._walks_again = True  # after the first reset, which may have made generators
        self._layers: list[Any] = []
        self._paths: tuple[Path, ...] = ()
        self.classes: tuple[type, ...] = ()  # of the env, its wrappers and their objects, as far as the walk has come

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the places: a copy is of another env."""
        return EnvGenerators(self._env).__dict__

    def begin_episode(self) -> None:
        """Walk again, if it is time: the env is about to be reset."""
        if self._episodes >= self._walk_at:
            self.walk()
            self._walk_at = max(1, 2 * self._episodes)
        self._episodes += 1

    def after_reset(self) -> list[Any]:
        """Return the generators whose states can be read and set, those included that the first reset has made."""
        if self._walks_again and self._episodes <= 1:
            self._walks_again = False
            self.walk()
        generators = [place.generator for place in self.places()]
        return [g for g in generators if isinstance(g, _GENERATORS) and not isinstance(g, random.SystemRandom)]

    def walk(self) -> None:
        """Find the generators and the classes."""
        self._layers = layers_of(self._env)
        walk = _GeneratorWalk(self._layers)
        self._paths, self.classes = tuple(walk.paths), tuple(walk.classes)

    def places(self) -> list[GeneratorPlace]:
        """Return where the generators are now."""
        here = []
        for path in self._paths:
            holder = self._layers[path[0]] if isinstance(path[0], int) else path[0]
            for step in path[1:-1]:
                holder = _part_of(holder, step)
            start = path[0] if isinstance(path[0], int) else getattr(path[0], "__qualname__", None) or path[0].__name__
            steps = (step[1] if isinstance(step, tuple) else step for step in path[1:] if step != "spaces")
            here.append(GeneratorPlace("/".join(map(str, (start, *steps))), holder, path[-1]))
        return here


class Snapshot:
    """The states of an env's generators at one moment.

    With ``layers``, the env and its wrappers, the state of an Atari game's emulator is cloned, too (0.3 ms, 15 kB),
    which a reset with a seed does not need.
    """

    def __init__(self, places: Iterable[GeneratorPlace], layers: Iterable[Any] = ()) -> None:
        self._states: States = {}
        self._not_made: list[GeneratorPlace] = []
        for place in places:
            generator = place.generator
            if generator is None:
                self._not_made.append(place)
            else:
                with contextlib.suppress(Exception):  # random.SystemRandom has no state, a subclass may have its own
                    self._states[place.name] = _as_plain(generator, _state_of(generator))
        for name, game in _emulators_in(layers):
            self._states[name] = game.clone_state(include_rng=True).serialize()

    @property
    def states(self) -> States:
        """The states, with those that generators had when they were made since."""
        for place in list(self._not_made):
            generator = place.generator
            if isinstance(generator, np.random.Generator):
                self._not_made.remove(place)
                with contextlib.suppress(Exception):  # a bit generator of another library, which cannot be made again
                    bits = generator.bit_generator
                    self._states[place.name] = dict(type(bits)(cast(Any, bits.seed_seq)).state)
        return self._states


class RenderDraws:
    """Which of the global generators ``render()`` draws from; other threads of the user's may draw from them, too.

    ``threads`` are those that were there before the env; by default, all that there are.
    """

    def __init__(
        self, names: Iterable[str] | None = None, *, threads: Iterable[threading.Thread] | None = None
    ) -> None:
        self.names = None if names is None else frozenset(names)  # "random", "numpy.random", "torch"; None: not known
        self._older = weakref.WeakSet(threading.enumerate() if threads is None else threads)

    def __reduce__(self) -> Any:
        return RenderDraws, (self.names,)

    def add(self, names: Iterable[str]) -> None:
        """Note generators that rendering drew from in a process in which nothing else does: it is known now."""
        self.names = (self.names or frozenset()) | set(names)

    def others(self, threads: Iterable[threading.Thread]) -> list[str]:
        """Return the names of the threads that may draw, too: not this one, nor ours, nor Ray's.

        While nothing is known, threads that are older than this may not, either.
        """
        here = threading.current_thread()
        return sorted(
            thread.name
            for thread in set(threads)
            if thread is not here
            and not thread.name.startswith(_HARMLESS)
            and not type(thread).__module__.startswith(_HARMLESS_MODULES)
            and (self.names is not None or thread not in self._older)
        )


class RenderGuard:
    """Puts back all random generators that rendering a frame has moved.

    A global one may have been moved by another thread: then only those are put back that rendering is known to draw
    from. Without ``draws``, no other thread draws.
    """

    def __init__(self, generators: EnvGenerators | None, draws: RenderDraws | None = None) -> None:
        self._generators, self._draws = generators, draws
        self._of_env: list[Any] | None = None  # those that the env has in the running episode
        self.has_moved = False  # a generator had moved, and rendering did it
        self.moved: set[str] = set()  # the global ones that had moved, whoever did it
        self.others: list[str] = []  # threads of which one, or else rendering, has moved them; which, is not known

    @property
    def drawn(self) -> list[str] | None:
        """The global generators that rendering draws from; None: not known, since another thread may draw, too."""
        return None if self.others else sorted(self.moved)

    def begin_episode(self, *, walks: bool = False) -> None:
        """Look the generators up again: the env has been reset. ``walks``: no one else lets ``EnvGenerators`` walk."""
        self._of_env = None
        if walks and self._generators is not None:
            self._generators.begin_episode()

    def __call__(self, render: Callable[[], T]) -> T:
        """Render a frame; raises whatever rendering raises."""
        if self._of_env is None:
            self._of_env = [] if self._generators is None else self._generators.after_reset()
        before = list(map(_state_of, self._of_env))
        threads = [] if self._draws is None else threading.enumerate()  # one may end meanwhile
        of_python, of_numpy, torch = random.getstate(), _GLOBAL.state(), sys.modules.get("torch")
        of_torch = None if torch is None else torch.get_rng_state()
        try:
            return render()
        finally:
            for generator, state in zip(self._of_env, before, strict=True):
                if not _are_same(_state_of(generator), state):
                    self.has_moved = True
                    _set_state(generator, state)
            moved: dict[str, Callable[[], Any]] = {}  # what puts them back
            if random.getstate() != of_python:
                moved["random"] = functools.partial(random.setstate, of_python)
            if _GLOBAL.has_moved(of_numpy):
                moved["numpy.random"] = functools.partial(np.random.set_state, of_numpy)
            if torch is not None and of_torch is not None and not torch.equal(torch.get_rng_state(), of_torch):
                moved["torch"] = functools.partial(torch.set_rng_state, of_torch)
            if moved:
                self._have_moved(moved, threads)

    def _have_moved(self, moved: Mapping[str, Callable[[], Any]], threads: Iterable[threading.Thread]) -> None:
        self.moved |= moved.keys()
        known = None if self._draws is None else self._draws.names
        others = [] if self._draws is None else self._draws.others({*threads, *threading.enumerate()})
        for name, put_back in moved.items():
            if not others or name in (known or ()):
                self.has_moved = True
                put_back()
        if known is None and others:
            self.others = others


class _GlobalGenerator:
    """NumPy's global generator. Its state takes 40 us to read, so it is read only if its memory has changed."""

    def __init__(self) -> None:
        self._memory, self._state = b"", dict[str, Any]()

    def state(self) -> dict[str, Any]:
        """Return its state, as far as it is in its memory."""
        memory = self._read()
        if not memory or memory != self._memory or self._state["has_gauss"]:  # a second normal number is not in it
            self._memory, self._state = memory, np.random.get_state(legacy=False)
        return self._state

    def has_moved(self, state: dict[str, Any]) -> bool:
        """Return whether its state is another one than ``state`` has just returned."""
        memory = self._read()
        if memory and not state["has_gauss"]:
            return memory != self._memory
        return not _are_same(np.random.get_state(legacy=False), state)

    def _read(self) -> bytes:
        """Return the memory of the Mersenne twister: its key and its position; nothing if it is another generator."""
        bits = getattr(np.random, "get_bit_generator")()  # noqa: B009 - it is missing in the stubs
        if not isinstance(bits, np.random.MT19937):
            return b""
        return ctypes.string_at(cast(int, bits.ctypes.state_address), 4 * (624 + 1))


_GLOBAL = _GlobalGenerator()


def layers_of(env: Any) -> list[Any]:
    """Return an env and its wrappers, the innermost first."""
    return list(inside(env))[::-1]


def classes_of(env: Any) -> tuple[type, ...]:
    """Return the classes of an env, its wrappers and their objects."""
    generators = EnvGenerators(env)
    generators.walk()
    return generators.classes


def set_states(env: Any, states: Mapping[str, Any]) -> None:
    """Give the generators of an env the states that those of one like it had; those that it lacks are left out."""
    generators = EnvGenerators(env)
    generators.walk()
    for place in generators.places():
        if place.name in states:
            like, state = _of_plain(states[place.name])
            generator = place.generator
            bits, needed = (type(getattr(holder, "bit_generator", None)) for holder in (generator, like))
            if not isinstance(generator, type(like)) or bits is not needed:
                generator = like
                place.set(generator)
                if getattr(place.holder, "_np_random_seed", 0) is None:
                    place.holder._np_random_seed = -1  # Gymnasium: unknown; None would have it make another generator
            _set_state(generator, state)
    for name, game in _emulators_in(layers_of(env)):
        if name in states:
            game.restore_state(type(game.clone_state())(states[name]))


class _GeneratorWalk:
    """Walks through the objects of an env, breadth first, and notes where its generators are."""

    def __init__(self, layers: list[Any]) -> None:
        self.paths: list[Path] = []  # the paths of the generators, and of Gymnasium's that are not made yet
        self.classes: dict[type, None] = {}  # of the objects, in the order in which they were met
        self._seen = {id(layer) for layer in layers}
        self._packages = {_package_of(kind) for layer in layers for kind in type(layer).__mro__}
        self._left = _MOST_VALUES
        self._queue: deque[tuple[Path, Any]] = deque(((number,), layer) for number, layer in enumerate(layers))
        for number, layer in enumerate(layers):
            if getattr(layer, "__dict__", {}).get(_NEW) is None and getattr(type(layer), _NEW, 0) is None:
                self.paths.append((number, _NEW))
        self._run()
        classes = tuple(self.classes)
        for kind in classes:
            for name, value in list(vars(kind).items()):
                if not name.startswith("__"):
                    self._put((kind, name), value)
        for _, holder, name in globals_of(classes):
            self._put((_Globals(holder), name), holder[name])
        self._run()

    def _run(self) -> None:
        while self._queue:
            path, owner = self._queue.popleft()
            with contextlib.suppress(Exception):  # a thread of the env's changes it
                for step, value in _parts_of(owner):
                    self._put((*path, step), value)
            for kind in type(owner).__mro__:
                is_of_env = _package_of(kind) in self._packages or not is_installed(str(kind.__module__))
                if is_of_env and not f"{kind.__module__}.".startswith(_FOREIGN_CLASSES):
                    self.classes.setdefault(kind)

    def _put(self, path: Path, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS or self._left <= 0:
            return
        self._left -= 1
        if id(value) in self._seen or issubclass(kind, _SKIPPED):
            return
        self._seen.add(id(value))
        if issubclass(kind, _GENERATORS):
            self.paths.append(path)
        elif _is_space(cast(Hashable, kind)):
            self._put_space(path, value)
        elif len(path) < _MOST_DEPTH and not f"{kind.__module__}.".startswith(_SKIPPED_MODULES):
            self._queue.append((path, value))

    def _put_space(self, path: Path, space: Any) -> None:
        fields = getattr(space, "__dict__", {})
        if _NEW in fields:
            self.paths.append((*path, _NEW))
        inner: Any = fields.get("spaces") or ()
        is_dict = isinstance(inner, Mapping)
        for key, part in inner.items() if is_dict else enumerate(inner):
            self._put_space((*path, "spaces", ("key", key) if is_dict else key), part)


class _Globals:
    """The globals of a module, or of functions that were pickled by their code, as attributes."""

    def __init__(self, holder: dict[str, Any]) -> None:
        self.__dict__ = holder


def _package_of(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


@functools.lru_cache(4096)
def _is_space(kind: Hashable) -> bool:
    return str(getattr(kind, "__module__", "")).startswith("gymnasium.spaces") and hasattr(kind, "sample")


def _parts_of(owner: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of an object, each with the step that leads to it."""
    if isinstance(owner, (list, tuple, deque)):
        if len(owner) <= _MOST_ITEMS:
            yield from enumerate(owner)
    elif isinstance(owner, dict):
        if len(owner) <= _MOST_ITEMS:
            for key, value in list(owner.items()):
                yield ("key", key), value
    elif isinstance(owner, functools.partial):
        yield from zip(("func", "args", "keywords"), (owner.func, owner.args, owner.keywords), strict=True)
    elif isinstance(owner, types.FunctionType):
        for number, cell in enumerate(owner.__closure__ or ()):
            with contextlib.suppress(ValueError):
                yield ("cell", number), cell.cell_contents
        return
    yield from list(getattr(owner, "__dict__", {}).items())
    for name in _slots_of(type(owner).__mro__):
        with contextlib.suppress(AttributeError):
            yield name, object.__getattribute__(owner, name)


@functools.lru_cache(4096)
def _slots_of(classes: tuple[type, ...]) -> tuple[str, ...]:
    slots = [kind.__dict__.get("__slots__", ()) for kind in classes]
    names = [name for some in slots for name in ((some,) if isinstance(some, str) else some)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _part_of(owner: Any, step: Any) -> Any:
    """Return the part of an object that a step leads to, or None if it is not there."""
    try:
        if isinstance(step, tuple):
            return owner[step[1]] if step[0] == "key" else owner.__closure__[step[1]].cell_contents
        if isinstance(step, int):
            return owner[step]
        fields = getattr(owner, "__dict__", {})
        return fields[step] if step in fields else None if step == _NEW else object.__getattribute__(owner, step)
    except (LookupError, AttributeError, TypeError, ValueError):
        return None


def _emulators_in(layers: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for number, layer in enumerate(layers):
        if hasattr(type(layer), "clone_state") and hasattr(layer, "ale"):
            yield f"{number}/ale", layer


def _state_of(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.getstate()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)


def _are_same(state: Any, later: Any) -> bool:
    """Return whether two states are equal; they are numbers, dicts, tuples and arrays."""
    if isinstance(state, dict) and isinstance(later, dict):
        return state.keys() == later.keys() and all(_are_same(state[name], later[name]) for name in state)
    if isinstance(state, np.ndarray):
        return bool(np.array_equal(state, later))
    return bool(state == later)


def _as_plain(generator: Any, state: Any) -> Any:
    """Return a generator's state as a tape has it; its form tells which kind of generator it is of."""
    if isinstance(generator, np.random.Generator):
        return state
    if isinstance(generator, np.random.RandomState):
        return {"legacy": state}
    version, numbers, gauss = state
    return version, np.array(numbers, np.uint32), gauss


def _of_plain(plain: Any) -> tuple[Any, Any]:
    """Return a new generator of the kind that has a tape's state, and the state."""
    if isinstance(plain, tuple):
        version, numbers, gauss = plain
        return random.Random(), (version, tuple(numbers.tolist()), gauss)
    if "legacy" in plain:
        return np.random.RandomState(), plain["legacy"]
    return np.random.Generator(getattr(np.random, plain["bit_generator"])()), plain
