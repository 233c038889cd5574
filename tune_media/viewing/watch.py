"""``tune-media watch``: the viewer on localhost, for people who use W&B, MLflow or no tracker at all."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Response

from tune_media.experiment.experiments import experiments_at
from tune_media.experiment.places import Folder, folder_at
from tune_media.experiment.trial_folders import LogDirectory, Trials, load_trials, log_directories
from tune_media.values import checks
from tune_media.values.problems import message_of, remedy
from tune_media.values.threads import start_thread
from tune_media.viewing.experiment_list import ExperimentList
from tune_media.viewing.tape_player import TapePlayer
from tune_media.viewing.web import ViewerApp

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_ALL_ADDRESSES = ("0.0.0.0", "::", "")
_HERE = {"localhost": "127.0.0.1", "0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
"""Where a client on this machine reaches a host. Nobody is sent to ``localhost``, which may be two addresses: a browser
asks at that of IPv6 first, where another user's server may listen."""
_HOST = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::\d+)?")  # of a request, with or without a port


def make_watch_server(
    path: str | Sequence[str],
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    wait: bool = False,
    columns: Mapping[str, str] | None = None,
    token: str | None = None,
    warn: Callable[[], None] = lambda: None,
) -> BaseWSGIServer:
    """Return a server of the viewer for an experiment, or for several with files of results; ``serve_forever`` runs it.

    A click plays a tape if the page has the ``token``; None: none does. ``warn`` is called if there may be tapes.
    Port 0 is a free one. With ``wait``, the folder may come later; until then, the page has no trials. For ``path`` and
    ``columns`` see ``tune_media.load``.
    """
    player = None if token is None else TapePlayer(token)
    sources = [path] if isinstance(path, str) else list(path)
    if len(sources) > 1 or folder_at(sources[0]).is_file:
        title = checks.first_names(["/".join(source.rstrip("/").split("/")[-2:]) for source in sources])
        roots = log_directories(sources, columns)
        viewer: ViewerApp | ExperimentList = ViewerApp(Trials(roots), title, player)
        may_play = any(root.file is None for root in roots)
    else:
        viewer, may_play = _viewer_of(sources[0], player, columns, wait=wait)
    app = only_local(viewer) if host in LOCAL_HOSTS else viewer
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)  # werkzeug's own would print and exit
    except OSError as error:
        why = f"The viewer cannot listen on {host}, port {port}: {(error.strerror or '').partition(' (while')[0]}. "
        raise OSError(why + remedy("Pass another --port (0 takes a free one) or --host.")) from error
    with listener:  # the server has a copy
        server = make_server(host, port, app, threaded=True, request_handler=_QuietHandler, fd=listener.fileno())
    if may_play and token is not None:
        warn()
    if isinstance(viewer, ViewerApp):
        start_thread("tune_media-watch", viewer.read_ahead)
    return server


def _viewer_of(
    path: str, player: TapePlayer | None, columns: Mapping[str, str] | None, *, wait: bool
) -> tuple[ViewerApp | ExperimentList, bool]:
    """Return the viewer of a folder or of its experiments, and whether it may have tapes. Raises ValueError."""
    try:
        folder, there = experiments_at(path, wait=wait)
    except ValueError as error:
        raise ValueError(message_of(error) + " If its sweep starts later, pass --wait.") from error
    if columns and len(there) == 1:
        try:
            load_trials(path, None, columns)
        except ValueError as error:  # no table has such a column
            raise ValueError(message_of(error) + " If the table comes later, pass --wait.") from error

    def viewer_of(place: Folder) -> ViewerApp:
        return ViewerApp(Trials([LogDirectory(place, columns=columns)]), place.experiment or place.name, player)

    may_play = not there or any(one.has_ours for one in there)
    return viewer_of(folder) if len(there) < 2 else ExperimentList(folder, viewer_of), may_play


def reachable_at(host: str, port: int) -> str:
    """Return the address of the page, as a browser takes it: a server that listens on all addresses is on this machine.

    >>> reachable_at("localhost", 6007), reachable_at("::1", 80), reachable_at("lab3", 80)
    ('http://127.0.0.1:6007', 'http://[::1]:80', 'http://lab3:80')
    """
    hostname = socket.getfqdn() if host in _ALL_ADDRESSES else ""
    return f"http://{hostname if hostname and _is_known(hostname) else _here(host)}:{port}"


def _here(host: str) -> str:
    name = _HERE.get(host, host)
    return f"[{name}]" if ":" in name else name


def ssh_line(host: str, port: int) -> str | None:
    """Return the command that brings the page to another machine; None if this one has a display."""
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if has_display and not os.environ.get("SSH_CONNECTION"):
        return None
    forward = shlex.quote(f"{port}:{_here(host)}:{port}")
    with contextlib.suppress(KeyError, OSError, ImportError):  # a container has no name of the user
        return f"ssh -L {forward} {getpass.getuser()}@{socket.gethostname()}"
    return f"ssh -L {forward} {socket.gethostname()}"


def _is_known(name: str) -> bool:
    """Return whether a name of this machine has an address."""
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False


def only_local(app: WSGIApplication) -> WSGIApplication:
    """Refuse requests that name another host: a page from the internet must not read local clips by a DNS trick."""

    def checked(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        host = _HOST.fullmatch(str(environ.get("HTTP_HOST", "")))
        if not host or (host[1] or host[2]).lower() not in LOCAL_HOSTS:
            why = "This server answers on localhost only; pass --host to open it."
            return Response(why, 403, mimetype="text/plain")(environ, start_response)
        return app(environ, start_response)

    return checked


class _QuietHandler(WSGIRequestHandler):
    """Logs failures only."""

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Log nothing of a request that was answered."""
