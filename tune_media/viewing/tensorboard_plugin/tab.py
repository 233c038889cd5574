"""The Episodes tab of TensorBoard: the viewer, told by TensorBoard's flags where the trials are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tensorboard.plugins import base_plugin

from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.values.threads import start_thread
from tune_media.viewing.web import ViewerApp

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_NAME = "episodes"
_ROUTES = ("/index.js", "/static/*", "/data/*", "/media/*")
_FIRST_LOOK = 1.0  # seconds that the first listing of plugins waits to know whether there are trials


class EpisodesTab(base_plugin.TBPlugin):
    """The plugin. TensorBoard calls it on many threads; the trials are first read on one of its own."""

    plugin_name = _NAME

    def __init__(self, context: Any) -> None:
        self._trials = Trials(log_directories(context))
        self._app = ViewerApp(self._trials, _title(context), is_tab=True)
        self._has_looked = threading.Event()
        self._look_thread = self._start_look()

    def get_plugin_apps(self) -> dict[str, WSGIApplication]:
        """Return the handlers of the tab's pages."""
        return dict.fromkeys(_ROUTES, _below(f"/data/plugin/{_NAME}", self._app))

    def is_active(self) -> bool:
        """Return whether there are trials, with or without clips; asks no filesystem, since the page waits for it."""
        self._has_looked.wait(_FIRST_LOOK)
        if not self._trials.has_any and not self._look_thread.is_alive():  # one thread, even if the storage hangs
            self._look_thread = self._start_look()
        return self._trials.has_any

    def frontend_metadata(self) -> Any:
        """Return the name of the tab and of its script."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Episodes")

    def _start_look(self) -> threading.Thread:
        return start_thread("tune_media-episodes", self._look)

    def _look(self) -> None:
        self._app.read_ahead()
        self._has_looked.set()


def log_directories(context: Any) -> list[LogDirectory]:
    """Return the folders of ``--logdir`` or ``--logdir_spec`` (with which the ``TBContext`` has no ``logdir``)."""
    if context.logdir:
        folders = [LogDirectory.of(str(context.logdir))]
    else:
        folders = LogDirectory.of_spec(str(getattr(context.flags, "logdir_spec", None) or ""))
    return [replace(folder, needs_clips=True) for folder in folders]


def _title(context: Any) -> str:
    folders = log_directories(context)
    return folders[0].folder.name if len(folders) == 1 else "Episodes"


def _below(prefix: str, app: Callable[..., Iterable[bytes]]) -> WSGIApplication:
    """Return the application for requests below a path; ``index.js`` is the tab's own script."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", "")).partition(prefix)[2]
        inner = "/static/tensorboard.js" if path == "/index.js" else path
        return app({**environ, "PATH_INFO": inner}, start_response)

    return answer
