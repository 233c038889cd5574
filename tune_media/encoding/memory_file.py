"""A file in memory that FFmpeg writes, closes, and opens again for reading."""

from __future__ import annotations

import io
from typing import Any

from typing_extensions import override

_READ = 1  # FFmpeg's AVIO_FLAG_READ


class MemoryFile(io.BytesIO):
    """A buffer that keeps its content when FFmpeg closes it.

    To move the index of an mp4 to the front of the file, FFmpeg reads what it has written in a second pass. It opens
    the file once more for that pass, through ``reopen``.
    """

    @override
    def close(self) -> None:
        """Do nothing: the content is needed after FFmpeg has closed the file."""

    def reopen(self, url: str, flags: int, options: dict[str, Any]) -> Any:
        """Open the file again. PyAV calls this as its ``io_open``."""
        return _ReadView(self) if flags == _READ else self


class _ReadView:
    """Reads a buffer at its own position while FFmpeg writes to the buffer at another."""

    def __init__(self, buffer: io.BytesIO) -> None:
        self._buffer = buffer
        self._position = 0

    def read(self, size: int) -> bytes:
        with self._buffer.getbuffer() as view:
            chunk = view[self._position : self._position + size].tobytes()
        self._position += len(chunk)
        return chunk

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._buffer.getbuffer() as view:
            start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(view)}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        pass
