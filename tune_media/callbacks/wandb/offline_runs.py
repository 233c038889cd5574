"""The files of W&B runs: whether an offline run is whole, which ``finish()`` does not tell, and copying them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pyarrow.fs

from tune_media.storage.filesystem import write_atomically
from tune_media.storage.location import TrialLocation

OFFLINE = "offline-run-"
"""The start of the name of an offline run's folder."""

_BLOCK, _FILE_HEADER = 32768, 7
_POLL_SECONDS = 0.01


def wait_until_whole(run_folder: Path, seconds: float) -> bool:
    """Wait until the files of a run that has finished are whole; return whether they are.

    With wandb 0.31, ``finish()`` returns up to 0.1 s before the last of its records are in the file. W&B's own process
    writes the file in blocks of 32 KiB, and at the end what is left: until then the file ends with a block, or has only
    its header of 7 bytes.
    """
    deadline = time.monotonic() + seconds
    while not all(file.stat().st_size % _BLOCK > _FILE_HEADER for file in run_folder.glob("*.wandb")):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def copy_runs(folder: Path, location: TrialLocation) -> None:
    """Move a trial's offline runs to its folder on the storage; they are deleted when the storage has all of them.

    A run takes the place, and the name, of the last one with its id that the storage has. Raises OSError if the storage
    does not take a file, or W&B's own process has gone on writing it.
    """
    for run in sorted(folder.glob(f"wandb/{OFFLINE}*")):
        place = f"{location.path}/wandb/{_former_name(run, location) or run.name}"
        for file in sorted(path for path in run.rglob("*") if path.is_file()):  # the rows come last
            content = file.read_bytes()
            write_atomically(location.filesystem, f"{place}/{file.relative_to(run).as_posix()}", content)
            now, is_log = file.stat().st_size, file.parent.name == "logs"  # to which W&B's own process still writes
            if now != len(content) and not is_log:
                raise OSError(f"{file} had {len(content)} bytes when it was copied, and has {now}")
    shutil.rmtree(folder, ignore_errors=True)


def _former_name(run: Path, location: TrialLocation) -> str | None:
    """Return the name of the last offline run that the storage has of the same id."""
    folder = pyarrow.fs.FileSelector(location.on_storage("wandb"), allow_not_found=True)
    names = [info.base_name for info in location.filesystem.get_file_info(folder)]
    id = run.name.removeprefix(OFFLINE).partition("-")[2]
    return max((name for name in names if name.startswith(OFFLINE) and name.endswith(f"-{id}")), default=None)
