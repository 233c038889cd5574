"""The first page of ``tune-media watch`` of several experiments: their names, each with its own viewer."""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response

from tune_media.experiment.experiments import Experiment, TrialFinder
from tune_media.experiment.places import Folder
from tune_media.values.number import counted
from tune_media.values.secrets import error_text
from tune_media.values.threads import start_thread
from tune_media.viewing.web import FRAMES, POLICY, ViewerApp, static_file

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_PAUSE = 5.0  # seconds between two looks
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="60">
<title>{title}</title>
<link rel="icon" href="static/icon.svg">
<link rel="stylesheet" href="static/style.css">
</head>
<body>
<div class="bar top"><h1>{title}</h1><span class="muted">{count}, whose runs are not compared</span></div>
{problem}
<main style="padding: 16px"><div class="table-place"><table class="episodes">
<thead><tr><th>experiment</th><th>runs</th><th>newest</th></tr></thead>
<tbody>
{rows}
</tbody></table></div></main>
<script src="static/experiments.js"></script>
</body>
</html>
"""


class ExperimentList:
    """Answers requests for the list, and passes those below ``of/<id>/`` to the viewer of one experiment.

    Args:
        folder: The folder that has the experiments.
        make: Makes the viewer of one of them.
    """

    def __init__(self, folder: Folder, make: Callable[[Folder], ViewerApp]) -> None:
        self._folder, self._make = folder, make
        self._finder = TrialFinder()
        self._viewers: dict[str, ViewerApp] = {}
        self._lock = threading.Lock()  # guards all of these
        self._known: dict[str, Experiment] = {}
        self._problem = ""  # why the last look found nothing: the storage is away, and what is known stays
        self._look_again_at = float("-inf")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        _, first, name, rest = [*str(environ.get("PATH_INFO", "")).split("/", 3), "", "", ""][:4]
        experiment = self._experiments().get(name) if first == "of" else None
        if experiment is not None:
            return self._viewer_of(experiment)({**environ, "PATH_INFO": f"/{rest}"}, start_response)
        try:
            page = Response(self._page(), mimetype="text/html") if not first else static_file(name)
        except NotFound as error:
            page = Response(error.description, 404, mimetype="text/plain")
        page.headers["Content-Security-Policy"] = f"{POLICY}; {FRAMES}"
        page.headers["X-Content-Type-Options"] = "nosniff"
        page.headers["Cache-Control"] = "no-store"
        return page(environ, start_response)

    def _viewer_of(self, experiment: Experiment) -> ViewerApp:
        with self._lock:
            if experiment.name not in self._viewers:
                viewer = self._viewers[experiment.name] = self._make(replace(self._folder, experiment=experiment.name))
                start_thread("tune_media-watch", viewer.read_ahead)
            return self._viewers[experiment.name]

    def _experiments(self) -> dict[str, Experiment]:
        """Return the experiments, the newest first, by what their addresses have in place of the name."""
        with self._lock:
            if time.monotonic() > self._look_again_at:
                try:
                    found = self._finder.find(self._folder).experiments
                    self._known = {sha256(one.name.encode()).hexdigest()[:12]: one for one in found}
                    self._problem = ""
                except OSError as error:
                    self._problem = error_text(error)
                self._look_again_at = time.monotonic() + max(_PAUSE, self._finder.rest)
            return self._known

    def _page(self) -> str:
        experiments = self._experiments()
        rows = [
            f'<tr><td><a style="color: var(--accent)" href="of/{id}/">{html.escape(one.name)}</a></td>'
            f"<td>{one.runs:,}</td><td>{one.shown_time}</td></tr>"
            for id, one in experiments.items()
        ]
        title, count = html.escape(self._folder.name), counted(len(experiments), "experiment")
        why = f"The experiments could not be read again: {html.escape(self._problem)}"
        problem = f'<p class="problem banner" role="alert">{why}</p>' if self._problem else ""
        return _PAGE.format(title=title, count=count, problem=problem, rows="\n".join(rows))
