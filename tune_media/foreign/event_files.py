"""TensorBoard's event files: their scalars by tag, as TensorBoard shows them. TensorFlow is not needed."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import importlib.util
import io
import posixpath
import re
import struct
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from crc32c import crc32c

from tune_media.foreign.curve_cache import Series, cached
from tune_media.foreign.return_tags import by_part, curves_of, hidden_returns
from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.settings import env_id_of, literal, without_own
from tune_media.foreign.told import Curve, Told, unnamed
from tune_media.storage.filesystem import open_file
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.clip_columns import Columns
from tune_media.values.installing import pip_install
from tune_media.values.number import counted
from tune_media.values.secrets import error_text

EVENT_FILES = "*tfevents*"
_HEAD, _MASK = 12, 0xA282EAD8  # bytes before a record: its length and the checksum of that
_MOST_EVENT = 2**20  # bytes: a larger event has a picture or a video, and is not read
_DTYPES = {1: ("float_val", "<f4"), 2: ("double_val", "<f8"), 3: ("int_val", "<i4"), 9: ("int64_val", "<i8")}
_TABLE, _HPARAMS = "hyperparameters/text_summary", "_hparams_/"
_SESSION = f"{_HPARAMS}session_start_info"
_ROW = re.compile(r"^\|([^|]+)\|(.*)\|\s*$", re.MULTILINE)
_HEADS = 2  # rows of a table: the names of its columns, and a line
_FIRST_BYTES, _MOST_FIRST = 2**18, 4  # of a file, and files, in which hyperparameters are looked for
_EPOCHS, _OVER_EPOCHS = "info/epochs", "Episode/"  # tags of rl_games
_SCALARS = ("", "scalars")  # the plugins of tensors that are scalars


def read_event_files(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the scalars of a run's event files as curves, and the hyperparameters that a writer has put among them."""
    paths = [path for path in paths if is_event_file(path)]
    if not paths:
        return Told()
    if not _is_tensorboard_there():
        return Told(not_understood=[f"{counted(len(paths), 'event file')}: " + pip_install("folders")])
    tags = frozenset(tag for _, tag in _joined(files, paths)) if columns else frozenset()
    config = next(filter(None, (_hyperparameters(files, path) for path, _ in by_part(paths)[:_MOST_FIRST])), {})
    return Told(
        config=without_own(config, files.run_folder),
        env_id=env_id_of(config),
        columns=tags,
        curves=functools.partial(_curves, files, paths, columns or {}),
    )


def _curves(files: RunFiles, paths: Sequence[str], columns: Columns) -> list[Curve]:
    found = _joined(files, paths)
    if alike := hidden_returns({tag for _, tag in found}, columns):
        warn_passed_over(files.full(paths[0]), unnamed("event files", "return", alike).rstrip("."))
    return curves_of(found, columns)


def is_event_file(path: str) -> bool:
    """Return whether a file has the name of an event file, and is none that only marks a profile."""
    return fnmatch.fnmatchcase(posixpath.basename(path), EVENT_FILES) and not path.endswith(".profile-empty")


def is_of_writer_around(files: RunFiles, path: str) -> bool:
    """Return whether a folder in a run, at this path in it, was made by the run's own writer of event files.

    ``SummaryWriter.add_scalars`` makes one for each number, with the tag in the name, and ``add_hparams`` another one.
    """
    if not all(map(is_event_file, files.infos)) or not _is_tensorboard_there():
        return False
    values = [value for own in files.infos for event in _first_events(files, own) for value in event.summary.value]
    tags = {value.tag for value in values}
    if any(tag.startswith(_HPARAMS) for tag in tags):
        return path.replace(".", "", 1).isdecimal()  # its time
    return bool(tags) and all(path.startswith((f"{tag.replace('/', '_')}_", f"{tag}/")) for tag in tags)


def _is_tensorboard_there() -> bool:
    spec = importlib.util.find_spec("tensorboard")
    return spec is not None and spec.origin is not None  # a folder of logs may have this name


def _joined(files: RunFiles, paths: Sequence[str]) -> dict[tuple[str, str], Series]:
    """Return the numbers of all files by the part of the run and the tag."""
    found: dict[tuple[str, str], list[Series]] = {}
    for path, part in by_part(paths):  # a name begins with the time
        try:
            tags = cached(files, path, functools.partial(_read, files, path))
        except OSError as error:
            warn_passed_over(files.full(path), error_text(error))
            continue
        for tag, series in tags.items():
            found.setdefault((part, tag), []).append(series)
    return _over_frames(
        {key: _without_repeats(Series(*map(np.concatenate, zip(*parts, strict=True)))) for key, parts in found.items()}
    )


def _over_frames(found: dict[tuple[str, str], Series]) -> dict[tuple[str, str], Series]:
    """Return numbers with one unit of steps: rl_games logs ``Episode/...`` over epochs, and these over frames."""
    for (part, tag), series in found.items():
        epochs = found.get((part, _EPOCHS))
        if epochs is not None and tag.startswith(_OVER_EPOCHS):
            frames = np.interp(series.steps, epochs.values, epochs.steps, np.nan, np.nan)
            kept = np.isfinite(frames)
            found[part, tag] = Series(frames[kept], series.values[kept], series.times[kept])
    return found


def _without_repeats(series: Series) -> Series:
    """Leave out what a run that went back to an earlier step has logged again.

    >>> _without_repeats(Series(np.array([1.0, 2.0, 2.0, 3.0, 2.0]), np.arange(5.0), np.arange(5.0))).values.tolist()
    [0.0, 4.0]
    """
    steps = series.steps
    back = np.append(np.where(np.diff(steps) < 0, steps[1:], np.inf), np.inf)  # the step after each, if it is earlier
    kept = steps < np.minimum.accumulate(back[::-1])[::-1]
    return Series(*(column[kept] for column in series))


def _read(files: RunFiles, path: str) -> dict[str, Series]:
    """Return the scalars of a file by tag. Raises OSError."""
    found: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
    broken = 0
    with open_file(files.filesystem, files.full(path)) as file:
        for event in _events(io.BufferedReader(file, 2**20)):
            broken += event is None
            for value in () if event is None else event.summary.value:
                number = value.simple_value if value.HasField("simple_value") else _number(value)
                if number is not None:
                    found[value.tag].extend((event.step, number, event.wall_time))
    if broken:
        warn_passed_over(files.full(path), f"{counted(broken, 'event')} that cannot be read")
    return {tag: Series(*np.array(rows).reshape(-1, 3).T) for tag, rows in found.items()}


def _hyperparameters(files: RunFiles, path: str) -> dict[str, Any]:
    """Return the table of text that CleanRL writes first, or the hyperparameters of TensorBoard's own page of them."""
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    for event in _first_events(files, path):
        for value in event.summary.value:
            if value.tag == _TABLE and value.tensor.string_val:
                text = value.tensor.string_val[0].decode()
                return {name.strip(): literal(cell.strip()) for name, cell in _ROW.findall(text)[_HEADS:]}
            if value.tag == _SESSION:
                session = HParamsPluginData.FromString(value.metadata.plugin_data.content).session_start_info
                return {name: getattr(own, own.WhichOneof("kind")) for name, own in session.hparams.items()}
    return {}


def _first_events(files: RunFiles, path: str) -> Iterator[Any]:
    """Yield the events at the beginning of a file; none if it cannot be read, which reading its scalars tells."""
    with contextlib.suppress(OSError), open_file(files.filesystem, files.full(path)) as file:
        yield from filter(None, _events(io.BytesIO(file.read(_FIRST_BYTES))))


def _events(file: io.BufferedIOBase) -> Iterator[Any]:
    """Yield the events of a file, None for one that is damaged; the end may be half written, or cut off.

    TensorBoard's own loader also reads pictures, whose checksums it computes in Python: minutes for a file of videos.
    """
    from tensorboard.compat.proto.event_pb2 import Event

    while len(head := file.read(_HEAD)) == _HEAD:
        length, check = struct.unpack("<QI", head)
        if check != _masked(head[:8]):
            yield None
            return  # nobody knows where the next event begins
        if length > _MOST_EVENT:
            file.seek(length + 4, io.SEEK_CUR)
            continue
        record, end = file.read(length), file.read(4)
        if len(end) < 4:
            return
        try:
            yield Event.FromString(record) if struct.unpack("<I", end)[0] == _masked(record) else None
        except Exception:  # its class depends on the release of protobuf
            yield None


def _masked(content: bytes) -> int:
    check = crc32c(content)
    return ((check >> 15 | check << 17) + _MASK) & 0xFFFFFFFF


def _number(value: Any) -> float | None:
    """Return the number of a summary that has it as a tensor; None of anything else."""
    tensor = value.tensor
    if tensor.dtype not in _DTYPES or value.metadata.plugin_data.plugin_name not in _SCALARS:
        return None
    name, kind = _DTYPES[tensor.dtype]
    numbers = getattr(tensor, name)
    if tensor.tensor_content and len(tensor.tensor_content) % np.dtype(kind).itemsize == 0:
        numbers = np.frombuffer(tensor.tensor_content, kind)
    return float(numbers[0]) if len(numbers) == 1 else None
