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

    dropped: type[OSError] = BrokenPipeError

    @override
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except self.dropped:
            return memoryview(data).nbytes
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from error


class _ErrorStream(_Stream):
    """A file of warnings and progress, which change no exit code if the disk is full."""

    dropped = OSError


def drop_what_nobody_reads() -> None:
    """Let the command do its work, and end with its own exit code, if nobody reads its output, or no more of it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # the shell has closed it
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for name, kind in (("stdout", _Stream), ("stderr", _ErrorStream)):
        stream = getattr(sys, name)
        file = kind(stream.fileno(), "w", closefd=False)
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
