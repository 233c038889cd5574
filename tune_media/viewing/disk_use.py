"""How much the folders of trials take on the storage, by what is in them."""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs

from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.filesystem import is_local
from tune_media.viewing.front_end import SHOWN
from tune_media.viewing.gallery import human_size

_THREADS = 16
_CLIPS, _EPISODES, _CHECKPOINTS, _OTHERS = "clips", "episode data", "checkpoints", "other files"


def disk_use(trials: Sequence[TrialFiles]) -> str:
    """Return the size of the trials' folders as people read it, with that of each kind of files, the largest first.

    All files are listed, on an object store with some requests a trial; links are not followed. Raises OSError.
    """
    folders = {trial.path: trial.filesystem for trial in trials} | {
        trial.media_path: trial.place[0] for trial in trials
    }
    with ThreadPoolExecutor(_THREADS) as pool:
        sizes = dict(itertools.chain.from_iterable(pool.map(_sizes_in, folders.values(), folders)))
    kinds: Counter[str] = Counter()
    for path, size in sizes.items():
        kinds[_kind_of(path)] += size
    parts = ", ".join(f"{kind} {human_size(size)}" for kind, size in kinds.most_common())
    return f"{human_size(sum(sizes.values()))}{parts and f': {parts}'}"


def _sizes_in(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[tuple[str, int]]:
    """Return the path and the size of each file in a folder, and in those below."""
    if not is_local(filesystem):
        infos = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True))
        return [(info.path, info.size or 0) for info in infos if info.is_file]
    sizes = []
    for inner, _, names in os.walk(folder):  # pyarrow follows links, also to a folder above
        for path in (f"{inner}/{name}" for name in names):
            with contextlib.suppress(OSError):  # it was deleted meanwhile
                sizes.append((path, os.lstat(path).st_size))
    return sizes


def _kind_of(path: str) -> str:
    """Return what a file is.

    >>> [_kind_of(f"trial/{path}") for path in ("checkpoint_1/x", "media/a/b.mp4", "episode_data/x", "result.json")]
    ['checkpoints', 'clips', 'episode data', 'other files']
    """
    folders = path.split("/")[:-1]
    if any(name.startswith("checkpoint_") for name in folders):
        return _CHECKPOINTS
    if "episode_data" in folders:
        return _EPISODES
    return _CLIPS if "media" in folders or posixpath.splitext(path)[1].lower() in SHOWN else _OTHERS
