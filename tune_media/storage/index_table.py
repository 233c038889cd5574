"""The valid lines of an index in memory: the last line of each key, found by key and by file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tune_media.storage.index_lines import Key, Line, key_of, raw_lines


class IndexTable:
    """The last line of each key, as JSON, in the order in which the keys first appeared.

    Attributes:
        nbytes: The size of the index with one line a key.

    Example:
        >>> table = IndexTable()
        >>> line = b'{"id": "a", "section": "train", "key": "k", "path": "media/x.mp4"}'
        >>> table.add_all(line + b"\\n" + line + b"\\n")
        >>> len(table.lines()), table.keys_of("media/x.mp4")
        (1, [('a', 'train', 'k')])
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._lines: dict[Key, bytes] = {}
        self._keys: dict[str, list[Key]] = {}  # of each file
        self._foreign: dict[bytes, int] = {}  # lines of the file that are no index lines, with their numbers

    def add(self, raw: bytes, line: Line) -> None:
        """Add a line, which replaces an earlier one of its key.

        Args:
            raw: The line as JSON.
            line: The same, parsed.
        """
        key = key_of(line)
        before = self._lines.get(key)
        if before is None:
            self._keys.setdefault(line["path"], []).append(key)
        else:
            self.nbytes -= len(before) + 1
            self._move(key, json.loads(before)["path"], line["path"])
        self._lines[key] = raw
        self.nbytes += len(raw) + 1

    def add_all(self, content: bytes) -> None:
        """Add the lines of a file; lines that are no index lines are kept as they are."""
        for number, (raw, line) in enumerate(raw_lines(content), 1):
            if line is None:
                self._foreign[raw] = number
            else:
                self.add(raw, line)

    @property
    def others(self) -> list[int]:
        """The numbers of the file's lines that are no index lines; they are kept as they are."""
        return list(self._foreign.values())

    def keys_of(self, path: str) -> list[Key]:
        """Return the keys of the lines that name a file."""
        return list(self._keys.get(path, ()))

    def get(self, key: Key) -> bytes | None:
        """Return a line as JSON, or None if there is none of this key."""
        return self._lines.get(key)

    def keys(self) -> list[Key]:
        """Return all keys."""
        return list(self._lines)

    def __getitem__(self, key: Key) -> Line:
        line: dict[str, Any] = json.loads(self._lines[key])
        return line

    def lines(self) -> list[Line]:
        """Return all lines, parsed."""
        return list(map(json.loads, self._lines.values()))

    def content(self) -> bytes:
        """Return the index with one line a key."""
        return b"".join(self._parts())

    def _parts(self) -> Iterator[bytes]:
        for raw in (*self._foreign, *self._lines.values()):
            yield raw
            yield b"\n"

    def _move(self, key: Key, former: str, path: str) -> None:
        if former != path:
            self._keys[former].remove(key)
            self._keys.setdefault(path, []).append(key)
