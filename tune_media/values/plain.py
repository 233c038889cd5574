"""Writes values as plain data, and reads them back: what waits on the driver's disk, and tapes, hold no pickles.

Plain data is None, booleans, numbers, text, bytes, lists, tuples, dicts, NumPy arrays (as raw bytes with their dtype),
and our own media of the kinds that are values: clips, images, histograms, artifacts, and episodes. On tapes it is also
sets and NumPy's numbers. It is msgpack with a few extensions. A result of 200 numbers takes about a tenth of the time
that JSON takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgpack import ExtType

try:  # the classes themselves: msgpack_numpy.patch() and RLlib put others, with fewer arguments, into the package
    from msgpack._cmsgpack import Packer, unpackb
except ImportError:  # a Python without the compiled module
    from msgpack.fallback import Packer, unpackb

from tune_media.values.artifact import Artifact
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series, Trajectory
from tune_media.values.file_medium import FileMedium
from tune_media.values.foreign import MAX_LEVELS, as_builtin, is_a, of_type, opened
from tune_media.values.histogram import Histogram
from tune_media.values.image import Image
from tune_media.values.video import Video

MEDIA = frozenset({Artifact, EpisodeBatch, FileMedium, Histogram, Image, Video})
"""The media that are plain data as they are; others have to be made into one of these first."""

_CLASSES = {kind.__name__: kind for kind in (*MEDIA, EpisodeRecord, EpisodeData, Series, Trajectory)}
_NAMES: dict[type, str] = {kind: name for name, kind in _CLASSES.items()}
_TUPLE, _ARRAY, _OBJECT, _LARGE_NUMBER, _SET, _FROZEN_SET, _NUMBER = 1, 2, 3, 4, 5, 6, 7
_BUFFER = 4096  # bytes at first; msgpack's default of 256 kB takes 80 us for each extension
_TOO_DEEP = f"plain data with more than {MAX_LEVELS} tuples or objects inside each other"


def pack(value: Any) -> bytes:
    """Write a value as plain data. Raises TypeError or ValueError."""
    return _packed(value, _extended)


def pack_exactly(value: Any) -> bytes:
    """Write a value as plain data that has the same types when it is read: also sets, and NumPy's numbers as such.

    Only instances of subclasses of dict become dicts. Equal values have equal bytes in every process.
    """
    return _packed(value, _exactly)


def unpack(data: bytes | memoryview) -> Any:
    """Read what ``pack``, ``pack_exactly`` or ``pack_each`` wrote. Raises ValueError."""
    return _unpacked(data)


def pack_each(values: Mapping[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Write a flat dict as plain data, tuples as lists; return its bytes, and the values that are no plain data."""
    try:
        return _pack_loosely(values), {}
    except Exception:  # a mapping of a user's class may raise anything
        pass
    kept, rest = {}, {}
    for name, value in values.items():
        if is_a(value, int) and not is_a(value, bool):
            kept[name] = number if abs(number := as_builtin(value)) < 2**63 else float(number)
            continue
        try:
            _pack_loosely(value)
        except Exception:
            rest[name] = value
        else:
            kept[name] = value
    return _pack_loosely(kept), rest


def _pack_loosely(value: Any) -> bytes:
    """Write a value as plain data, in which tuples become lists: ten times faster for numbers of NumPy."""
    return _packed(value, _extended_loosely, is_strict=False)


def _packed(value: Any, extended: Callable[[Any, int], Any], level: int = 0, *, is_strict: bool = True) -> bytes:
    def of_inside(inside: Any) -> Any:
        if level >= MAX_LEVELS:  # each takes 50 kB of the C stack when it is read
            raise ValueError(_TOO_DEEP)
        return extended(inside, level + 1)

    how = {"strict_types": is_strict, "unicode_errors": "surrogatepass", "buf_size": _BUFFER}
    packed: bytes = Packer(default=of_inside, **how).pack(value)
    return packed


def _extended_loosely(value: Any, level: int) -> Any:
    if is_a(value, int):
        raise OverflowError("a whole number of more than 64 bits")
    return _extended(value, level)


def _extended(value: Any, level: int) -> Any:
    if type(value) in _NAMES:
        fields = {name: field for name, field in vars(value).items() if not name.startswith("_")}
        return ExtType(_OBJECT, _packed([_NAMES[type(value)], fields], _extended, level))
    if is_a(value, tuple):
        return ExtType(_TUPLE, _packed(list(value), _extended, level))
    if is_a(value, np.ndarray):
        return ExtType(_ARRAY, _packed_array(value))
    own = as_builtin(value)
    if type(own) is int and not -(2**63) <= own < 2**64:
        return ExtType(_LARGE_NUMBER, own.to_bytes(own.bit_length() // 8 + 1, "big", signed=True))
    if type(own) is not type(value):
        return own
    if is_a(value, bytes):  # of a subclass, as what follows
        return bytes(value)
    if is_a(value, (list, Mapping)):
        return (list if is_a(value, list) else dict)(opened(value, ()))
    raise TypeError(f"{of_type(value)} is no plain data")


def _exactly(value: Any, level: int) -> Any:
    kind = type(value)
    if kind is tuple:
        return ExtType(_TUPLE, _packed(list(value), _exactly, level))
    if kind is set or kind is frozenset:
        items = sorted(_packed(item, _exactly, level) for item in value)
        return ExtType(_SET if kind is set else _FROZEN_SET, pack(items))
    if kind is np.ndarray or isinstance(value, np.generic):
        return ExtType(_ARRAY if kind is np.ndarray else _NUMBER, _packed_array(np.asarray(value)))
    if kind is int:
        return _extended(value, level)
    if isinstance(value, dict):
        return dict(value)
    raise TypeError(f"{of_type(value)} is no plain data")


def _packed_array(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype.hasobject or array.dtype.names is not None:
        raise TypeError(f"an array of type {array.dtype} is no plain data")
    return pack([array.dtype.str, list(array.shape), np.ascontiguousarray(array).reshape(-1).view(np.uint8).data])


def _unpacked(data: bytes | memoryview, level: int = 0) -> Any:
    if level > MAX_LEVELS:
        raise ValueError(_TOO_DEEP)
    how = {"strict_map_key": False, "unicode_errors": "surrogatepass"}
    return unpackb(data, ext_hook=lambda code, inside: _read(code, inside, level + 1), **how)


def _read(code: int, data: bytes, level: int) -> Any:
    if code == _TUPLE:
        return tuple(_unpacked(data, level))
    if code in (_ARRAY, _NUMBER):
        dtype, shape, content = _unpacked(data, level)
        array = np.frombuffer(bytearray(content), np.dtype(dtype)).reshape(shape)
        return array if code == _ARRAY else array[()]
    if code == _OBJECT:
        name, fields = _unpacked(data, level)
        made: Any = object.__new__(_CLASSES[name])
        made.__dict__.update(fields)
        return made
    if code in (_SET, _FROZEN_SET):
        return (set if code == _SET else frozenset)(_unpacked(item, level) for item in _unpacked(data, level))
    if code == _LARGE_NUMBER:
        return int.from_bytes(data, "big", signed=True)
    raise ValueError(f"an extension of an unknown kind: {code}")
