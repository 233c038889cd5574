"""The status of a trial, in Tune's words, and its failures."""

from __future__ import annotations

import contextlib
import posixpath
import re
from dataclasses import dataclass

import pyarrow.fs

from tune_media.storage.filesystem import read_if_there
from tune_media.storage.trial_folder import ERRORS
from tune_media.values.secrets import redacted

UNENDED = ("pending", "running", "paused")
TRIAL_FAILED = "error"
_MAX_ERROR = 400
_MAX_TRACEBACKS = 20_000
_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # as Ray writes them for a terminal


@dataclass(frozen=True)
class TrialStatus:
    """The status of a trial."""

    # ``pending``, ``running``, ``paused``, ``terminated``, ``error``; empty if no snapshot knows the trial
    word: str = ""
    error: str = ""  # the last line of its last traceback if it failed, without keys and passwords
    iterations: float | None = None  # at which it ends; None if Tune's stop does not say so


def tracebacks(filesystem: pyarrow.fs.FileSystem, folder: str) -> str:
    """Return the end of the tracebacks of a trial's failures, without secrets; empty if none can be read."""
    with contextlib.suppress(OSError):
        return redacted(_without_colors(content_of_errors(filesystem, folder)).strip())[-_MAX_TRACEBACKS:]
    return ""


def content_of_errors(filesystem: pyarrow.fs.FileSystem, folder: str) -> bytes:
    """Return the tracebacks of a trial's failures as Tune wrote them; nothing if there are none. Raises OSError."""
    return read_if_there(filesystem, posixpath.join(folder, ERRORS)) or b""


def last_line(traceback: bytes) -> str:
    """Return the line of a traceback that names the exception."""
    *_, line = ["", *filter(str.strip, _without_colors(traceback).split("\n"))]
    return redacted(line.strip())[:_MAX_ERROR]


def _without_colors(content: bytes) -> str:
    return _COLOR.sub("", content.decode("utf-8", "replace"))
