"""The results of a trial, from the ``result.json`` that Tune writes: all of them, or the numbers that matter."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.storage.filesystem import file_info, json_object, open_file, read_if_there
from tune_media.storage.passed_over import warn_of_broken_lines
from tune_media.storage.trial_folder import RESULTS
from tune_media.values.number import as_number, whole_number

_MAX_BYTES = 64 * 2**20
_TAIL = 64 * 1024  # bytes; one line of an RLlib result is about 20 kB
_MAX_TAIL = 2**20  # how far back the last evaluation is looked for, unless a line is longer
_EVALUATION = b'"evaluation"'
EVALUATED = ("evaluation/num_healthy_workers", "evaluation/num_healthy_offline_eval_runners")
"""RLlib adds one of these to a result in an iteration that evaluates, and only then, on both API stacks."""


@dataclass
class Metric:
    """One metric over a trial's results."""

    last: float  # its value in the last result that has it
    largest: float = math.nan  # its largest finite value; NaN if it has none
    smallest: float = math.nan  # its smallest finite value; NaN if it has none

    def __post_init__(self) -> None:
        self.add(self.last)

    def add(self, value: float) -> None:
        """Take the value of a later result."""
        self.last = value
        if math.isfinite(value):  # it comes first: then max and min do not keep a NaN
            self.largest, self.smallest = max(value, self.largest), min(value, self.smallest)


def result_step(result: dict[str, Any]) -> int:
    """Return the step at which Ray's TensorBoard logger shows a result.

    >>> result_step({"training_iteration": 3}), result_step({"training_iteration": 3, "timesteps_total": 400})
    (3, 400)
    """
    return whole_number(result.get("timesteps_total")) or whole_number(result.get("training_iteration"))


def has_step(result: dict[str, Any]) -> bool:
    """Return whether a result says at which step it is.

    >>> has_step({"timesteps_total": None, "training_iteration": 0}), has_step({"timesteps_total": None, "score": 1})
    (True, False)
    """
    return any(math.isfinite(as_number(result.get(name))) for name in ("timesteps_total", "training_iteration"))


def counting(iterations: Sequence[Any]) -> list[bool]:
    """Return whether each result counts, by the training iterations in the order of the file (None if it has none).

    A trial that goes back to a checkpoint reports the iterations after it again; the earlier reports no longer count.
    """
    first_later = math.inf
    flags = []
    for iteration in reversed(iterations):
        number = iteration if isinstance(iteration, int) and not isinstance(iteration, bool) else None
        flags.append(number is None or number < first_later)
        first_later = min(first_later, math.inf if number is None else number)
    return flags[::-1]


def without_repeats(results: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Return results as ``numbers_of`` makes them, without the evaluations that RLlib repeats until the next one.

    >>> without_repeats([{EVALUATED[0]: 0, "evaluation/a": 5}, {"evaluation/a": 5, "loss": 1}])[1]
    {'loss': 1}
    >>> without_repeats([{"evaluation/a": 5}, {"evaluation/a": 5}])  # of a trainable of one's own
    [{'evaluation/a': 5}, {'evaluation/a': 5}]
    """
    evaluated = [not result.keys().isdisjoint(EVALUATED) for result in results]
    if not any(evaluated):
        return list(results)
    return [
        result if is_new else {name: value for name, value in result.items() if not name.startswith("evaluation/")}
        for result, is_new in zip(results, evaluated, strict=True)
    ]


def results_of_trial(filesystem: pyarrow.fs.FileSystem, folder: str, driver: Path | None = None) -> list[bytes]:
    """Return the lines of a trial's results that count, see ``counting``; ``json_object`` parses one. Raises OSError.

    Lines that are not whole are left out. The lines are not parsed, because the results of a long trial would fill the
    memory. If the trial runs in the folder ``driver``, the longer file is taken: Tune empties the storage's copy before
    it writes it anew, and Ray's logger does so with the driver's file when the trial is restored.
    """
    path, local = posixpath.join(folder, RESULTS), None if driver is None else driver / RESULTS
    if local is not None and local.exists() and local.stat().st_size >= (filesystem.get_file_info(path).size or 0):
        content = local.read_bytes()
    else:
        content = read_if_there(filesystem, path) or b""
    lines, iterations = [], []
    split = content.split(b"\n")
    for line, result in zip(split, parsed_results(path, split), strict=True):
        if result:
            lines.append(line)
            iterations.append(result.get("training_iteration"))
    return [line for line, does in zip(lines, counting(iterations), strict=True) if does]


def result_time(result: dict[str, Any]) -> float:
    """Return when a trial reported a result, Unix time in seconds; 0 if unknown."""
    timestamp = as_number(result.get("timestamp"))
    return timestamp if 0 < timestamp < math.inf else 0.0


def without_lists(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without its lists: JSON does not tell arrays from windows that repeat.

    >>> without_lists({"a": 1, "b": {"c": [1, 2], "d": 2}})
    {'a': 1, 'b': {'d': 2}}
    """
    kept = {}
    for key, value in result.items():
        if isinstance(value, dict):
            kept[key] = without_lists(value)
        elif not isinstance(value, list):
            kept[key] = value
    return kept


def read_metrics(filesystem: pyarrow.fs.FileSystem, folder: str) -> tuple[dict[str, Metric], bool]:
    """Return a trial's metrics by name, nested ones as ``outer/inner``, and whether its last line is cut off.

    Results that were rolled back do not count. Of a file above 64 MB only the end is read.
    """
    path = posixpath.join(folder, RESULTS)
    lines = _tail(filesystem, path)
    metrics: dict[str, Metric] = {}
    iterations = []
    for result in parsed_results(path, lines):
        iterations.append(result.get("training_iteration"))
        _add(metrics, result)
    counts = counting(iterations)
    if not all(counts):
        metrics = metrics_of(json_object(line) for line, does in zip(lines, counts, strict=True) if does)
    return metrics, _is_cut(lines)


def metrics_of(results: Iterable[dict[str, Any]]) -> dict[str, Metric]:
    """Return the metrics of some results by name, nested ones as ``outer/inner``."""
    metrics: dict[str, Metric] = {}
    for result in results:
        _add(metrics, result)
    return metrics


def _add(metrics: dict[str, Metric], result: dict[str, Any]) -> None:
    for name, value in _numbers(result, ""):
        if name in metrics:
            metrics[name].add(float(value))
        else:
            metrics[name] = Metric(float(value))


def last_metrics(filesystem: pyarrow.fs.FileSystem, folder: str) -> tuple[dict[str, float], bool]:
    """Return the numbers of a trial's last result by name, as ``read_metrics``, and whether its last line is cut off.

    RLlib evaluates in some iterations only. So the numbers of the last evaluation that counts are added, if it is among
    the last MB of results. Raises OSError.
    """
    path = posixpath.join(folder, RESULTS)
    info = file_info(filesystem, path)
    size = info.size if info else 0
    if not size:
        return {}, False
    with open_file(filesystem, path) as file:
        length = _TAIL
        while True:
            start = max(0, size - length)
            file.seek(start)
            lines = bytes(file.read()).split(b"\n")[1 if start else 0 :]  # the first line is cut off
            newest = _newest(lines)
            has_evaluation = any(name.startswith("evaluation/") for name in newest)
            if start == 0 or has_evaluation or (newest and length >= _MAX_TAIL):
                return newest, _is_cut(lines)
            length *= 16


def _is_cut(lines: Sequence[bytes]) -> bool:
    """Return whether the last of the lines of a file, which is empty if the file is whole, is no result."""
    return bool(lines) and bool(lines[-1].strip()) and not json_object(lines[-1])


def _newest(lines: list[bytes]) -> dict[str, float]:
    """Return the metrics of the last whole line, and before them those of the last evaluation that counts."""
    newest: dict[str, float] = {}
    later: list[dict[str, Any]] = []  # the results after a line
    unread: list[bytes] = []  # lines that are read only if a line before them has an evaluation
    for raw in reversed(lines):
        if newest and _EVALUATION not in raw:
            unread.append(raw)
            continue
        later += map(json_object, unread)
        unread = []
        result = json_object(raw)
        if not counting([result.get("training_iteration"), *(after.get("training_iteration") for after in later)])[0]:
            continue
        later.append(result)
        numbers = numbers_of(result)
        newest = numbers | newest
        if any(name.startswith("evaluation/") for name in numbers):
            break
    return newest


def numbers_of(result: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a result by name, also infinity and NaN; its copy of the hyperparameters is left out.

    >>> numbers_of({"a": {"b": 1}, "loss": float("nan"), "done": True, "config": {"lr": 1}})
    {'a/b': 1, 'loss': nan}
    """
    return dict(_numbers(result, ""))


def parsed_results(path: str, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the result in each line of a trial's results; of a line that has none an empty one, with a warning.

    An incomplete last line is left out without a warning: Tune may be writing it.
    """
    broken: list[int] = []
    last = 0
    for last, line in enumerate(lines, 1):
        result = json_object(line)
        if not result and line.strip():
            broken.append(last)
        yield result
    warn_of_broken_lines(path, [number for number in broken if number < last], "a result")


def _numbers(result: dict[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in result.items():
        if isinstance(value, dict):
            if prefix or name != "config":
                yield from _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, float) or (not isinstance(value, bool) and not math.isnan(as_number(value))):
            yield f"{prefix}{name}", value


def _tail(filesystem: pyarrow.fs.FileSystem, path: str) -> list[bytes]:
    """Return the lines at the end of a file; none if there is no such file."""
    try:
        with open_file(filesystem, path) as file:
            start = max(0, file.size() - _MAX_BYTES)
            file.seek(start)
            return bytes(file.read()).split(b"\n")[1 if start else 0 :]  # the first line is cut off
    except OSError:
        if file_info(filesystem, path) is not None:
            raise
        return []
