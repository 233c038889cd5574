"""The status of a trial, in Tune's words, and its failures."""

from __future__ import annotations

import contextlib
import posixpath
from dataclasses import dataclass

import pyarrow.fs

from tune_media.storage.filesystem import read_if_there
from tune_media.storage.trial_folder import ERRORS
from tune_media.values.headline import headline, without_colors
from tune_media.values.secrets import redacted

UNENDED = ("pending", "running", "paused")
TRIAL_FAILED = "error"
_MAX_ERROR = 400
_MAX_TRACEBACKS = 20_000


@dataclass(frozen=True)
class TrialStatus:
    """The status of a trial."""

    # ``pending``, ``running``, ``paused``, ``terminated``, ``error``; empty if no snapshot knows the trial
    word: str = ""
    error: str = ""  # what went wrong if it failed, in one line, see ``headline``
    iterations: float | None = None  # at which it ends; None if Tune's stop does not say so


def tracebacks(filesystem: pyarrow.fs.FileSystem, folder: str) -> str:
    """Return the end of the tracebacks of a trial's failures, without secrets; empty if none can be read."""
    with contextlib.suppress(OSError):
        return redacted(text_of_errors(filesystem, folder).strip())[-_MAX_TRACEBACKS:]
    return ""


def text_of_errors(filesystem: pyarrow.fs.FileSystem, folder: str) -> str:
    """Return the tracebacks of a trial's failures, as Tune wrote them; empty if there are none. Raises OSError."""
    content = read_if_there(filesystem, posixpath.join(folder, ERRORS)) or b""
    return without_colors(content.decode("utf-8", "replace"))


def error_of(filesystem: pyarrow.fs.FileSystem, folder: str) -> str:
    """Return why a trial failed, in one line, without secrets; empty if nobody wrote it. Raises OSError."""
    return headline(text_of_errors(filesystem, folder))[:_MAX_ERROR]
