"""Standard output and standard error, of which another process, such as ``head``, may read the beginning only."""

from __future__ import annotations

import io
import sys
from typing import Any

from typing_extensions import override


class _Stream(io.FileIO):
    """A file that drops what is written to a pipe after its reader has ended."""

    @override
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def drop_what_nobody_reads() -> None:
    """Let the command do its work, and end with its own exit code, when nobody reads its output any more."""
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is not None:
            file = _Stream(stream.fileno(), "w", closefd=False)
            buffer: Any = file if stream.write_through else io.BufferedWriter(file)  # as Python does
            options = ("encoding", "errors", "line_buffering", "write_through")
            setattr(sys, name, io.TextIOWrapper(buffer, **{option: getattr(stream, option) for option in options}))
