"""Fork Ray's workers from one process that has imported RLlib and torch, and render processes from another one.

Each actor of Ray has a process of its own. It needs 3 to 6 s of CPU time to import RLlib, but 0.06 s to be forked. The
process that Ray starts asks for the fork itself (`at_start.sitecustomize`), and then runs Ray's own script. If
``TUNE_MEDIA_FORK_WORKERS`` is not in the environment, workers start as they do for users, as in the test of the wheel.

pytest starts the server. It imports what Ray and RLlib need, and forks a process for each Ray and job; this imports Ray
and RLlib, and forks the workers.

A process that renders tapes needs 0.6 s to import NumPy, PyAV and Ray, and seconds more if its recipe needs RLlib.
Whoever started it waits for it and may kill it, so the process that asks for the fork stays: it ends as the forked one
does, and the forked one with it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import inspect
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

VARIABLE = "TUNE_MEDIA_FORK_WORKERS"
WITHOUT_RLLIB = f"{VARIABLE}_WITHOUT_RLLIB"  # for a Ray whose workers do not use it
RENDERERS = "-renderers"  # behind the address of the server for Ray's workers
_WITHOUT_RAY = (
    *("numpy", "torch", "torch._dynamo", "pandas", "gymnasium", "scipy.stats", "tensorboardX", "aiohttp"),
    *("PIL.Image", "wandb.sdk.launch"),  # of W&B's helper actors, which needed 2 s each to import them
)


@contextlib.contextmanager
def forked_workers():
    """Fork the workers of each Ray that is started in this context; on other systems than Linux, do nothing."""
    if sys.platform != "linux":
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder, "socket"))
        # One thread: no other would survive the fork. Ray gives its workers one, too.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        servers = [
            subprocess.Popen([sys.executable, __file__, each], stdin=subprocess.PIPE, env=environment)
            for each in (address, f"{address}{RENDERERS}")
        ]
        os.environ[VARIABLE] = address
        try:
            yield
        finally:
            del os.environ[VARIABLE]
            for server in servers:
                server.communicate()  # closes its standard input


def _stack(context: int = 1) -> list[inspect.FrameInfo]:
    frames = [sys._getframe(1)]
    while (caller := frames[-1].f_back) is not None:
        frames.append(caller)
    return [inspect.FrameInfo(f, f.f_code.co_filename, f.f_lineno, f.f_code.co_name, None, None) for f in frames]


def make_connectors_fast() -> None:
    """Make RLlib look at the caller of each connector it makes without reading the source of the whole stack.

    That is a quarter of the time of a test with RLlib, and RLlib uses the frame alone.
    """
    inspect.stack = _stack


def serve(address: str) -> None:
    """Fork a worker for each request, until the standard input ends."""
    forkers: dict[tuple[tuple[str, str], ...], socket.socket] = {}
    requests = _requests(address)
    for connection, request, streams in requests:
        key = tuple(sorted(_read_by_imports(request).items()))
        if key not in forkers:
            _import(*_WITHOUT_RAY)
            _end_those_of_ended_rays(forkers)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            if not os.fork():
                requests.close()
                for each in (ours, *forkers.values()):
                    each.close()
                return _fork_with_ray(theirs, dict(key))
            theirs.close()
            forkers[key] = ours
        with contextlib.suppress(OSError):  # then the connection ends without an answer
            body = json.dumps(request).encode()
            socket.send_fds(forkers[key], [body], [*streams, connection.fileno()])
    return None


def serve_renderers(address: str) -> None:
    """Fork a process that renders for each request, until the standard input ends."""
    requests = _requests(address)
    for connection, request, streams in requests:
        _import("gymnasium", "pygame", "ray.rllib", "tests.support.envs", "tune_media.replay.child")
        if not os.fork():
            asking = connection.dup()
            requests.close()
            return _guard_renderer(asking, request, streams)
    return None


def _requests(address: str) -> Generator[tuple[socket.socket, Any, list[int]]]:
    """Yield each request with its connection and open files, until the standard input ends; a fork closes this."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(128)
        while listener in select.select([sys.stdin, listener], [], [])[0]:
            with listener.accept()[0] as connection:
                if (received := _receive(connection)) is None:
                    continue  # the asking process was killed
                request, streams = received
                yield connection, request, streams
                for stream in streams:
                    os.close(stream)


def _guard_renderer(connection: socket.socket, request: Any, streams: list[int]) -> None:
    """Fork the process that renders, end it if the asking one ends, and tell that one how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.send(b"1")
    if not (renderer := os.fork()):
        connection.close()
        return _render(request, streams)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(renderer)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(renderer, signal.SIGTERM)  # it ends its own, and removes their folder
    code = os.waitstatus_to_exitcode(os.waitpid(renderer, 0)[1])
    with contextlib.suppress(OSError):
        connection.send(str(code).encode())
    os._exit(0)


def _render(request: Any, streams: list[int]) -> None:
    from tune_media.replay.child import run

    os.setsid()
    *standard, touches = streams
    _take_over(request, standard)
    _seed_torch()
    sys.path[:] = request["path"]
    run(touches, request["own_folder"])


def _receive(connection: socket.socket) -> tuple[Any, list[int]] | None:
    """Return a request and its open files; None at the end."""
    body, streams, _, _ = socket.recv_fds(connection, 1 << 20, 4)
    return (json.loads(body), streams) if body else None


def _read_by_imports(request: Any) -> dict[str, str]:
    """Return the variables that a process reads only once, when it imports Python or Ray, and what to import."""
    return {name: value for name, value in request["env"].items() if name.startswith(("RAY_", "PYTHON", WITHOUT_RLLIB))}


def _end_those_of_ended_rays(forkers: dict[tuple[tuple[str, str], ...], socket.socket]) -> None:
    for key in list(forkers):
        if not Path("/proc", dict(key)["RAY_RAYLET_PID"]).exists():
            forkers.pop(key).close()


def _fork_with_ray(requests: socket.socket, environment: dict[str, str]) -> None:
    """Fork the workers of one job of one Ray: Ray reads once which raylet and which job it works for."""
    os.environ.update(environment)
    rllib = ("ray.tune",) if WITHOUT_RLLIB in environment else ("ray.rllib.algorithms.ppo", "tune_media.rllib")
    with _rays_generator_unused():
        _import("ray._private.workers.default_worker", *rllib, "tests.support.faults")
    make_connectors_fast()
    while received := _receive(requests):
        request, (*streams, answer) = received
        if not os.fork():
            requests.close()
            os.write(answer, b"1")
            os.close(answer)
            return _become(request, streams)
        for stream in (*streams, answer):
            os.close(stream)
    os._exit(0)  # Python's own end would touch, and so copy, all memory that the processes share


@contextlib.contextmanager
def _rays_generator_unused():
    """Draw the ids of actor classes elsewhere: forks of a generator that is in use would all draw the same ids."""
    import ray.actor

    ids = SimpleNamespace(from_random=lambda: ray.ActorClassID(os.urandom(ray.ActorClassID.size())))
    with mock.patch.object(ray.actor, "ActorClassID", ids):
        yield


def _import(*names: str) -> None:
    """Import what there is of these: the tests of the wheel and of trackers lack some, and fork their workers, too."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()


def _seed_torch() -> None:
    """Give torch a state of its own: all forks have the server's."""
    if "torch" in sys.modules:
        sys.modules["torch"].seed()


def _become(request: Any, streams: list[int]) -> None:
    """Do in this process what the asking one was started for."""
    os.setpgrp()
    _take_over(request, streams)
    _seed_torch()
    media, artifacts = map(sys.modules.get, ("wandb.sdk.data_types._private", "wandb.sdk.artifacts.artifact"))
    for owner, name in ((media, "MEDIA_TMP"), (getattr(artifacts, "Artifact", None), "_TMP_DIR")):
        folder = getattr(owner, name, None)
        if folder is not None:  # all forks have it, and the first to end would remove it
            atexit.unregister(folder.cleanup)
            folder._finalizer.detach()
    sys.argv = request["command"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


def _take_over(request: Any, streams: list[int]) -> None:
    """Give this process the signals, standard streams, variables and folder of the asking one."""
    import numpy as np

    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["folder"])
    np.random.seed()  # the server's state otherwise, in every fork; Python does this for `random`


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ends with pytest, not before it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    (serve_renderers if sys.argv[1].endswith(RENDERERS) else serve)(sys.argv[1])
