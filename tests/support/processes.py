"""Drivers in processes of their own, each with a Ray of its own that is gone afterwards whatever befell the driver."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Driver:
    """A running script; ``kill`` and the end of ``driver`` leave nothing of it."""

    def __init__(self, process: subprocess.Popen[bytes], home: Path, log: Path) -> None:
        self.process, self.home, self.log = process, home, log

    def wait_until(self, there: Callable[[], Any], seconds: float = 300) -> Any:
        """Wait until something is there, and return it; the script must go on until then."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = there()
            if found:
                return found
            assert self.process.poll() is None, f"the script is over too early:\n{self.output()}"
            time.sleep(0.1)
        raise AssertionError(f"not there after {seconds} s:\n{self.output()}")

    def finish(self, seconds: float = 300) -> None:
        """Wait for the end of the script, which must be a good one."""
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not over after {seconds} s:\n{self.output()}") from None
        assert code == 0, self.output()

    def kill(self) -> None:
        """Kill the script at once, then what it started."""
        self.process.kill()
        self.process.wait()
        self.clean()

    def clean(self) -> None:
        """Kill every process that lives in the script's temporary folder, until there is none."""
        for _ in range(100):
            left = list(processes_in(self.home))
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        raise AssertionError(f"processes of {self.home} are still there: {left}")

    def output(self) -> str:
        """Return the end of what the script wrote."""
        return self.log.read_text(errors="replace")[-6000:]


def processes_in(home: Path) -> Iterator[int]:
    """Yield the processes that have this folder as Ray's: it is in their environment, or they log into it.

    The kernel shows a forked worker the environment of its server, and of a process with a title of its own nothing.
    """
    mark = f"RAY_TMPDIR={home}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                is_over = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                is_marked = mark in (entry / "environ").read_bytes().split(b"\0")
                if not is_over and (is_marked or has_file_in(home, entry)):
                    yield int(entry.name)


def has_file_in(home: Path, process: Path) -> bool:
    """Return whether a process has a file of a folder open."""
    return any(file.readlink().is_relative_to(home) for file in (process / "fd").iterdir())


@contextlib.contextmanager
def driver(
    script: Path, *arguments: str, log: Path, program: str = sys.executable, **environment: str
) -> Iterator[Driver]:
    """Run a script with a temporary folder for its Ray; both are gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="tml", dir="/tmp"))  # short: it has Ray's sockets
    told = {"RAY_TMPDIR": str(home), "TMPDIR": str(home), "RAY_DEDUP_LOGS": "0", **environment}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, str(script), *arguments],
            stdout=output,
            stderr=output,
            cwd=ROOT,
            env={**os.environ, **told},
            start_new_session=True,
        )
    running = Driver(process, home, log)
    try:
        yield running
    finally:
        running.kill()
        shutil.rmtree(home, ignore_errors=True)
