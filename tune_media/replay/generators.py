"""The random generators of an env: their states before a reset, which the env of a replay takes over.

With the same states, another env makes the same reset and the same steps. Reading a state changes nothing: a generator
that does not exist yet is not made. Gymnasium makes ``np_random`` when it is first needed; NumPy remembers how it was
seeded, so the state that it began with is read afterwards.

The emulator of Atari games has a generator of its own, for sticky actions; its state can only be had with that of the
whole emulator.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from types import MethodType, ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from tune_media.recording.rendering import inside

States = dict[str, Any]
"""The states of an env's generators, plain data, by the place of each: how deep it is in the wrappers (0: the innermost
env), and the name of its attribute, or of an attribute of that."""

_LAZY = "_np_random"  # where Gymnasium keeps the generator of an env or a space; None: it is not made yet
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_HOLD_NONE = frozenset(
    {type(None), bool, int, float, str, bytes, tuple, list, dict, set, np.ndarray, np.float64, MethodType}
)
"""The types of most attributes of an env: no generator, and nothing that has one as its attribute."""


class _Place(NamedTuple):
    """Where a generator is.

    Attributes:
        name: Its name in ``States``.
        holder: The object that has it as an attribute.
        attribute: The attribute.
    """

    name: str
    holder: Any
    attribute: str

    @property
    def generator(self) -> Any:
        return getattr(self.holder, "__dict__", {}).get(self.attribute)


class Snapshot:
    """The states of an env's generators at one moment.

    Args:
        env: The env, with its wrappers.
        with_emulator: Whether to clone the state of an Atari game's emulator, too; it takes 0.3 ms and 15 kB. A reset
            with a seed needs none, since it loads the game anew.

    Example:
        >>> from types import SimpleNamespace
        >>> env, other = (SimpleNamespace(np_random=np.random.default_rng(seed)) for seed in (1, 2))
        >>> set_states(other, Snapshot(env).states)
        >>> other.np_random.random() == env.np_random.random()
        True
    """

    def __init__(self, env: Any, *, with_emulator: bool = True) -> None:
        self._states: States = {}
        self._not_made: list[_Place] = []
        for place in _places_in(env):
            generator = place.generator
            if generator is None:
                self._not_made.append(place)
            else:
                with contextlib.suppress(NotImplementedError):  # random.SystemRandom has no state
                    self._states[place.name] = _state_of(generator)
        if with_emulator:
            for name, game in _emulators_in(env):
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


def has_emulator(env: Any) -> bool:
    """Return whether an env is an Atari game: a reset with a seed loads it anew, which takes as long as many steps."""
    return any(True for _ in _emulators_in(env))


def set_states(env: Any, states: Mapping[str, Any]) -> None:
    """Give the generators of an env the states that those of one like it had.

    A generator that only one of the two envs has is left out: whoever plays the episode compares each step.
    """
    for place in _places_in(env):
        if place.name in states:
            generator, state = place.generator, states[place.name]
            if not _takes(generator, state):
                generator = _made_with(state)
                setattr(place.holder, place.attribute, generator)
                if getattr(place.holder, "_np_random_seed", 0) is None:
                    place.holder._np_random_seed = -1  # Gymnasium: unknown; None would have it make another generator
            _set_state(generator, state)
    for name, game in _emulators_in(env):
        if name in states:
            game.restore_state(type(game.clone_state())(states[name]))


def _places_in(env: Any) -> Iterator[_Place]:
    """Yield the place of each generator once: wrappers hand out the one of the env inside them."""
    known: set[int] = set()
    within: Any = None  # its generators are known already
    for depth, layer in enumerate(reversed(list(inside(env)))):
        own = getattr(layer, "__dict__", {})
        # each reset asks, and an env may have a hundred attributes
        parts = [pair for pair in list(own.items()) if type(pair[1]) not in _HOLD_NONE and pair[1] is not within]
        places = [_Place(f"{depth}/{name}", layer, name) for name, value in parts if isinstance(value, _GENERATORS)]
        if own.get(_LAZY) is None and getattr(type(layer), _LAZY, 0) is None:
            places.append(_Place(f"{depth}/{_LAZY}", layer, _LAZY))
        for name, value in parts:
            places += _of_space(f"{depth}/{name}", value) or _of_part(f"{depth}/{name}", value)
        for place in places:
            generator = place.generator
            key = id(place.holder) if generator is None else id(generator)
            if key not in known:
                known.add(key)
                yield place
        within = layer


def _of_space(name: str, value: Any) -> list[_Place]:
    """Return the places of a space's generators; of any other value none."""
    own = getattr(value, "__dict__", None)
    if own is None or _LAZY not in own or not hasattr(type(value), "sample"):
        return []
    places = [_Place(f"{name}/{_LAZY}", value, _LAZY)]
    inner = own.get("spaces") or ()
    for key, space in inner.items() if isinstance(inner, Mapping) else enumerate(inner):
        places += _of_space(f"{name}/{key}", space)
    return places


def _of_part(name: str, value: Any) -> list[_Place]:
    """Return the places of the generators that an object has which an env has: its game, its simulator."""
    own = getattr(value, "__dict__", None)
    if type(own) is not dict or isinstance(value, (type, ModuleType)) or callable(value):
        return []
    return [_Place(f"{name}/{key}", value, key) for key, inner in list(own.items()) if isinstance(inner, _GENERATORS)]


def _emulators_in(env: Any) -> Iterator[tuple[str, Any]]:
    for depth, layer in enumerate(reversed(list(inside(env)))):
        if hasattr(type(layer), "clone_state") and hasattr(layer, "ale"):
            yield f"{depth}/ale", layer


def _state_of(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return dict(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return {"legacy": dict(generator.get_state(legacy=False))}
    version, numbers, gauss = generator.getstate()
    return (version, np.array(numbers, np.uint32), gauss)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state["legacy"])
    else:
        version, numbers, gauss = state
        generator.setstate((version, tuple(numbers.tolist()), gauss))


def _takes(generator: Any, state: Any) -> bool:
    """Return whether a generator is of the kind that has such a state."""
    if isinstance(state, tuple):
        return isinstance(generator, random.Random)
    if "legacy" in state:
        return isinstance(generator, np.random.RandomState)
    bits = getattr(generator, "bit_generator", None)
    return isinstance(generator, np.random.Generator) and type(bits).__name__ == state["bit_generator"]


def _made_with(state: Any) -> Any:
    """Return a new generator that can be given a state."""
    if isinstance(state, tuple):
        return random.Random()
    if "legacy" in state:
        return np.random.RandomState()
    return np.random.Generator(getattr(np.random, state["bit_generator"])())
