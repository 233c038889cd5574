"""A hash of all of an array, for the rare case that a sample of it is not enough to tell it from another one."""

from __future__ import annotations

import hashlib
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt


class ContentHash:
    """The hash of an array, made when it is first needed. It does not keep the array in memory.

    Whoever drops the array calls ``value`` before, in the background. Any thread calls all methods.

    >>> array, same, other = np.zeros(9), np.zeros(9), np.ones(9)
    >>> ContentHash(array).differs_from(ContentHash(same)), ContentHash(array).differs_from(ContentHash(other))
    (False, True)

    Args:
        array: The array.
    """

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array: weakref.ref[npt.NDArray[Any]] | None = weakref.ref(array)
        self._digest: bytes | None = None

    def value(self) -> bytes | None:
        """Return the hash; None if the array is gone and nobody has asked before."""
        array = self._array() if self._array is not None else None
        if self._digest is None and array is not None:
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            self._digest = hashlib.blake2b(content, digest_size=16).digest()
            self._array = None
        return self._digest

    def differs_from(self, other: ContentHash) -> bool:
        """Return whether two arrays are known to differ. This reads all of an array that has no hash yet."""
        mine, others = self.value(), other.value()
        return mine is not None and others is not None and mine != others

    def __getstate__(self) -> dict[str, Any]:
        return {"_array": None, "_digest": self.value()}
