"""The tape of an episode: all that it takes to play the episode again, and to check that it is the same one.

Its checksums cover each observation, reward and end, so a replay that differs in one of them is found at that step.
"""

from __future__ import annotations

import pickle
import struct
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
from crc32c import crc32c

from tune_media.replay.generators import States
from tune_media.values.foreign import without_address

MAX_BYTES = 32 * 2**20
"""Memory that one tape takes at the most; a longer episode cannot be replayed."""
_PICKLED_OVERHEAD = 40


class Actions:
    """The actions of an episode, in order. Arrays and NumPy numbers of one type take only their own bytes.

    Example:
        >>> actions = Actions()
        >>> for value in (0.5, -1.0):
        ...     actions.append(np.array([value, 0.0], np.float32))
        >>> actions[1].tolist(), actions.nbytes
        ([-1.0, 0.0], 16)
    """

    def __init__(self) -> None:
        self._like: np.ndarray[Any, Any] | np.generic | None = None  # the first action, if all are like it
        self._packed = bytearray()
        self._pickled: list[bytes] = []
        self._count = 0
        self.nbytes = 0

    def __len__(self) -> int:
        return self._count

    def append(self, action: Any) -> None:
        """Copy an action.

        Raises:
            Exception: Whatever pickling raises, if it is no array and no number.
        """
        if self._count == 0 and isinstance(action, (np.ndarray, np.generic)) and not action.dtype.hasobject:
            self._like = action.copy()
        if self._like is not None and not _is_like(action, self._like):
            self._unpack()
        if self._like is not None:
            self._packed += action.tobytes()
            self.nbytes = len(self._packed)
        else:
            self._pickled.append(pickle.dumps(action, pickle.HIGHEST_PROTOCOL))
            self.nbytes += len(self._pickled[-1]) + _PICKLED_OVERHEAD
        self._count += 1

    def __getitem__(self, index: int) -> Any:
        """Return a copy of the action with this index, from 0."""
        if self._like is None:
            return pickle.loads(self._pickled[index])
        size = self._like.nbytes
        part = bytes(self._packed[index * size : (index + 1) * size])
        flat = np.frombuffer(part, self._like.dtype)
        return flat[0] if isinstance(self._like, np.generic) else flat.reshape(self._like.shape).copy()

    def _unpack(self) -> None:
        """Hold actions of any type from now on."""
        self._pickled = [pickle.dumps(self[index], pickle.HIGHEST_PROTOCOL) for index in range(self._count)]
        self._like, self._packed = None, bytearray()
        self.nbytes = sum(len(one) + _PICKLED_OVERHEAD for one in self._pickled)


class Tape:
    """An episode's reset, actions and checksums.

    Args:
        seed: The seed of its reset. None: it was given none.
        options: The further arguments of its reset.
        task: The task that its env was in, if the env has one (``set_task``).
        generators: The states of the env's random generators before a reset without a seed. None: they are not known.

    Attributes:
        actions: The actions, as the env was given them.
        checks: The checksum of everything that the env returned so far: after the reset, then after each step.
        fault: Why the episode cannot be replayed; None: it can.

    Example:
        >>> tape = Tape(seed=7)
        >>> tape.began(check=11)
        >>> tape.stepped(action=1, check=12)
        >>> len(tape), list(tape.checks), tape.fault
        (1, [11, 12], None)
    """

    def __init__(
        self,
        seed: int | None,
        options: Mapping[str, Any] | None = None,
        task: Any = None,
        generators: States | None = None,
    ) -> None:
        self.seed, self.options, self.task, self.generators = seed, dict(options or {}), task, generators
        self.actions = Actions()
        self.checks = array("I")
        is_known = seed is not None or generators is not None
        self.fault: str | None = None if is_known else "its reset was given no seed"

    def __len__(self) -> int:
        """The number of its steps."""
        return len(self.actions)

    def began(self, check: int) -> None:
        """The env has been reset.

        Args:
            check: The checksum after it.
        """
        self.checks.append(check)

    def stepped(self, action: Any, check: int) -> None:
        """The env has been stepped.

        Args:
            action: The action that it was given.
            check: The checksum after the step.
        """
        if self.fault is not None:
            return
        try:
            self.actions.append(action)
        except Exception as error:
            self.fault = f"its action of type {type(action).__name__} cannot be copied: {error}"
        self.checks.append(check)
        if self.actions.nbytes + self.checks.itemsize * len(self.checks) > MAX_BYTES:
            self.fault = f"its actions take more than {MAX_BYTES // 2**20} MB (step {len(self)})"


def checksum(value: Any, start: int = 0) -> int:
    """Return the CRC-32C of a value: an array, a number, text, or nested dicts and sequences of these.

    Args:
        value: The value.
        start: The checksum of everything before it.

    Example:
        >>> checksum({"x": np.zeros(2), "y": 1}) == checksum({"y": 1, "x": np.zeros(2)})
        True
        >>> checksum(0.0) == checksum(-0.0)
        False
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return _of_array(np.asarray(value), start)
    if isinstance(value, float):
        return int(crc32c(struct.pack("<d", value), start))
    if isinstance(value, (int, str)) or value is None:  # a truth value is an int
        return int(crc32c(f"{value};".encode(), start))
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            start = checksum(value[key], checksum(str(key), start))
        return int(crc32c(b"}", start))
    if isinstance(value, (tuple, list)):
        for item in value:
            start = checksum(item, start)
        return int(crc32c(b"]", start))
    if hasattr(value, "__array__"):
        return _of_array(np.asarray(value), start)
    return int(crc32c(without_address(repr(value)).encode(), start))


def _of_array(array: np.ndarray[Any, Any], start: int) -> int:
    if array.dtype.hasobject:
        return checksum(array.tolist(), start)
    return int(crc32c(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"0", start))


def _is_like(action: Any, first: np.ndarray[Any, Any] | np.generic) -> bool:
    return type(action) is type(first) and action.dtype == first.dtype and action.shape == first.shape
