"""Keeps the numbers of large files of scalars in the user's cache, so that they are parsed once."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tune_media.foreign.run_files import RunFiles
from tune_media.storage.filesystem import place_name, save_file

_WORTH = 256 * 1024  # bytes of a file: a smaller one is parsed as fast
_MOST_BYTES = 2**30  # of the cache; beyond it, the files that were written first are deleted
_FORM = 1  # of the files: another number if these hold something else
_Array: TypeAlias = npt.NDArray[np.float64]


class Series(NamedTuple):
    """The numbers under one tag, in the order in which they were written; a time is Unix time in seconds, or NaN."""

    steps: _Array
    values: _Array
    times: _Array


def cached(files: RunFiles, path: str, read: Callable[[], dict[str, Series]]) -> dict[str, Series]:
    """Return the numbers of a file by tag: as they were kept, unless its size or time has changed, else read anew.

    They are kept in ``XDG_CACHE_HOME/tune_media/curves`` (``~/.cache``), one file for each file, 1 GiB in all. If
    nothing can be written there, the file is read each time.
    """
    info = files.infos[path]
    if (info.size or 0) < _WORTH:
        return read()
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tune_media" / "curves"
    except RuntimeError:  # a container's user has no home
        return read()
    place = place_name(files.filesystem, files.full(path))
    key = json.dumps([_FORM, place, info.size, info.mtime_ns])
    kept = folder / f"{hashlib.blake2s(place.encode('utf-8', 'surrogatepass')).hexdigest()}.npz"
    with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return _unpacked(kept, key)
    series = read()
    with contextlib.suppress(OSError):
        _make_room(kept.parent)
        save_file(kept, _packed(series, key))
    return series


def _packed(series: Mapping[str, Series], key: str) -> bytes:
    columns = [np.concatenate([np.empty(0), *column]) for column in zip(*series.values(), strict=True)]
    tags, ends = json.dumps(list(series)), np.cumsum([len(one.steps) for one in series.values()])
    file = io.BytesIO()
    np.savez(file, np.array([key, tags]), ends, *columns)
    return file.getvalue()


def _unpacked(kept: Path, key: str) -> dict[str, Series]:
    """Return what ``_packed`` was given. Raises ValueError if the file has another key, and as NumPy for a bad one."""
    with np.load(kept, allow_pickle=False) as arrays:
        texts, ends, *columns = (arrays[name] for name in arrays.files)
    if texts[0] != key:
        raise ValueError("the file has changed")
    split = [np.split(column, ends[:-1]) for column in columns]
    return {tag: Series(*parts) for tag, *parts in zip(json.loads(str(texts[1])), *split, strict=True)}


@functools.cache  # once in a process
def _make_room(folder: Path) -> None:
    """Delete the oldest files beyond ``_MOST_BYTES``. Raises OSError."""
    if not folder.is_dir():
        return
    found = sorted(((path.stat(), path) for path in folder.glob("*.npz")), key=lambda file: -file[0].st_mtime)
    total = 0
    for stat, path in found:
        total += stat.st_size
        if total > _MOST_BYTES:
            path.unlink(missing_ok=True)
