"""An MLflow server that is up, down for a while, or hangs: a proxy before a real one, in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Sequence

MODES = ("store", "up", "down", "hanging")
"""Where the drivers of a round find MLflow: a database, or a server of three kinds."""

Phase = tuple[str, float]


def phases(mode: str, numbers: Sequence[float]) -> list[Phase]:
    """Return what a server of a kind does, one after the other, and for how many seconds; afterwards it is up.

    >>> phases("hanging", [0.5, 1.5])
    [('up', 0.5), ('hanging', 1.5)]
    """
    return [] if mode == "up" else list(zip(itertools.cycle(("up", mode)), numbers))


class Proxy:
    """Passes connections on to a port; down, it refuses them; hanging, it accepts them and never answers."""

    def __init__(self, target: int, port: int, schedule: Sequence[Phase]) -> None:
        self._target, self._port = target, port
        self._mode = "up"
        self._open: set[socket.socket] = set()
        self._schedule = schedule

    def serve(self) -> None:
        for mode, seconds in [*self._schedule, ("up", float("inf"))]:
            self._mode, until = mode, time.monotonic() + seconds
            for connection in list(self._open):  # what hung, or was under way, is cut off
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            if mode == "down":
                time.sleep(seconds)
                continue
            with socket.create_server(("127.0.0.1", self._port), backlog=64) as listening:
                listening.settimeout(0.05)
                while time.monotonic() < until:
                    with contextlib.suppress(TimeoutError):
                        connection, _ = listening.accept()
                        threading.Thread(target=self._serve, args=(connection, mode), daemon=True).start()

    def _serve(self, connection: socket.socket, mode: str) -> None:
        self._open.add(connection)
        try:
            with connection:
                if mode == "hanging":
                    while connection.recv(65536):
                        pass
                    return
                with socket.create_connection(("127.0.0.1", self._target)) as server:
                    self._open.add(server)
                    back = threading.Thread(target=_pass_on, args=(server, connection), daemon=True)
                    back.start()
                    _pass_on(connection, server)
                    back.join()
                    self._open.discard(server)
        except OSError:
            pass
        finally:
            self._open.discard(connection)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
