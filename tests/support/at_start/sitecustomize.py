"""Python imports this module first in each process of the tests: a worker of Ray asks `fork_workers` to be forked."""

import os
import sys
from pathlib import Path

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


def _is_forked_instead(command: list[str], address: str) -> bool:
    """Hand a command and this process's environment and standard streams to the server, which may decline."""
    import json
    import socket

    request = {"command": command, "env": dict(os.environ), "folder": str(Path.cwd())}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(address)
            socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
            return connection.recv(1) == b"1"
        except OSError:
            return False  # the tests have ended


_SERVER = os.environ.get("TUNE_MEDIA_FORK_WORKERS")
_COMMAND = _worker_command()
if _SERVER and _COMMAND and _is_forked_instead(_COMMAND, _SERVER):
    os._exit(0)
if _SERVER and any(word.endswith("/ray/autoscaler/_private/monitor.py") for word in sys.orig_argv):
    os._exit(0)  # it would import Ray and look at the load for ever, and no test has machines to start
