"""Reads an index as a test needs it."""

from __future__ import annotations

from tune_media.storage.index_lines import Line, LogLine, parsed, raw_lines
from tune_media.values.strict_json import json_bytes


def parse_index(content: bytes) -> list[Line]:
    """Return all lines of an index in order, those included that a later line of their key replaces."""
    return [line.fields() for _, line in raw_lines(content) if line is not None]


def valid_lines(content: bytes) -> list[Line]:
    """Return the last line of each key."""
    return list({(line["id"], line["section"], line["key"]): line for line in parse_index(content)}.values())


def typed(line: Line) -> LogLine:
    """Return a JSON object as the line that readers make of it."""
    made = parsed(json_bytes({"v": 4, **line}))
    assert made is not None, line
    return made
