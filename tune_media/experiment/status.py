"""What became of each trial, in Tune's words, and why it failed."""

from __future__ import annotations

import contextlib
import posixpath
import re
from dataclasses import dataclass

import pyarrow.fs

from tune_media.storage.filesystem import read_if_there
from tune_media.values.secrets import redacted, redacted_values

FAILED = "error"
_ERRORS = "error.txt"  # Tune's, in the folder of a trial that failed: the traceback of each failure
_MAX_ERROR = 400
_MAX_TRACEBACKS = 20_000
_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # as Ray writes them for a terminal


@dataclass(frozen=True)
class TrialStatus:
    """What became of a trial.

    Attributes:
        word: ``pending``, ``running``, ``paused``, ``terminated`` or ``error``, as Tune's last snapshot has it; empty
            if no snapshot knows the trial.
        error: The last line of its last traceback if it failed, without keys and passwords.

    >>> TrialStatus("error", "ValueError: no").word == FAILED
    True
    """

    word: str = ""
    error: str = ""


def tracebacks(filesystem: pyarrow.fs.FileSystem, folder: str) -> str:
    """Return the tracebacks of a trial's failures, the end of them if they are long, without keys and passwords.

    It is empty if the trial did not fail, or if they cannot be read.
    """
    with contextlib.suppress(OSError):
        text = _COLOR.sub("", content_of_errors(filesystem, folder).decode("utf-8", "replace")).strip()
        return str(redacted_values(text[-_MAX_TRACEBACKS:]))
    return ""


def content_of_errors(filesystem: pyarrow.fs.FileSystem, folder: str) -> bytes:
    """Return the tracebacks of a trial's failures as Tune wrote them; nothing if there are none.

    Raises:
        OSError: The filesystem does not answer.
    """
    return read_if_there(filesystem, posixpath.join(folder, _ERRORS)) or b""


def last_line(traceback: bytes) -> str:
    r"""Return the line of a traceback that names the exception.

    >>> last_line(b"Failure # 1\nTraceback ...\nValueError: no\n\n")
    'ValueError: no'
    """
    lines = traceback.decode("utf-8", "replace").split("\n")
    told = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return redacted(told)[:_MAX_ERROR]
