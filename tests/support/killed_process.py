"""Runs a script that kills itself at a given place, as a driver of Tune may be killed.

The processes are forked from one that has imported Ray Tune: that is most of the time of scripts as short as these.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import pickle
import re
import runpy
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
OUTBOX, LOG, INDEX = "outbox/*/*", "storage/.tune_media_log/*", "storage/t1/media/index.jsonl"


def state_after_kill(script: str, folder: Path, place: str) -> dict[str, Any]:
    """Run ``script FOLDER PLACE``, which is killed at the place; return the state that Tune saved of its callback last.

    The script writes the state into ``state``, and ends with the exit code 9.
    """
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    environment = {**os.environ, "TUNE_MEDIA_OUTBOX": str(folder / "outbox")}
    print(json.dumps([script, str(folder), place, environment]), file=server.stdin, flush=True)
    assert server.stdout.readline() == "9\n", (folder / "errors").read_text()
    for lock in (folder / "outbox").glob("*/lock"):  # a process that was just being started may hold it for a moment
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
    state: dict[str, Any] = pickle.loads((folder / "state").read_bytes())
    return state


def exit_when(is_so: Callable[[], Any]) -> None:
    """End this process as a kill does as soon as something is so, which another thread asks all the time."""

    def look() -> None:
        while not is_so():
            time.sleep(0.0002)
        os._exit(9)

    threading.Thread(target=look, daemon=True).start()


def has(folder: Path, files: str, pattern: bytes) -> bool:
    """Return whether a regular expression is found in one of the files of a folder that a glob finds."""
    with contextlib.suppress(FileNotFoundError):  # a file was replaced meanwhile
        return any(re.search(pattern, file.read_bytes()) for file in folder.glob(files))
    return False


def versions(folder: Path, files: str) -> dict[str, Any]:
    """Return the time and size of each file of a folder that a glob finds."""
    found = {}
    with contextlib.suppress(OSError):  # a file that has gone meanwhile is a change, too
        for path in folder.glob(files):
            state = path.stat()
            found[str(path)] = state.st_mtime_ns, state.st_size
    return found


def changes_of(look: Callable[[], Any]) -> Callable[[], int]:
    """Return a function that looks at a value and returns how often it has seen it change."""
    before, count = look(), 0

    def look_again() -> int:
        nonlocal before, count
        now = look()
        count, before = count + (now != before), now
        return count

    return look_again


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Start the process that forks; it ends with this one."""
    command = [sys.executable, "-m", "tests.support.killed_process"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT)


def _serve() -> None:
    """Fork a process for each line of the standard input, and print its exit code."""
    import tests.support.driven_sweep
    import tests.support.faults
    import tests.support.taped  # noqa: F401

    while line := sys.stdin.readline():
        script, folder, place, environment = json.loads(line)
        process = os.fork()
        if not process:
            with Path(folder, "errors").open("w") as errors:
                os.dup2(errors.fileno(), 1)
                os.dup2(errors.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = [script, folder, place]
            runpy.run_path(script, run_name="__main__")
            return
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
