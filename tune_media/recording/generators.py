"""The random generators of an env: their states before a reset, which the replay's env takes over.

A reset that is given no seed goes on with the generator that the env has. With the same state, another env makes the
same reset, and the env that the user steps draws the numbers that it would draw without us.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tune_media.recording.rendering import inside

States = tuple[Mapping[str, Any], ...]
"""The states of an env's generators, from the outermost one to the innermost one."""


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
    return tuple(generator.bit_generator.state for generator in _generators_of(env))


def set_states(env: Any, states: Sequence[Mapping[str, Any]]) -> None:
    """Give the generators of an env the states that those of one like it had.

    Raises:
        ValueError: It has other generators.
    """
    for generator, state in zip(_generators_of(env), states, strict=True):
        generator.bit_generator.state = state


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
    before = [(generator, generator.bit_generator.state) for generator in _generators_of(env)]
    try:
        yield
    finally:
        for generator, state in before:
            generator.bit_generator.state = state


def _generators_of(env: Any) -> list[np.random.Generator]:
    """Return each generator once: wrappers hand out the one of the env inside them."""
    found: dict[int, np.random.Generator] = {}
    for candidate in inside(env):
        of_gymnasium = None
        with contextlib.suppress(Exception):  # a wrapper may hand out none before the first reset
            of_gymnasium = candidate.np_random
        for value in (of_gymnasium, *getattr(candidate, "__dict__", {}).values()):
            if isinstance(value, np.random.Generator):
                found[id(value)] = value
    return list(found.values())
