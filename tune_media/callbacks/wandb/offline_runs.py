"""The files of W&B runs: whether an offline run is whole, which ``finish()`` does not tell, and copying them.

With wandb 0.31, ``finish()`` returns up to 0.1 s before the last of its records are in the file. A file that is copied
in that moment ends at a multiple of 32 KiB: its last rows, media and the exit record are missing.
"""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs

from tune_media.callbacks.wandb import private_names
from tune_media.storage.filesystem import write_atomically, write_once
from tune_media.storage.location import TrialLocation

OFFLINE = "offline-run-"
"""The start of the name of an offline run's folder."""

_BLOCK, _HEADER, _FILE_HEADER = 32768, 7, 7  # a LevelDB log with a header of its own
_WHOLE, _FIRST, _LAST = 1, 2, 4  # which part of a record a fragment is
_BLOCKS_TO_READ = 2  # the exit record is short, and one of the last
_POLL_SECONDS = 0.01


def is_whole(file: Path) -> bool:
    """Return whether the file of a run has the exit record, which W&B writes last.

    Args:
        file: A ``.wandb`` file.
    """
    blocks = (file.stat().st_size - 1) // _BLOCK + 1
    start = max(0, blocks - _BLOCKS_TO_READ) * _BLOCK
    with file.open("rb") as opened:
        opened.seek(start)
        data = opened.read()
    records = _records(data, _FILE_HEADER if start == 0 else 0)
    return any(private_names.record_kind(record) == "exit" for record in records)


def _records(data: bytes, at: int) -> Iterator[bytes]:
    """Yield the records that begin and end in some blocks of a file."""
    parts: bytes | None = None  # of a record that has begun
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + _HEADER])
        part = data[at + _HEADER : at + _HEADER + length]
        at += _HEADER + length
        if kind in (_WHOLE, _FIRST):
            parts = b""
        if parts is None or len(part) < length:
            continue
        parts += part
        if kind in (_WHOLE, _LAST):
            yield parts
            parts = None


def wait_until_whole(run_folder: Path, seconds: float) -> bool:
    """Wait until the files of a run that has finished are whole; return whether they are.

    Args:
        run_folder: The folder of the run, ``offline-run-<time>-<id>``.
        seconds: How long to wait at most.
    """
    deadline = time.monotonic() + seconds
    while not all(is_whole(file) for file in run_folder.glob("*.wandb")):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def replace_runs(run: Path, folder: Path, run_id: str) -> Path:
    """Put a whole offline run in the place of all others with its id; return its new path.

    One rename shows the run. Only then the others are removed, so that a kill in between loses nothing; a run that is
    put there later removes them.

    Args:
        run: The folder of the whole run, on the same disk.
        folder: The folder for offline runs.
        run_id: The id of the run.

    Raises:
        OSError: The disk does not take it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    others = list(folder.glob(f"{OFFLINE}*-{run_id}"))
    target, number = folder / run.name, 0
    while target.exists():  # within the same second
        number += 1
        target = folder / f"{run.name.removesuffix(f'-{run_id}')}_{number}-{run_id}"
    run.rename(target)
    for other in others:
        shutil.rmtree(other, ignore_errors=True)
    return target


def copy_runs(folder: Path, location: TrialLocation, *, unsent: bool, replaces: bool = False) -> None:
    """Move a trial's runs to its folder on the storage; they are deleted when the storage has all of them.

    Args:
        folder: Where W&B keeps the trial's files.
        location: The trial's folders.
        unsent: Copy online runs, too, because W&B may not have all of them.
        replaces: Have a run take the place, and the name, of the last one with its id that the storage has.

    Raises:
        OSError: The storage does not take a file, or has another size for it.
    """
    for run in sorted(folder.glob("wandb/*run-*")):
        if run.is_symlink() or not (unsent or run.name.startswith(OFFLINE)):
            continue
        name = (_former_name(run, location) if replaces else None) or run.name
        for file in sorted(path for path in run.rglob("*") if path.is_file()):  # the rows come last
            target, content = f"{location.path}/wandb/{name}/{file.relative_to(run).as_posix()}", file.read_bytes()
            (write_atomically if replaces else write_once)(location.filesystem, target, content)
            size, now = location.filesystem.get_file_info(target).size, file.stat().st_size
            is_log = file.parent.name == "logs"  # W&B's own process goes on writing there
            if size != len(content) or (size != now and not is_log):
                raise OSError(f"{target} has {size} bytes on the storage, and {file} has {now}")
    shutil.rmtree(folder, ignore_errors=True)


def _former_name(run: Path, location: TrialLocation) -> str | None:
    """Return the name of the last offline run that the storage has of the same id."""
    folder = pyarrow.fs.FileSelector(location.on_storage("wandb"), allow_not_found=True)
    names = [info.base_name for info in location.filesystem.get_file_info(folder)]
    ending = run.name.removeprefix(OFFLINE).partition("-")[1:]
    return max((name for name in names if name.startswith(OFFLINE) and name.endswith("".join(ending))), default=None)
