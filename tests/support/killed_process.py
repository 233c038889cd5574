"""Runs a script that kills itself at a given place, as a driver of Tune may be killed.

The processes are forked from one that has imported Ray Tune: that is most of the time of scripts as short as these.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

from tune_media.callbacks.outbox import FOLDER_VARIABLE

_ROOT = Path(__file__).parents[2]


def state_after_kill(script: str, folder: Path, place: str) -> dict[str, Any]:
    """Run ``script FOLDER PLACE``, which is killed at the place; return the state that Tune saved of its callback last.

    The script writes the state into ``state``, and ends with the exit code 9.
    """
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    environment = {**os.environ, FOLDER_VARIABLE: str(folder / "outbox")}
    print(json.dumps([script, str(folder), place, environment]), file=server.stdin, flush=True)
    assert server.stdout.readline() == "9\n", (folder / "errors").read_text()
    state: dict[str, Any] = pickle.loads((folder / "state").read_bytes())
    return state


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
