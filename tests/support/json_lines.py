"""Files of JSON lines that several processes add to, and that may be read meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_line(file: Path, line: Any) -> None:
    """Append a line to a file, with one write."""
    target = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(target, json.dumps(line).encode() + b"\n")
    os.close(target)


def read_lines(file: Path) -> list[Any]:
    """Return the lines of a file, without one that is being written."""
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
