"""Messages as files: large arrays are written from where they are, and locks become new ones."""

from __future__ import annotations

import _thread
import io
import pickle
import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from ray import cloudpickle


class _Pickler(cloudpickle.CloudPickler):
    """Pickles locks as new ones: values that encode themselves when first asked hold one."""

    dispatch_table: ClassVar[dict[Any, Any]] = {
        **cloudpickle.CloudPickler.dispatch_table,
        _thread.LockType: lambda lock: (threading.Lock, ()),
    }


def pickled(message: Any) -> list[bytes | memoryview]:
    """Return a message as pieces of a file. Among them is the memory of large arrays, which is not copied.

    A copy would hold the GIL, and with it Tune's loop; writing to the disk does not.
    """
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(message)
    pieces: list[bytes | memoryview] = [file.getvalue(), *(buffer.raw() for buffer in buffers)]
    sizes = pickle.dumps([len(piece) for piece in pieces])
    return [sizes, *pieces]


def unpickled(file: Path) -> Any:
    """Return the message that the pieces in a file make.

    Raises:
        Exception: The file is gone, or not as it was written.
    """
    with file.open("rb") as stream:
        pieces = [np.empty(nbytes, np.uint8) for nbytes in pickle.load(stream)]
        for piece in pieces:
            if stream.readinto(piece.data) < len(piece):
                raise EOFError("the file is too short")
    content, *buffers = pieces
    return pickle.loads(content.data, buffers=buffers)
