"""The numbers of a result and the caption of a clip, as several trackers show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def numbers_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among some values. A text that is a number is one, as for Ray; so is an array of one value.

    >>> numbers_of({"score": 1, "text": "best", "lr": "1e-3", "loss": np.array([0.5]), "is_done": True})
    {'score': 1.0, 'lr': 0.001, 'loss': 0.5, 'is_done': 1.0}
    """
    numbers: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.size != 1:
            continue
        try:
            numbers[name] = float(value.item() if isinstance(value, np.ndarray) else value)
        except Exception:  # no number; a user's class may raise anything
            continue
    return numbers


def caption_of(facts: Mapping[str, Any], *others: object) -> str:
    """Return the text of a clip's caption: what is known of its episode, and others that are not empty.

    >>> caption_of({"episode_return": 231.0, "episode_length": 231}, "step 4000"), caption_of({}, None)
    ('return 231, length 231, step 4000', '')
    """
    parts = []
    if isinstance(facts.get("episode_return"), (int, float)):
        parts.append(f"return {facts['episode_return']:.6g}")
    if facts.get("episode_length") is not None:
        parts.append(f"length {facts['episode_length']}")
    return ", ".join([*parts, *(str(other) for other in others if other)])
