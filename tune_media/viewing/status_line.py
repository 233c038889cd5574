"""One line of the terminal that shows that a command is alive: the stage that it is in, and the seconds so far."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from tune_media.values.threads import start_thread

_TICK = 1.0  # seconds between two drawings of the line on a terminal
_QUIET_TICK = 10.0  # seconds between two lines in a file or a pipe
ERASED = "\r\x1b[K"  # makes the line of a terminal empty


def in_place(line: str) -> str:
    """Return what draws a terminal's line anew, cut to its width; whatever else is printed begins where it does."""
    return f"{ERASED}{line[: shutil.get_terminal_size().columns - 1]}\r"


class StatusLine:
    """A line that a thread redraws each second, until the ``with`` block ends.

    On a terminal the line stays in place. Otherwise each new stage is one more line, and each ten seconds another.

    Example:
        >>> with StatusLine(clock=lambda: 0.0) as line:
        ...     line.stage("Starting Ray")
        [  0 s] Starting Ray
    """

    def __init__(self, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file or sys.stdout
        self._is_terminal = self._file.isatty()
        self._clock, self._start = clock, clock()
        self._text = ""
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> StatusLine:
        self._thread = start_thread("tune-media status", self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        if self._is_terminal:
            self._draw()
            self._write("\n")

    def stage(self, text: str) -> None:
        """Show a new stage, at once."""
        self.progress(text)
        self._draw()

    def progress(self, text: str) -> None:
        """Show how far the stage is, when the line is drawn next."""
        self._text = text

    def tell(self, text: str) -> None:
        """Show a line that stays."""
        self._write(f"{ERASED}{text}\n" if self._is_terminal else f"{text}\n")

    def _run(self) -> None:
        while not self._is_over.wait(_TICK if self._is_terminal else _QUIET_TICK):
            self._draw()

    def _draw(self) -> None:
        line = f"[{self._clock() - self._start:3.0f} s] {self._text}"
        if self._is_terminal:
            self._write(in_place(line))
        else:
            self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        with self._lock:
            self._file.write(text)
            self._file.flush()
