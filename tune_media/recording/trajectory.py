"""The steps of an episode as columns: observations, actions, rewards, infos, one row a step, in bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tune_media.steps import StepFacts
from tune_media.values.convert import converted
from tune_media.values.episodes import Trajectory
from tune_media.values.strict_json import as_plain, json_bytes

MAX_BYTES = 64 * 2**20  # of the steps of one episode; later ones are left out, and the note says so
_SCALAR_BYTES = 40


class TrajectoryBuilder:
    """The steps of a running episode; ``env`` is the vector env if the sub-env is out of reach, None if both are."""

    def __init__(self, env: Any = None) -> None:
        self._observation_space, self._action_space = _space(env, "observation"), _space(env, "action")
        self._rows: list[dict[str, Any]] = []
        self.nbytes = 0  # the memory that its steps take, roughly
        self._most, self._cut = MAX_BYTES, 0

    def add(self, facts: StepFacts) -> None:
        """Take in a step, or the reset, which is step 0."""
        if self.nbytes > self._most:
            self._cut += 1
            return
        row: dict[str, Any] = {"step": facts.step}
        row |= dict(_leaves("observation", facts.observation, self._observation_space))
        if facts.step:
            row["reward"] = facts.reward
            row |= dict(_leaves("action", facts.action, self._action_space))
        if facts.info:
            row["info"] = _json_text(facts.info)
        self._rows.append(row)
        self.nbytes += sum(map(_size, row.values()))

    def cut(self) -> None:
        """Leave out all steps after this point."""
        self._most = min(self._most, self.nbytes - 1)

    def finish(self) -> Trajectory:
        """Return the steps as columns, with None for a missing value."""
        names = dict.fromkeys(["step", "reward", *(name for row in self._rows for name in row)])
        columns = {name: [row.get(name) for row in self._rows] for name in names}
        for name, values in columns.items():
            if any(isinstance(value, str) for value in values):  # lists that only some steps had at one length
                columns[name] = [_json_text(value) if isinstance(value, np.ndarray) else value for value in values]
        note = f"the last {self._cut} steps are left out: more than {self._most} bytes" if self._cut else None
        return Trajectory(columns, note)


def _size(value: Any) -> int:
    return _SCALAR_BYTES + (len(value) if isinstance(value, str) else getattr(value, "nbytes", 0))


def _space(env: Any, kind: str) -> Any:
    """Return the observation or action space of an env, or of each sub-env; with several agents, theirs by name."""
    names = (f"single_{kind}_spaces", f"single_{kind}_space", f"{kind}_spaces", f"{kind}_space")
    return next(filter(None, (getattr(env, name, None) for name in names)), None)


def _part(space: Any, key: Any) -> Any:
    """Return the space of one part of a Dict, a Tuple, or of one agent, or None if there is none."""
    try:
        return getattr(space, "spaces", space)[key]
    except (TypeError, KeyError, IndexError):
        return None


def _leaves(name: str, value: Any, space: Any = None) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a value, numbers, text, or arrays; those of dicts and tuples as ``<name>/<key>``."""
    value = converted(value)
    if value is None:
        return
    # Gymnasium's, which is not imported here: a tuple of changing length is one leaf, as JSON text
    is_sequence = type(space).__name__ == "Sequence"
    if isinstance(value, (Mapping, tuple)) and not is_sequence:
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _leaves(f"{name}/{key}", item, _part(space, key))
    elif isinstance(value, str):
        yield name, value
    else:
        array = None
        if not isinstance(value, (tuple, Mapping)):
            with contextlib.suppress(ValueError):  # a list of lists of different lengths
                array = np.array(value)  # a copy: envs fill the same buffer again
        if array is None or array.dtype.kind not in "biuf":
            yield name, _json_text(value)
        else:
            yield name, array.item() if array.ndim == 0 else array


def _json_text(value: Any) -> str:
    """Return a value as JSON text; parts that JSON does not have are left out by name."""
    if isinstance(value, Mapping):
        return json_bytes({str(key): _plain_or_note(item, str(key)) for key, item in value.items()}).decode()
    return json_bytes(_plain_or_note(value, "a value")).decode()


def _plain_or_note(value: Any, name: str) -> Any:
    try:
        return as_plain(value, name)
    except TypeError as error:
        return f"not stored: {error}"
