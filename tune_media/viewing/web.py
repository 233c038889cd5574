"""The viewer's HTTP side: one WSGI application, used by the TensorBoard tab and by ``tune-media watch``.

static/<file>                               the front end
data/first.json                             all trials, and the clips that the first view shows
data/index.json, data/metrics.json          all trials with all clips; their last metrics
data/curves.json?metric=NAME&iqm=1          a metric of all trials over training; means over runs, or with iqm=1
                                            interquartile means, with intervals
data/configurations.json?metric=NAME&section=SECTION&mode=min|max
                                            configurations, with means and intervals over their runs
data/episodes.json?where=FILTER&sort=COLUMN&descending=1&offset=N&limit=N&histogram=COLUMN&histogram_where=FILTER
                                            a page of all episodes; a histogram of a column
data/play.json?trial=ID&report=PATH&episode=ID   a POST with the player's token in the header X-Tune-Media: render an
                                            episode that has a tape, and return its name
data/played.json?trial=ID&report=PATH&episode=ID   how far it is; empty if it was not played lately
played/NAME/VIEW.mp4                        its clip
data/trial.json?trial=ID                    one trial's metrics over training, why it failed, and its lost media
data/config.json?trial=ID                   one trial's whole config, without keys and passwords
data/clip.json?trial=ID&path=PATH           one clip's episode, and where its file is
data/disk.json                              what the folders of the trials take on the storage
data/episodes.csv?where=FILTER&sort=COLUMN&descending=1&hidden=COLUMNS   all episodes, without some columns, one a line
data/tape.json?trial=ID&report=PATH&episode=ID   an episode that has a tape; nothing is played
media/<trial id>/<path>                     a media file, with byte ranges
"""

from __future__ import annotations

import contextlib
import csv
import io
import logging
import mimetypes
import posixpath
import re
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from werkzeug.exceptions import (
    BadRequest,
    Forbidden,
    HTTPException,
    NotFound,
    RequestedRangeNotSatisfiable,
    TooManyRequests,
)
from werkzeug.utils import send_file
from werkzeug.wrappers import Request, Response
from werkzeug.wsgi import wrap_file

from tune_media.experiment.places import Folder
from tune_media.experiment.trial_files import TrialFiles
from tune_media.experiment.trial_folders import Trials
from tune_media.storage.filesystem import NotAFileError, check_is_file, is_local, open_file
from tune_media.values.secrets import error_text, redacted
from tune_media.values.threads import start_thread
from tune_media.viewing.disk_use import disk_use
from tune_media.viewing.episode_details import episode_details, taped_details
from tune_media.viewing.episode_reading import EpisodeFiles
from tune_media.viewing.front_end import SHOWN, STATIC, static_files
from tune_media.viewing.pages import Page, TrialPages
from tune_media.viewing.payload import config_payload, etag_of, json_content, lost_payload
from tune_media.viewing.tape_player import TapePlayer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' blob: data:; "
    "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'"
)
"""The page may load its own files, and styles that it sets. TensorBoard 3 is going to take no more than this."""
FRAMES = "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*"
"""Only pages of this machine may show it in a frame."""
_FOREVER = "private, max-age=31536000, immutable"  # the name of a media file holds its id
_CHUNK = 65536
_MAX_ROWS = 1000  # of a page of episodes
_PATIENCE = 0.1  # seconds that a page of episodes waits for files; the page asks again for the others
_ONE_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))", re.IGNORECASE)


class ViewerApp:
    """Answers the front end's requests; each request may come on its own thread.

    Args:
        trials: The trials that are shown. Nothing else is served.
        player: Plays tapes, which runs code of the experiment; None if tapes are not played.
        is_tab: Whether TensorBoard shows it, which decides who may show TensorBoard in a frame.
    """

    def __init__(self, trials: Trials, title: str, player: TapePlayer | None = None, *, is_tab: bool = False) -> None:
        self.trials, self._player = trials, player
        self._all = TrialPages(trials, title, plays=player is not None)
        self._episode_files = EpisodeFiles()
        self._policy = POLICY if is_tab else f"{POLICY}; {FRAMES}"

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        response = self._answer(Request(environ))
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Content-Security-Policy"] = self._policy
        response.headers["Referrer-Policy"] = "no-referrer"  # a shared link names trials
        return response(environ, start_response)

    def read_ahead(self) -> None:
        """Read all trials and make the first page before the first request."""
        self.trials.read_ahead()
        try:
            self._all.first()
        except Exception as error:  # the next request gets the error
            logger.info("tune_media: the first page is not ready: %s", error_text(error))
        # Arrow imports pandas with its first value, which takes a second; the table of episodes would wait for it.
        start_thread("tune_media-arrow", pa.scalar, 0)

    def _answer(self, request: Request) -> Response:
        try:
            if request.method == "POST" and request.path == "/data/play.json":
                return _json_response(request, self._play(request))
            if request.method not in ("GET", "HEAD"):
                return Response("only GET", 405, mimetype="text/plain")
            folder, _, rest = request.path.lstrip("/").partition("/")
            if folder == "data" and rest in self._pages():
                return _json_response(request, self._pages()[rest](request))
            if request.path == "/data/episodes.csv":
                return self._episodes_as_csv(request)
            if folder == "media":
                return self._media(request, *rest.partition("/")[::2])
            if folder == "played":
                return self._played_clip(request, *rest.partition("/")[::2])
            return static_file(rest if folder == "static" else request.path.lstrip("/") or "index.html")
        except HTTPException as error:
            return Response(error.description or error.name, error.code, mimetype="text/plain")
        except Exception as error:  # a page that says so instead of the server's traceback
            trace = redacted("".join(traceback.format_exception(error)))
            logger.warning("tune_media: the viewer could not answer %r: %s", request.path, trace)
            return Response(f"{error_text(error)}", 500, mimetype="text/plain")

    def _pages(self) -> dict[str, Callable[[Request], Page]]:
        return {
            "first.json": lambda request: self._all.first(),
            "index.json": lambda request: self._all.index(),
            "metrics.json": lambda request: self._all.metrics(),
            "curves.json": lambda request: self._all.curves(
                request.args.get("metric", ""), iqm=bool(request.args.get("iqm"))
            ),
            "configurations.json": lambda request: self._all.configurations(
                request.args.get("metric", ""),
                request.args.get("section", ""),
                -1 if request.args.get("mode") == "min" else 1,
            ),
            "episodes.json": self._episodes,
            "trial.json": self._one_trial,
            "config.json": lambda request: Page(
                json_content(config_payload(self._trial(request.args.get("trial", ""))))
            ),
            "clip.json": self._clip,
            "disk.json": lambda request: Page(json_content(disk_use(self.trials.all()))),
            "tape.json": self._tape,
            "played.json": self._played,
        }

    def _episodes(self, request: Request) -> Page:
        args = request.args
        limit = min(args.get("limit", 100, int), _MAX_ROWS)
        try:
            trials = {trial.name: trial for trial in self.trials.all()}
            table = self._episode_files.table(list(trials.values()), _PATIENCE)
            where = args.get("where", "")
            offset, descending = max(0, args.get("offset", 0, int)), bool(args.get("descending"))
            page = table.rows(where, args.get("sort", ""), descending=descending, offset=offset, limit=limit)
            if args.get("histogram") and table.names:  # there are none without episodes
                page["histogram"] = table.histogram(args["histogram"], args.get("histogram_where", where))
        except ValueError as error:
            raise BadRequest(str(error)) from error
        column = page["columns"].index("episode_id") if page["rows"] else 0
        ids = [row[column] for row in page["rows"]]
        for place, id in zip(page["places"], ids, strict=True):  # a report's clip may lack its file, or come later
            trial, clip = trials[place[0]], place[1]
            place[1] = clip if clip and trial.line(clip) else trial.clip_of(id)
        return Page(json_content(page))

    def _episodes_as_csv(self, request: Request) -> Response:
        args = request.args
        table = self._episode_files.table(self.trials.all())
        try:
            sort, descending = args.get("sort", ""), bool(args.get("descending"))
            page = table.rows(args.get("where", ""), sort, descending=descending, limit=len(table))
        except ValueError as error:
            raise BadRequest(str(error)) from error
        hidden = set(args.get("hidden", "").split("\n"))
        shown = [at for at, name in enumerate(page["columns"]) if name not in hidden]
        text = io.StringIO()
        csv.writer(text).writerows([row[at] for at in shown] for row in [page["columns"], *page["rows"]])
        return Response(text.getvalue(), mimetype="text/csv", headers={"Cache-Control": "no-store"})

    def _play(self, request: Request) -> Page:
        """Begin to render an episode. Pages of other sites cannot send the header, and other users lack the token."""
        if self._player is None or not self._player.allows(request.headers.get("X-Tune-Media", "")):
            raise Forbidden("Open the address that `tune-media watch` printed last: only that page plays tapes.")
        try:
            return Page(json_content({"name": self._player.play(*self._taped(request))}))
        except ValueError as error:
            raise TooManyRequests(str(error)) from error

    def _taped(self, request: Request) -> tuple[TrialFiles, str, str]:
        """Return the trial, the report and the id of an episode that has a tape."""
        trial, report = self._trial(request.args.get("trial", "")), request.args.get("report", "")
        if report not in trial.report_files:
            raise NotFound("The index of this trial names no such report.")
        return trial, report, request.args.get("episode", "")

    def _played(self, request: Request) -> Page:
        taped, state = self._taped(request), {}
        if self._player is not None:
            name = self._player.name_of(*taped)
            with contextlib.suppress(KeyError):
                state = {"name": name, **self._player.state(name)}
        return Page(json_content(state))

    def _tape(self, request: Request) -> Page:
        details = taped_details(*self._taped(request))
        if details is None:
            raise NotFound("This report has no tape of such an episode.")
        return Page(json_content(details))

    def _played_clip(self, request: Request, name: str, file: str) -> Response:
        view, content = posixpath.splitext(file)[0], b""
        with contextlib.suppress(KeyError):
            content = self._player.clip(name, int(view)) if self._player and view.isdecimal() else b""
        if not content:
            raise NotFound("Nobody has played this episode lately.")
        response = Response(content, mimetype=SHOWN[".mp4"])
        response.headers["Cache-Control"] = "no-store"
        return response.make_conditional(request.environ, accept_ranges=True, complete_length=len(content))

    def _one_trial(self, request: Request) -> Page:
        trial = self._trial(request.args.get("trial", ""))
        problems = {"tracebacks": trial.tracebacks, "lost": lost_payload(trial)}
        return Page(json_content({**trial.curves(), **problems}))

    def _clip(self, request: Request) -> Page:
        trial = self._trial(request.args.get("trial", ""))
        line = trial.line(request.args.get("path", ""))
        if line is None:
            raise NotFound("The index of this trial names no such clip.")
        file = posixpath.join(Folder(*trial.place).absolute, line["path"])
        return Page(json_content(episode_details(trial, line) | {"file": file}))

    def _trial(self, id: str) -> TrialFiles:
        trial = self.trials.by_id(id)
        if trial is None:
            raise NotFound(f"There is no trial {id!r}.")
        return trial

    def _media(self, request: Request, id: str, path: str) -> Response:
        place = self._trial(id).media_file(path)
        if place is None:
            raise NotFound("The index of this trial names no such file.")
        suffix = posixpath.splitext(path)[1].lower()
        try:
            response = _file_response(request, *place, SHOWN.get(suffix, "application/octet-stream"))
        except NotAFileError as error:
            raise NotFound(f"{posixpath.basename(path)}: {error}.") from error
        except (FileNotFoundError, IsADirectoryError) as error:
            raise NotFound(f"{posixpath.basename(path)} is gone.") from error
        except RequestedRangeNotSatisfiable as error:  # of the file as it is now: not for ever
            headers = {"Content-Range": f"bytes */{error.length}", "Cache-Control": "no-store"}
            return Response("", 416, headers, mimetype="text/plain")
        # Other tools write over their clips.
        response.headers["Cache-Control"] = _FOREVER if path.startswith("media/") else "no-cache"
        if suffix not in SHOWN:
            response.headers["Content-Disposition"] = "attachment"
        return response


def _json_response(request: Request, page: Page) -> Response:
    if request.args.get("seen") == page.etag:  # not a 304: TensorBoard warns of each answer that has no Content-Type
        response = Response(b"null", mimetype="application/json")
    elif page.compressed and request.accept_encodings["gzip"]:
        response = Response(page.compressed, mimetype="application/json")
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
    else:
        response = Response(page.content, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    response.set_etag(page.etag)
    return response


def _file_response(request: Request, filesystem: Any, path: str, mimetype: str) -> Response:
    """Return a file, or the part of it that is asked for; RequestedRangeNotSatisfiable if it has no such part."""
    environ = dict(request.environ)
    if is_local(filesystem) and Path(path).is_absolute():
        check_is_file(filesystem, path)
        _keep_one_range(environ, Path(path).stat().st_size)
        response = send_file(path, environ, mimetype=mimetype, conditional=True)
    else:
        file = open_file(filesystem, path)
        size = file.size()
        _keep_one_range(environ, size)
        response = Response(wrap_file(environ, file, _CHUNK), direct_passthrough=True, mimetype=mimetype)
        response.content_length = size
        response.set_etag(etag_of(path.encode("utf-8", "surrogatepass")))
        response.make_conditional(environ, accept_ranges=True, complete_length=size)
    response.headers["Accept-Ranges"] = "bytes"  # Werkzeug 3.1.0 says so only in its answer to a range request
    return response


def _keep_one_range(environ: WSGIEnvironment, size: int) -> None:
    """Leave out a range that asks for anything but one part of a file of this size: the answer is the whole file.

    It may be malformed, of another unit, of several parts, of no byte, or longer than the file; Werkzeug answers 416 to
    most of these. A range that begins behind the end of the file is kept: 416 is the answer to it.
    """
    match = _ONE_RANGE.fullmatch(environ.get("HTTP_RANGE", "").strip())
    first, last, tail = match.groups() if match else (None, None, None)
    is_part = (
        bool(match) and not (first and last and int(last) < int(first)) and not (tail and not 0 < int(tail) <= size)
    )
    if environ["REQUEST_METHOD"] != "GET" or not is_part:
        environ.pop("HTTP_RANGE", None)


def static_file(name: str) -> Response:
    """Return a file of the front end."""
    path = STATIC / name
    if name not in static_files():
        raise NotFound(f"There is no page {name!r}.")
    response = Response(path.read_bytes(), mimetype=mimetypes.guess_type(name)[0] or "text/plain")
    response.headers["Cache-Control"] = "no-store"  # a few kB, and never those of an older version
    return response
