"""The random generators of an env: their states before a reset, which the replay's env takes over.

A reset that is given no seed goes on with the generator that the env has. With the same state, another env makes the
same reset, and the env that the user steps draws the numbers that it would draw without us. The emulator of Atari games
has a generator of its own, for sticky actions; its state can only be had with that of the whole emulator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tune_media.recording.rendering import inside

States = tuple[Any, ...]
"""The states of an env's generators, from the outermost one to the innermost one."""


class _NumPy(NamedTuple):
    """A generator of NumPy's."""

    generator: np.random.Generator

    def state(self) -> Any:
        return self.generator.bit_generator.state

    def set_state(self, state: Any) -> None:
        self.generator.bit_generator.state = state


class _Emulator(NamedTuple):
    """The emulator of an Atari game, in an env of ALE's; one clone of its state takes 0.3 ms and 15 kB."""

    env: Any

    def state(self) -> Any:
        return self.env.clone_state(include_rng=True)

    def set_state(self, state: Any) -> None:
        self.env.restore_state(state)


def states_of(env: Any) -> States:
    """Return the states of the generators of an env and of those that it wraps.

    Gymnasium's envs have theirs as ``np_random``, and make it when they are asked for it for the first time. Others
    have one as an attribute of any name.

    Example:
        >>> from types import SimpleNamespace
        >>> env, other = (SimpleNamespace(np_random=np.random.default_rng(seed)) for seed in (1, 2))
        >>> set_states(other, states_of(env))
        >>> other.np_random.random() == env.np_random.random()
        True
    """
    return tuple(generator.state() for generator in _generators_of(env))


def has_emulator(env: Any) -> bool:
    """Return whether an env is an Atari game: a reset with a seed loads it anew, which takes as long as many steps."""
    return any(isinstance(generator, _Emulator) for generator in _generators_of(env))


def set_states(env: Any, states: Sequence[Any]) -> None:
    """Give the generators of an env the states that those of one like it had.

    Raises:
        ValueError: It has other generators.
    """
    for generator, state in zip(_generators_of(env), states, strict=True):
        generator.set_state(state)


@contextlib.contextmanager
def same_states(env: Any) -> Iterator[None]:
    """Give the generators that an env has the states back that they had before a ``with`` block.

    They may be those of another env, too: one that a module made, or that the function that makes the envs holds.

    Example:
        >>> from types import SimpleNamespace
        >>> env = SimpleNamespace(np_random=np.random.default_rng(1))
        >>> with same_states(env):
        ...     first = env.np_random.random()
        >>> env.np_random.random() == first
        True
    """
    before = [(generator, generator.state()) for generator in _generators_of(env)]
    try:
        yield
    finally:
        for generator, state in before:
            generator.set_state(state)


def _generators_of(env: Any) -> list[_NumPy | _Emulator]:
    """Return each generator once: wrappers hand out the one of the env inside them."""
    found: dict[int, _NumPy | _Emulator] = {}
    for candidate in inside(env):
        of_gymnasium = None
        with contextlib.suppress(Exception):  # a wrapper may hand out none before the first reset
            of_gymnasium = candidate.np_random
        for value in (of_gymnasium, *getattr(candidate, "__dict__", {}).values()):
            if isinstance(value, np.random.Generator):
                found[id(value)] = _NumPy(value)
        if hasattr(type(candidate), "clone_state") and hasattr(candidate, "ale"):
            found[id(candidate)] = _Emulator(candidate)
    return list(found.values())
