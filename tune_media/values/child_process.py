"""A process of ours that runs code of the user's, which may hang in it, end it, or be killed with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

END_SECONDS = 10.0  # in which it ends by itself when it is not needed any more
_OF_SESSION = 5  # the most: a third of what another session gets. 15 starved it on a machine full of other work
_STARTING = threading.Lock()  # a child that is being started cannot be told from another fork of this process
_STARTED: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


def stand_back(niceness: int) -> None:
    """Leave the processor to others, in a process that began its session.

    Linux may share the processor out among sessions first (autogroup, see ``sched(7)``): there, the niceness of a
    process counts within its session alone, and the session has one of its own.
    """
    if not niceness:
        return
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        os.nice(niceness)
    with contextlib.suppress(OSError):  # there are no such groups, or another was changed in the last tenth of a second
        Path("/proc/self/autogroup").write_text(str(min(niceness, _OF_SESSION)))


class ChildProcess:
    """A module of this package, run by Python in a group and a session of its own: Ctrl-C is for whoever starts it.

    Args:
        module: It has the user's modules, and not the folder in which it is started, on its path.
        arguments: Its arguments.
        pass_fds: The files that it inherits.
        variables: Further environment variables.
        streams: ``stdin=``, ``stdout=`` and ``stderr=``, as of ``subprocess.Popen``.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        pass_fds: Sequence[int] = (),
        variables: Mapping[str, str] | None = None,
        **streams: Any,
    ) -> None:
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        with _STARTING:
            self.popen: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *arguments],
                pass_fds=pass_fds,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path, **(variables or {})},
                **streams,
            )
            _STARTED.add(self.popen)
        self._told_at = time.monotonic()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.popen.poll() is not None

    def told(self) -> None:
        """Note a sign of life."""
        self._told_at = time.monotonic()

    def is_silent(self, seconds: float | None) -> bool:
        """Return whether the last sign of life is older than this; None: it may take as long as it likes."""
        return seconds is not None and time.monotonic() - self._told_at > seconds

    def kill(self) -> None:
        """End it and all that it has started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        if self.popen.returncode is None:
            self.popen.kill()

    def end(self) -> None:
        """Let it end by itself, then kill what is left of it and of what it has started."""
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(END_SECONDS)
        finally:  # also if a second Ctrl-C ends the waiting
            self.kill()
            self.popen.wait()

    def last_words(self) -> str:
        """Return how it ended, after «it ended»; it may have ended its answers alone."""
        try:
            return how_it_ended(self.popen.wait(END_SECONDS))
        except subprocess.TimeoutExpired:
            return "its answers"


def own_processes() -> set[int]:
    """Return the ids of the processes that were started here and have not been waited for."""
    with _STARTING:
        return {popen.pid for popen in _STARTED if popen.returncode is None}


def how_it_ended(code: int) -> str:
    """Return the exit code of a process in words; one below zero is a signal.

    >>> how_it_ended(3), how_it_ended(-9), how_it_ended(-36)
    ('with exit code 3', 'by SIGKILL', 'by signal 36')
    """
    names = {one.value: one.name for one in signal.Signals}  # real-time signals have none
    return f"with exit code {code}" if code >= 0 else f"by {names.get(-code, f'signal {-code}')}"
