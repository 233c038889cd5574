"""The metrics of a trial, from the ``result.json`` that Tune writes: over all results, or those of the last ones."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.fs

from tune_media.values.strict_json import parse_json
from tune_media.viewing.media_columns import as_number
from tune_media.viewing.places import Folder

RESULTS = "result.json"
_MAX_BYTES = 64 * 2**20
_TAIL = 64 * 1024  # bytes; one line of an RLlib result is about 20 kB
_MAX_TAIL = 2**20  # how far back the last evaluation is looked for, unless a line is longer
_EVALUATION = b'"evaluation"'


@dataclass
class Metric:
    """One metric over a trial's results.

    Attributes:
        last: Its value in the last result that has it.
        largest: Its largest value.
        smallest: Its smallest value.

    >>> metric = Metric(3.0)
    >>> metric.add(1.0)
    >>> metric
    Metric(last=1.0, largest=3.0, smallest=1.0)
    """

    last: float
    largest: float = -math.inf
    smallest: float = math.inf

    def __post_init__(self) -> None:
        self.add(self.last)

    def add(self, value: float) -> None:
        """Take the value of a later result."""
        self.last, self.largest, self.smallest = value, max(self.largest, value), min(self.smallest, value)


def read_metrics(folder: Folder) -> dict[str, Metric]:
    """Return a trial's metrics by name, nested ones as ``outer/inner``; nothing if it has reported nothing.

    Of a file above 64 MB only the end is read.
    """
    metrics: dict[str, Metric] = {}
    for line in _tail(folder.filesystem, posixpath.join(folder.path, RESULTS)).split(b"\n"):
        for name, value in _numbers(json_object(line), ""):
            if name in metrics:
                metrics[name].add(float(value))
            else:
                metrics[name] = Metric(float(value))
    return metrics


def last_metrics(filesystem: pyarrow.fs.FileSystem, folder: str) -> dict[str, float]:
    """Return the numbers of a trial's last result by name, nested ones as ``outer/inner``.

    RLlib evaluates in some iterations only. So the numbers of the last evaluation are added, if it is among the last
    MB of results. Numbers that are not finite are left out.

    Args:
        filesystem: Any pyarrow filesystem.
        folder: The trial's folder on it.

    Raises:
        OSError: The file is there and cannot be read.

    Example:
        >>> last_metrics(pyarrow.fs.LocalFileSystem(), "/no/such/trial")
        {}
    """
    path = posixpath.join(folder, RESULTS)
    size = filesystem.get_file_info(path).size or 0
    if not size:
        return {}
    with filesystem.open_input_file(path) as file:
        length = _TAIL
        while True:
            start = max(0, size - length)
            file.seek(start)
            lines = bytes(file.read()).split(b"\n")[1 if start else 0 :]  # the first line is cut off
            found = _newest(lines)
            is_whole = any(name.startswith("evaluation/") for name in found)
            if start == 0 or is_whole or (found and length >= _MAX_TAIL):
                return found
            length *= 16


def _newest(lines: list[bytes]) -> dict[str, float]:
    """Return the metrics of the last whole line, and before them those of the last one with an evaluation."""
    newest: dict[str, float] = {}
    for raw in reversed(lines):
        if newest and _EVALUATION not in raw:
            continue
        found = finite_metrics(json_object(raw))
        newest = found | newest
        if any(name.startswith("evaluation/") for name in found):
            break
    return newest


def finite_metrics(result: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a result by name if a float can hold them; its copy of the hyperparameters is left out.

    Example:
        >>> finite_metrics({"a": {"b": 1}, "loss": float("nan"), "done": True, "config": {"lr": 1}})
        {'a/b': 1}
    """
    return {name: value for name, value in _numbers(result, "") if math.isfinite(as_number(value))}


def json_object(content: bytes | None) -> dict[str, Any]:
    """Return a JSON object; an empty one if the content is anything else.

    Example:
        >>> json_object(b'{"a": NaN}'), json_object(b'[1'), json_object(None)
        ({'a': nan}, {}, {})
    """
    try:
        value = parse_json(content or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _numbers(result: dict[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in result.items():
        if isinstance(value, dict):
            if prefix or name != "config":
                yield from _numbers(value, f"{prefix}{name}/")
        elif not isinstance(value, bool) and not math.isnan(as_number(value)):
            yield f"{prefix}{name}", value


def _tail(filesystem: pyarrow.fs.FileSystem, path: str) -> bytes:
    try:
        with filesystem.open_input_file(path) as file:
            file.seek(max(0, file.size() - _MAX_BYTES))
            return bytes(file.read())
    except OSError:
        if filesystem.get_file_info(path).is_file:
            raise
        return b""  # there is none, or a folder
