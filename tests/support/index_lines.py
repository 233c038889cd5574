"""Reads an index as a test needs it."""

from __future__ import annotations

from tune_media.storage.index_lines import Line, raw_lines


def parse_index(content: bytes) -> list[Line]:
    """Return all lines of an index in order, those included that a later line of their key replaces."""
    return [line for _, line in raw_lines(content) if line is not None]


def valid_lines(content: bytes) -> list[Line]:
    """Return the last line of each key."""
    return list({(line["id"], line["section"], line["key"]): line for line in parse_index(content)}.values())
