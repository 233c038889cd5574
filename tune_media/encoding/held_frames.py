"""Frames that wait for their encoder, each as its difference from the one before, compressed without loss."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tune_media.encoding.frames import Frame

MOST_PIXELS = 400_000_000  # of one clip: x264 encodes them in about 3 s, for which the taker of the clip waits
_MOST_CHANGED = 1 / 4  # of a frame's bytes: HalfCheetah has 0.15; with noise, 0.36, holding takes as long as encoding
_JUDGED_AFTER = 4  # frames
_OBJECT_BYTES = 41  # what Python adds to each


class HeldFrames:
    """The frames of one clip, which all have the size of ``first``; ``drain`` gives them back, one by one."""

    def __init__(self, first: Frame, most_bytes: int) -> None:
        # by falling strides: some envs hand out transposed pictures, which are fastest in the order of their memory
        self._axes = tuple(sorted(range(3), key=lambda axis: -abs(first.strides[axis])))
        self._shape = tuple(first.shape[axis] for axis in self._axes)
        self._latest: Frame | None = np.zeros(self._shape, np.uint8)
        self._changes: list[bytes] = []
        self._changed_bytes, self._most_bytes = 0, most_bytes

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        latest = 0 if self._latest is None else self._latest.nbytes
        return latest + self._changed_bytes + _OBJECT_BYTES * len(self._changes)

    @property
    def are_full(self) -> bool:
        """Whether more frames are better encoded than held."""
        count, size = len(self._changes), int(math.prod(self._shape))
        if count * size // 3 >= MOST_PIXELS or self.nbytes > self._most_bytes:
            return True
        if count <= _JUDGED_AFTER:
            return False
        return self._changed_bytes - len(self._changes[0]) > _MOST_CHANGED * size * (count - 1)

    def add(self, frame: Frame) -> None:
        """Hold a frame. The array can be reused afterwards."""
        latest, reordered = self._latest, frame.transpose(self._axes)
        assert latest is not None
        np.subtract(reordered, latest, out=latest)  # modulo 256
        self._changes.append(_zstd().compress(latest.reshape(-1), asbytes=True))
        self._changed_bytes += len(self._changes[-1])
        latest[...] = reordered

    def end(self) -> None:
        """Free the memory that only further frames need."""
        self._latest = None

    def drain(self) -> Iterator[Frame]:
        """Yield the frames, and free each; an array is overwritten by the next one."""
        self.end()
        self._changes.reverse()
        frame, codec = np.zeros(self._shape, np.uint8), _zstd()
        shown = frame.transpose(np.argsort(self._axes))
        while self._changes:
            change = self._changes.pop()
            self._changed_bytes -= len(change)
            frame += np.frombuffer(codec.decompress(change, frame.nbytes), np.uint8).reshape(frame.shape)
            yield shown


@functools.cache
def _zstd() -> Any:
    from pyarrow import Codec  # here, since only who holds frames needs Arrow

    return Codec("zstd", compression_level=1)
