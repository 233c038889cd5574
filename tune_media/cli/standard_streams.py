"""Standard output and standard error, of which another process, such as ``head``, may read the beginning only."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
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
        stream = getattr(sys, name)
        file = _Stream(stream.fileno(), "w", closefd=False)
        buffer: Any = file if stream.write_through else io.BufferedWriter(file)  # as Python does
        options = ("encoding", "errors", "line_buffering", "write_through")
        setattr(sys, name, io.TextIOWrapper(buffer, **{option: getattr(stream, option) for option in options}))


@contextlib.contextmanager
def output_alone() -> Iterator[Any]:
    """Yield standard output; what else is printed, also in C and by other processes, goes to standard error."""
    output: Any = sys.stdout
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        with contextlib.suppress(AttributeError, OSError, ValueError):  # notebooks and tests have other streams
            if (output.fileno(), sys.stderr.fileno()) == (1, 2):
                output.flush()
                copy = stack.enter_context(io.BufferedWriter(_Stream(os.dup(1), "w")))
                os.dup2(2, 1)
                stack.callback(os.dup2, copy.fileno(), 1)
                output = copy
        yield output
