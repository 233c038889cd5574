"""Standard output and standard error, of which another process, such as ``head``, may read the beginning only."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typing_extensions import override


class _Stream(io.FileIO):
    """A file that drops what is written to a pipe after its reader has ended.

    If standard output cannot be written otherwise, such as to a full disk, it raises once: when the process ends,
    Python writes the rest again, and would end it with 120. Of standard error, nobody can be told.
    """

    _has_failed = False  # of any of them: copies of standard output are the same file

    @override
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            size = memoryview(data).nbytes
            if self._has_failed or self.fileno() == 2 or isinstance(error, BrokenPipeError):
                return size
            _Stream._has_failed = size > 0  # Click tries to write nothing
            raise OSError(error.errno, error.strerror, "standard output") from error


def drop_what_nobody_reads() -> None:
    """Let the command do its work, and end with its own exit code, when nobody reads its output any more."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # closed ones: another file would get their numbers
        os.set_inheritable(number, True)
    os.close(number)
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is None:  # a closed one, which not every release of Click takes
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
        else:
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
