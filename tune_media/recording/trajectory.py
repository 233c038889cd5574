"""The steps of an episode as columns: observations, actions, rewards, infos, one row a step, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tune_media.steps import StepFacts
from tune_media.values.convert import as_plain, converted
from tune_media.values.episodes import Trajectory
from tune_media.values.strict_json import json_bytes

MAX_BYTES = 64 * 2**20
"""Memory that the steps of one episode take at the most; what comes after is left out, and the note says so."""
_SCALAR_BYTES = 40


class TrajectoryBuilder:
    """The steps of a running episode."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self._cut = 0

    def add(self, facts: StepFacts) -> None:
        """Take in a step, or the reset, which is step 0."""
        if self._bytes > MAX_BYTES:
            self._cut += 1
            return
        row: dict[str, Any] = {"step": facts.step}
        row |= dict(_leaves("observation", facts.observation))
        if facts.step:
            row["reward"] = facts.reward
            row |= dict(_leaves("action", facts.action))
        if facts.info:
            row["info"] = _text(facts.info)
        self._rows.append(row)
        self._bytes += sum(map(_size, row.values()))

    def finish(self) -> Trajectory:
        """Return the steps as columns; what a row does not have is None there."""
        names = dict.fromkeys(["step", "reward", *(name for row in self._rows for name in row)])
        columns = {name: [row.get(name) for row in self._rows] for name in names}
        note = f"the last {self._cut} steps are left out: more than {MAX_BYTES} bytes" if self._cut else None
        return Trajectory(columns, note)


def _size(value: Any) -> int:
    return _SCALAR_BYTES + (len(value) if isinstance(value, str) else getattr(value, "nbytes", 0))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a value, those of dicts and tuples as ``<name>/<key>``: numbers, text, or flat arrays."""
    value = converted(value)
    if value is None:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(f"{name}/{key}", item)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _leaves(f"{name}/{index}", item)
    elif isinstance(value, str):
        yield name, value
    else:
        array = np.array(value)  # a copy: envs fill the same buffer again
        if array.dtype.kind in "biuf":
            yield name, array.item() if array.ndim == 0 else array
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    """Return a value as JSON text; what JSON does not have is left out by name."""
    if isinstance(value, Mapping):
        plain = {}
        for key, item in value.items():
            try:
                plain[str(key)] = as_plain(item, str(key))
            except TypeError as error:
                plain[str(key)] = f"not stored: {error}"
        return json_bytes(plain).decode()
    return json_bytes(as_plain(value, "a value")).decode()
