"""Damages the files of an experiment, each in another way, as disks, syncs and people do."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path


def _truncated(file: Path, luck: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: luck.randrange(len(content)) if content else 0])


def _flipped(file: Path, luck: random.Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(min(8, len(content))):
        content[luck.randrange(len(content))] ^= 1 << luck.randrange(8)
    file.write_bytes(content)


def _huge_line(file: Path, luck: random.Random) -> None:
    with file.open("ab") as opened:
        opened.write(b'{"a": "' + b"x" * 500_000 + b'"}\n')


def _odd_lines(file: Path, luck: random.Random) -> None:
    lines = [b"[1]", b"null", b'{"trial": "t", "event": "back"}', b"\xff\xfe", b"{" * 3000, b"3", b'"text"', b"\0" * 90]
    content = file.read_bytes().split(b"\n")
    for line in lines:
        content.insert(luck.randrange(len(content)), line)
    file.write_bytes(b"\n".join(content))


def _odd_values(file: Path, luck: random.Random) -> None:
    """Give one in four numbers and texts of JSON another type."""
    parts = file.read_bytes().split(b": ")
    values = [
        b"null",
        b"[[]]",
        b'{"a": {}}',
        b"1e999",
        b"-1",
        b'"\\ud800"',
        b"true",
        b'"' + b"y" * 9999 + b'"',
        b"9" * 40,
    ]
    for at in range(1, len(parts)):
        if parts[at][:1] in b'"-0123456789' and luck.random() < 0.25:
            end = len(parts[at]) - len(parts[at].lstrip(b'"-0123456789.eabcdf'))
            parts[at] = luck.choice(values) + parts[at][end:] if parts[at][end:][:1] in b",}" else parts[at]
    file.write_bytes(b": ".join(parts))


def _nested(file: Path, luck: random.Random) -> None:
    """Add JSON that is nested deeper than one parser or the other can read, a line each; JSON alone is put in place."""
    texts = [b'{"a":' * levels + b"1" + b"}" * levels for levels in (990, 100_000)]
    lines = [line for line in file.read_bytes().splitlines() if line.endswith(b"}") and file.suffix == ".jsonl"]
    deep = [line[:-1] + b', "metrics": ' + texts[0] + b"}" for line in lines[:1]]
    file.write_bytes(b"\n".join([*lines, *deep, *texts, b""]))


def _linked(file: Path, luck: random.Random) -> None:
    file.symlink_to(file.rename(Path(tempfile.mkdtemp()) / file.name))


def _instead(make: Callable[[Path], object]) -> Callable[[Path, random.Random], None]:
    def damage(file: Path, luck: random.Random) -> None:
        file.unlink()
        make(file)

    return damage


WAYS: dict[str, Callable[[Path, random.Random], object]] = {
    "truncated": _truncated,
    "flipped": _flipped,
    "a huge line": _huge_line,
    "odd lines": _odd_lines,
    "odd values": _odd_values,
    "nested": _nested,
    "empty": lambda file, luck: file.write_bytes(b""),
    "gone": lambda file, luck: file.unlink(),
    "a folder": _instead(Path.mkdir),
    "a pipe": _instead(os.mkfifo),
    "a link to itself": _instead(lambda file: file.symlink_to(file.name)),
    "a link to elsewhere": _linked,
    "noise": lambda file, luck: file.write_bytes(luck.randbytes(4096)),
}
