"""Leaves no trace of an env that is used beside the one that the user steps: random numbers, pygame."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

_PYGAME = ("pygame", "pygame.display", "pygame.font", "pygame.freetype", "pygame.mixer")


def close_env(env: Any, in_use: list[ModuleType]) -> None:
    """Close an env.

    Args:
        env: The env.
        in_use: Modules that others use, and that the env's ``close()`` must not end.
    """
    with contextlib.ExitStack() as patches, contextlib.suppress(Exception):
        for module in in_use:
            patches.enter_context(mock.patch.object(module, "quit"))
        env.close()


def pygame_in_use() -> list[ModuleType]:
    """Return the modules of pygame that somebody uses: ``pygame.quit()`` ends them for all envs of the process."""
    loaded = [sys.modules[name] for name in _PYGAME if name in sys.modules]
    return [module for module in loaded if module.get_init()]


@contextlib.contextmanager
def same_random_numbers() -> Iterator[None]:
    """Give the process's random generators back the state that they had before a ``with`` block."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    of_torch = torch.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        if torch is not None:
            torch.set_rng_state(of_torch)
