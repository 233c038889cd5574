"""Reads the folders of W&B's runs.

``run-<id>.wandb`` has all that a run logs: offline, its config and numbers are nowhere else. The file is a log in
blocks of 32 KiB, as LevelDB writes it; its records are messages of Protocol Buffers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tune_media.foreign.curve_cache import Series, cached
from tune_media.foreign.logged_clips import LOGGED, clips_in_rows
from tune_media.foreign.logged_rows import STEP, curves_of_rows, series_of_rows
from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.settings import env_id_of, settings_of_command, without_own
from tune_media.foreign.told import Curve, Told, unread
from tune_media.storage.filesystem import open_file
from tune_media.values.clip_columns import Columns
from tune_media.values.strict_json import parse_json

WANDB = _LOG, _SUMMARY, _METADATA = "run-*.wandb", "wandb-summary.json", "wandb-metadata.json"
_HEAD_BYTES = 16 * 1024
_START = b":W&B\xe1\xbe\x00"
_BLOCK = 32 * 1024
_HEAD = struct.Struct("<IHB")  # checksum, length, kind
_FULL, _FIRST, _LAST = 1, 2, 4

# The numbers of fields, which Protocol Buffers never gives to others
_HISTORY, _SUMMARY_UPDATE, _CONFIG, _STATS, _RUN, _ENVIRONMENT = 2, 3, 5, 7, 17, 26
_FREQUENT = (_HISTORY, _SUMMARY_UPDATE, _STATS)
_RUN_CONFIG, _ARGUMENT = 4, 5
_ITEM, _REMOVED = 1, 2  # of a history or a config
_KEY, _NESTED_KEY, _INTEGER, _NUMBER, _VALUE_JSON = 1, 2, 5, 6, 16
_STEP, _STEP_NUMBER = 2, 1


@dataclasses.dataclass
class WandbLog:
    """What a run has logged; each row has numbers, and under ``_step`` their step."""

    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    arguments: list[str] = dataclasses.field(default_factory=list)
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def read_wandb(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Read the config, the numbers and the clips of a run; without a config, the arguments of its command."""
    config, clips = dict[str, Any](), dict[str, dict[str, Any]]()
    arguments: list[str] = []
    not_understood: list[str] = []
    for path in paths:
        try:
            if path.endswith(".wandb"):
                log = parse_wandb(files.read(path), only_clips=True)
                clips |= clips_in_rows(log.rows, frozenset(files.clips))
                config, arguments = {**log.config, **config}, arguments or log.arguments
            elif path.endswith(_METADATA):
                told = parse_json(files.read(path))
                words = told.get("args") if isinstance(told, Mapping) else None
                arguments = arguments or list(map(str, words if isinstance(words, list) else ()))
        except (OSError, ValueError) as error:
            not_understood.append(unread(path, error))
    if not config and not files.matching("config.yaml"):
        config = settings_of_command(arguments)
    return Told(
        config=without_own(config, files.run_folder),
        env_id=env_id_of(config),
        clips=clips,
        curves=lambda: _curves(files, paths, columns or {}),
        not_understood=not_understood,
    )


def read_head(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Read the task in the config that begins a log."""
    for path in (path for path in paths if path.endswith(".wandb")):
        with contextlib.suppress(OSError, ValueError), open_file(files.filesystem, files.full(path)) as file:
            return Told(env_id=env_id_of(parse_wandb(bytes(file.read(_HEAD_BYTES))).config))
    return Told()


def _curves(files: RunFiles, paths: Sequence[str], columns: Columns) -> list[Curve]:
    """Return the numbers of the logs as curves; without a log, those of the summary as one point each."""
    logs = [path for path in paths if path.endswith(".wandb")]
    series: dict[str, Series] = {}
    for path in logs or [path for path in paths if path.endswith(_SUMMARY)]:
        with contextlib.suppress(OSError, ValueError):  # ``read_wandb`` has told it
            series = {**cached(files, path, functools.partial(_series, files, path)), **series}
    return curves_of_rows(series, columns)


def _series(files: RunFiles, path: str) -> dict[str, Series]:
    content = files.read(path)
    if path.endswith(".wandb"):
        return series_of_rows(parse_wandb(content).rows)
    summary = parse_json(content)
    return series_of_rows([summary] if isinstance(summary, dict) and STEP in summary else [])


def parse_wandb(content: bytes, *, only_clips: bool = False) -> WandbLog:
    """Return what is in a file up to where it is cut off or damaged; of rows, it may be only those with clips.

    Raises ValueError for any other file.
    """
    if not content.startswith(_START):
        raise ValueError("it is no log of W&B")
    log = WandbLog()
    for record in _records(content):
        for number, message in _fields(record):
            if number in _FREQUENT:  # and has nothing beside it
                if number == _HISTORY and (not only_clips or LOGGED in message):
                    log.rows.append(_row(message))
                break
            _add(log, number, message)
    log.config.pop("_wandb", None)
    return log


def _add(log: WandbLog, field: int, message: Any) -> None:
    if field == _CONFIG:
        _update(log.config, message)
    elif field == _RUN:
        for config in (value for inner, value in _fields(message) if inner == _RUN_CONFIG):
            _update(log.config, config)
    elif field == _ENVIRONMENT:
        log.arguments += [value.decode() for inner, value in _fields(message) if inner == _ARGUMENT]


def _records(content: bytes) -> Iterator[bytes]:
    at, parts = len(_START), list[bytes]()
    while at + _HEAD.size <= len(content):
        left = _BLOCK - at % _BLOCK
        if left < _HEAD.size:
            at += left
            continue
        checksum, length, kind = _HEAD.unpack_from(content, at)
        part = content[at + _HEAD.size : at + _HEAD.size + length]
        if len(part) < length or zlib.crc32(part, zlib.crc32(bytes([kind]))) != checksum:
            return
        at += _HEAD.size + length
        if kind in (_FULL, _FIRST):
            parts = []
        parts.append(part)
        if kind in (_FULL, _LAST):
            yield b"".join(parts)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: their number, and an integer or bytes. Raises ValueError."""
    at, end = 0, len(message)
    while at < end:
        key, at = (message[at], at + 1) if message[at] < 0x80 else _varint(message, at)
        kind = key & 7
        if kind == 0:
            integer, at = _varint(message, at)
            yield key >> 3, integer
            continue
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2 and at < end:
            size, at = (message[at], at + 1) if message[at] < 0x80 else _varint(message, at)
        elif not size:
            raise ValueError("a message in it has an unknown form")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("a message in it is cut off")


def _row(message: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for number, value in _fields(message):
        if number == _ITEM:
            path, item = _item(value)
            row["/".join(path)] = item
        elif number == _STEP:
            row.update((STEP, step) for inner, step in _fields(value) if inner == _STEP_NUMBER)
    return row


def _item(message: bytes) -> tuple[list[str], Any]:
    """Return the name of an item, in its parts, and its value."""
    path, value = [], None
    for number, content in _fields(message):
        if number in (_KEY, _NESTED_KEY):
            path.append(content.decode())
        elif number == _VALUE_JSON:
            value = parse_json(content)
        elif number == _INTEGER:
            value = (content >> 1) ^ -(content & 1)
        elif number == _NUMBER:
            (value,) = struct.unpack("<d", content)
    return path, value


def _update(config: dict[str, Any], message: bytes) -> None:
    for number, content in _fields(message):
        if number in (_ITEM, _REMOVED):
            (*outer, name), value = _item(content)
            inside = config
            for part in outer:
                inner = inside.get(part)
                inside[part] = inside = dict(inner) if isinstance(inner, Mapping) else {}
            inside.pop(name, None)
            if number == _ITEM:
                inside[name] = value
