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
from typing import Any, cast

import numpy as np

from tune_media.replay.env_state import EnvState, GeneratorPlace, layers_of

States = dict[str, Any]
"""The states of an env's generators, plain data, by the place of each: the number of the layer (0: the innermost env),
and the names of the attributes that lead to it."""


class Snapshot:
    """The states of an env's generators at one moment.

    Args:
        with_emulator: Whether to clone the state of an Atari game's emulator, too; it takes 0.3 ms and 15 kB. A reset
            with a seed needs none, since it loads the game anew.
    """

    def __init__(self, state: EnvState, *, with_emulator: bool = True) -> None:
        self._states: States = {}
        self._not_made: list[GeneratorPlace] = []
        for place in state.places:
            generator = place.generator
            if generator is None:
                self._not_made.append(place)
            else:
                with contextlib.suppress(NotImplementedError):  # random.SystemRandom has no state
                    self._states[place.name] = _state_of(generator)
        if with_emulator:
            for name, game in _emulators_in(state.layers):
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
    return any(True for _ in _emulators_in(layers_of(env)))


def set_states(env: Any, states: Mapping[str, Any]) -> None:
    """Give the generators of an env the states that those of one like it had.

    A generator that only one of the two envs has is left out: whoever plays the episode compares each step.
    """
    state = EnvState(env)
    for place in state.places:
        if place.name in states:
            generator, wanted = place.generator, states[place.name]
            if not _takes(generator, wanted):
                generator = _made_with(wanted)
                setattr(place.holder, place.attribute, generator)
                if getattr(place.holder, "_np_random_seed", 0) is None:
                    place.holder._np_random_seed = -1  # Gymnasium: unknown; None would have it make another generator
            _set_state(generator, wanted)
    for name, game in _emulators_in(state.layers):
        if name in states:
            game.restore_state(type(game.clone_state())(states[name]))


def _emulators_in(layers: list[Any]) -> Iterator[tuple[str, Any]]:
    for number, layer in enumerate(layers):
        if hasattr(type(layer), "clone_state") and hasattr(layer, "ale"):
            yield f"{number}/ale", layer


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
