"""What an env rendered in the episode that runs: nobody who looks at the env, its class or its module finds it."""

from __future__ import annotations

from typing import Any

import numpy as np

_BY_STEP: dict[int, list[np.ndarray]] = {}
_NOW = [0]


def begin() -> None:
    _BY_STEP.clear()
    _NOW[0] = 0


def stepped() -> None:
    """Note that the frames that follow show the next step."""
    _NOW[0] += 1


def rendered(frame: Any) -> None:
    _BY_STEP.setdefault(_NOW[0], []).append(np.array(frame))


def taken() -> dict[int, list[np.ndarray]]:
    """Return the frames of the episode that has ended, by step."""
    return dict(_BY_STEP)
