"""Python imports this module first in each process of the tests.

A worker of Ray, and a process that renders, asks `fork_workers` to be forked.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TYPE_CHECKING = False  # typing's takes 5 ms to import, in each process
if TYPE_CHECKING:
    import socket

if os.environ.get("TUNE_MEDIA_TESTS_AS_ON") == "macos":
    import runpy

    runpy.run_path(str(Path(__file__).parents[1] / "as_on_macos.py"))["remove_what_macos_lacks"]()

_WORKERS = "/ray/_private/workers/"


_CONTEXT = "--serialized-runtime-env-context"


def _has_variables_alone(context: str) -> bool:
    """Set the variables of a runtime env, as Ray would; return False if it has more. Each trial of Tune has one."""
    import json

    found = {name: value for name, value in json.loads(context).items() if value}
    variables = found.pop("env_vars", {})
    if found != {"py_executable": sys.executable} or any("$" in value for value in variables.values()):
        return False
    os.environ.update(variables)
    return True


def _worker_command() -> list[str]:
    """Return the command of the worker of Ray that this process is, or is about to become; nothing if it is none."""
    words = sys.orig_argv[1:]
    if words and words[0].endswith(f"{_WORKERS}setup_worker.py"):  # imports Ray, sets variables, starts the worker
        contexts = [word.partition("=")[2] for word in words if word.startswith(_CONTEXT)]
        if not all(map(_has_variables_alone, contexts)):
            return []
        words = [word for word in words[1:] if not word.startswith(("--language", _CONTEXT))]
    return words if words and words[0].endswith(f"{_WORKERS}default_worker.py") else []


def _ask(address: str, *others: int, **request: object) -> socket.socket | None:
    """Hand a server this process's environment, standard streams and other open files.

    Return the connection if it has forked a process.
    """
    import json
    import socket

    body = json.dumps({**request, "env": dict(os.environ), "folder": str(Path.cwd())}).encode()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(address)
        socket.send_fds(connection, [body], [0, 1, 2, *others])
        if connection.recv(1) == b"1":
            return connection
    except OSError:
        pass  # the tests have ended
    connection.close()
    return None


def _end_as_the_forked_one(connection: socket.socket, touches: int) -> None:
    """Wait for the end of the process that renders instead of this one; end as it did, or with the one that asked."""
    import select

    parent = os.getppid()
    for stream in (0, 1, 2, touches):
        os.close(stream)
    while not select.select([connection], [], [], 5)[0]:
        if os.getppid() != parent:
            os._exit(1)
    code = int(connection.recv(16) or 1)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


_SERVER = os.environ.get("TUNE_MEDIA_FORK_WORKERS")
if _SERVER and (command := _worker_command()) and _ask(_SERVER, command=command):
    os._exit(0)
if _SERVER and "tune_media.replay.child" in sys.orig_argv[:-2]:
    _touches, _folder = int(sys.orig_argv[-2]), sys.orig_argv[-1]
    if connection := _ask(f"{_SERVER}-renderers", _touches, path=sys.path, own_folder=_folder):
        _end_as_the_forked_one(connection, _touches)
if _SERVER and any(word.endswith("/ray/autoscaler/_private/monitor.py") for word in sys.orig_argv):
    os._exit(0)  # it would import Ray and look at the load for ever, and no test has machines to start
