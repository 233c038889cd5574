"""The one gate that every deletion in a trial's folder passes: only files that tune_media made are deleted.

The index of a trial is a text file that anybody can change, and folders can be links. So the index is not trusted to
say which files may go.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from pathlib import Path

import pyarrow.fs

from tune_media.storage.filesystem import PARTIAL, local_path
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.names import FILE_NAME

_PART = r"[^/.][^/]*/"  # a folder of a key: never empty, never hidden
_MEDIUM = re.compile(rf"media/{_PART}(?:{_PART})+{FILE_NAME.pattern}")
_PARTIAL = re.compile(rf"(\.[0-9a-f]{{8}})?{re.escape(PARTIAL)}\Z")
_HALF_RUN = re.compile(rf"wandb/(offline-)?run-{_PART}.+\.[0-9a-f]{{8}}{re.escape(PARTIAL)}")
_EPISODES = re.compile(r"episode_data/(data-\d{8,}(-\w+)?\.(json|parquet)|steps-\d{8,}(-\w+)?\.parquet)")


def is_medium_name(path: str) -> bool:
    """Return whether tune_media gives a medium such a path, relative to its trial's folder.

    Example:
        >>> is_medium_name("media/train/clip/step_000000001-0123456789ab.mp4"), is_medium_name("media/x/thesis.txt")
        (True, False)
    """
    return _MEDIUM.fullmatch(path) is not None


def is_own(path: str) -> bool:
    """Return whether a path is of a medium, of episode data, or of a half-written file of ours, W&B's runs included.

    Example:
        >>> is_own("media/index.jsonl.0a1b2c3d.partial"), is_own("media/index.jsonl"), is_own("result.json")
        (True, False, False)
    """
    whole = _PARTIAL.sub("", path)
    is_half = whole != path and (whole == INDEX_PATH or _HALF_RUN.fullmatch(path) is not None)
    return is_half or is_medium_name(whole) or _EPISODES.fullmatch(whole) is not None


def is_deletable(filesystem: pyarrow.fs.FileSystem, folder: str, path: str) -> bool:
    """Return whether a file may be deleted: it has a name of ours, and on a local disk no link leads to it.

    Args:
        filesystem: Any pyarrow filesystem. Only on those of this machine are there links.
        folder: The trial's folder on it. The folders above it may be links; the folder itself may not be.
        path: The file, relative to the trial's folder.

    Example:
        >>> is_deletable(pyarrow.fs.LocalFileSystem(), "/results/trial", "checkpoint_000001/model.pt")
        False
    """
    if not is_own(path):
        return False
    place = local_path(filesystem, folder)
    if place is None:
        return True
    trial = Path(place)
    expected = trial.parent.resolve() / trial.name / path
    return expected.resolve() == expected


def delete_own(filesystem: pyarrow.fs.FileSystem, folder: str, path: str) -> bool:
    """Delete a file if it may be deleted; a file that is gone already is no error.

    Args:
        filesystem: Any pyarrow filesystem.
        folder: The trial's folder on it.
        path: The file, relative to the trial's folder.

    Returns:
        Whether the file may be deleted, and is gone now.

    Raises:
        OSError: The storage does not answer, or does not let go of the file.
    """
    if not is_deletable(filesystem, folder, path):
        return False
    with contextlib.suppress(FileNotFoundError):
        filesystem.delete_file(posixpath.join(folder, path))
    return True
