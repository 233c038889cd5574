"""Whether an MLflow server can be reached at all, and whether it may answer later."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tune_media.callbacks.mlflow import private_names
from tune_media.values.checks import did_you_mean
from tune_media.values.problems import argument, remedy
from tune_media.values.secrets import HIDDEN, redacted
from tune_media.values.threads import start_thread

_AWAY = (408, 429, 502, 503, 504)  # statuses after which it is worth trying again
_REFUSED = (401, 403)
_MAX_CHARACTERS = 400  # of what a server answers, which may be a page
_BOTOS = ("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError")
_SCHEMES = re.compile(r"schemes are: \[(.*)")  # in the error of one that MLflow does not know
_NOT_HALF_MADE = re.compile("unable to open|not a database|is locked|is full|readonly|I/O error")  # SQLite's errors
_HIDDEN: dict[str, str] = {}  # this process's URIs, by the ones without their passwords


def hide_password(uri: str | None) -> str | None:
    """Return a URI without its password, for a file; ``with_password`` puts it back.

    >>> hide_password("postgresql://me:secret@host/runs")
    'postgresql://***@host/runs'
    """
    if uri is None:
        return None
    hidden = redacted(uri)
    if hidden != uri:
        _HIDDEN[hidden] = uri
    return hidden


def whole_uri(uri: str | None) -> str | None:
    """Return a URI with its password, or None if only another process knew the password."""
    return uri if uri is None or HIDDEN not in uri else _HIDDEN.get(uri)


def with_password(uri: str | None, variable: str) -> str | None:
    """Return a URI with its password; raises ValueError if that is not known."""
    if uri is None:
        return None
    whole = whole_uri(uri) or os.environ.get(variable)
    if whole is None:
        raise ValueError(
            f"MLflowMediaLoggerCallback: the password of {uri} is not stored with the experiment. Set {variable} to "
            "the whole URI before Tuner.restore."
        )
    return whole


def is_away(error: Exception) -> bool:
    """Return whether MLflow's server did not answer, or answered that it cannot at the moment."""
    import requests
    from mlflow.exceptions import MlflowException

    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return error.response.status_code in _AWAY
    if isinstance(error, (requests.exceptions.RequestException, ConnectionError, TimeoutError)):
        return True
    if type(error).__name__ in _BOTOS:
        return True
    if not isinstance(error, MlflowException):
        return False
    unreachable = private_names.NO_ANSWER in str(error) or "Connection" in str(error)
    return unreachable or error.get_http_status_code() in _AWAY


def find_experiment(client: Any, name: str | None) -> Any:
    """Return the MLflow experiment of a sweep, as Ray chooses it, or None if it is to be created.

    It is the one that ``MLFLOW_EXPERIMENT_ID`` names, if there is one, else the one of this name. Raises ValueError if
    it is deleted; or if there is none with the id, and ``name`` is None.
    """
    from mlflow.exceptions import MlflowException

    experiment, id = None, os.environ.get("MLFLOW_EXPERIMENT_ID")
    if id is not None:
        try:
            experiment = client.get_experiment(id)
        except MlflowException as error:
            if is_away(error):
                raise
            if name is None:
                raise ValueError(
                    f"MLflow has no experiment with the id {id} (MLFLOW_EXPERIMENT_ID), and no name is given. "
                    + remedy(
                        f"Pass {argument('experiment_name=')}, or set MLFLOW_EXPERIMENT_ID to the id of an experiment "
                        "that exists."
                    )
                ) from None
    if experiment is None and name is not None:
        experiment = client.get_experiment_by_name(name)
    if experiment is not None and experiment.lifecycle_stage != "active":
        raise ValueError(
            f"the MLflow experiment {experiment.name!r} (id {experiment.experiment_id}) is deleted. "
            + remedy(
                f"Pass another {argument('experiment_name=')}, or restore it: mlflow experiments restore "
                f"--experiment-id {experiment.experiment_id}"
            )
        )
    return experiment


def check(
    tracking_uri: str | None, registry_uri: str | None, seconds: float, experiment_name: str | None = None
) -> None:
    """Ask MLflow for the experiment; raises ValueError if its URI or the experiment cannot work.

    A server that is away, or takes longer than ``seconds``, is no error: it may answer later. A URI cannot work with an
    unknown scheme or host, a database whose driver is not installed, a server that refuses the user or is not MLflow.
    """
    problems: list[Exception] = []

    def ask() -> None:
        try:
            _ask(tracking_uri, registry_uri, experiment_name)
        except Exception as error:
            problems.append(error)

    start_thread("tune_media MLflow check", ask).join(seconds)
    if problems and isinstance(problems[0], _ExperimentError):
        raise ValueError("MLflowMediaLoggerCallback: " + problems[0].args[0]) from None
    if problems and not is_away(problems[0]):
        raise ValueError(_message(tracking_uri, problems[0])) from None


class _ExperimentError(ValueError):
    """The URI works, and the experiment does not."""


def _ask(tracking_uri: str | None, registry_uri: str | None, experiment_name: str | None) -> None:
    import mlflow

    uri = tracking_uri or mlflow.get_tracking_uri()
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https") and parts.hostname:
        try:
            socket.getaddrinfo(parts.hostname, None)
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME:
                raise ValueError(f"there is no host named {parts.hostname!r}") from None
    if uri.startswith("sqlite:///"):
        _open_once(unquote(uri.removeprefix("sqlite:///").partition("?")[0]))
    client = mlflow.MlflowClient(tracking_uri, registry_uri)
    client.search_experiments(max_results=1)
    try:
        find_experiment(client, experiment_name)
    except ValueError as error:
        raise _ExperimentError(*error.args) from None


def _open_once(file: str) -> None:
    """Raise what SQLite says of a file that it cannot open, which MLflow would try again for 100 s."""
    if Path(file).parent.is_dir() and not file.startswith("file:"):  # MLflow makes a folder that is not there
        sqlite3.connect(file).close()


def _message(tracking_uri: str | None, error: Exception) -> str:
    import mlflow

    uri, text = str(tracking_uri or mlflow.get_tracking_uri()), redacted(str(error))
    text = textwrap.shorten(text, _MAX_CHARACTERS, placeholder="")
    what_to_do = (
        "Pass the address of a server, as in tracking_uri='http://localhost:5000', or of a database, as in "
        "tracking_uri='sqlite:////home/me/mlflow.db'."
    )
    if isinstance(error, ImportError):
        what_to_do = f"Install the Python package {error.name!r}, which MLflow needs for this database."
    elif "db upgrade" in text:
        what_to_do = "Upgrade it as MLflow says, or pass another database."
    elif uri.startswith("sqlite") and not _NOT_HALF_MADE.search(text):
        what_to_do = (
            "If a process was ended while it made this database, or two made it at once, it is half-made: delete the "
            "file if it has no runs yet, or pass another."
        )
    elif private_names.status_of(error) in _REFUSED:
        what_to_do = "Pass tracking_token=, or set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
    elif known := _SCHEMES.search(text):
        scheme, names = urlsplit(uri).scheme, re.findall(r"[a-z][\w-]*", known[1])
        hint = did_you_mean(scheme, names)
        text, what_to_do = f"it has no store for {scheme}://", f"{hint[:1].upper()}{hint[1:]}"
    shown = redacted(repr(tracking_uri))
    text = f"MLflowMediaLoggerCallback(tracking_uri={shown}): MLflow cannot use this URI: {text.rstrip('.')}. "
    return text + remedy(what_to_do)
