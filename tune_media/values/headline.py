"""The one line of an error's text that says what went wrong."""

from __future__ import annotations

import re

from tune_media.values.secrets import redacted

_FAILURE = re.compile(r"^Failure # \d+ \(.*$", re.MULTILINE)  # Tune appends the text of each failure to one file
_ENTRY = re.compile(r'  File ".*", line \d+')
_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # as Ray writes them for a terminal
_OF_GROUP = "  | "  # stands before each line of an exception group; before those of its parts it is indented


def headline(text: str) -> str:
    """Return the first line of the last exception's message in a text of tracebacks, without secrets.

    That is the first line that is not indented after the last entry of a traceback: a message may have more lines, and
    notes below it. Without an entry it is the last line that is not indented.

    >>> headline('Traceback (most recent call last):\\n  File "a.py", line 3, in f\\n    g()\\nValueError: no\\na note')
    'ValueError: no'
    """
    *_, last = _FAILURE.split(without_colors(text))
    lines = [line.removeprefix(_OF_GROUP).rstrip() for line in last.split("\n") if line.strip()]
    entries = [place for place, line in enumerate(lines) if _ENTRY.match(line)]
    heads = [place for place, line in enumerate(lines) if not line[0].isspace() and place >= max(entries, default=0)]
    if not heads:
        return redacted(lines[-1].strip() if lines else "")
    head = heads[0 if entries else -1]
    message = lines[head : head + (2 if lines[head].endswith(":") else 1)]  # some begin in the next line
    return redacted(" ".join(map(str.strip, message)))


def without_colors(text: str) -> str:
    """Return a text without a terminal's colors.

    >>> without_colors("\\x1b[1;31mno\\x1b[0m")
    'no'
    """
    return _COLOR.sub("", text)
