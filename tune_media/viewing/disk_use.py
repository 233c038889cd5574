"""How much the folders of trials take on the storage, by what is in them."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs

from tune_media.experiment.trial_files import TrialFiles
from tune_media.viewing.front_end import SHOWN
from tune_media.viewing.gallery import human_size

_THREADS = 16
_CLIPS, _EPISODES, _CHECKPOINTS, _OTHERS = "clips", "episode data", "checkpoints", "other files"


def disk_use(trials: Sequence[TrialFiles]) -> str:
    """Return the size of the trials' folders as people read it, with that of each kind of files, the largest first.

    All files are listed, on an object store with some requests a trial. Raises OSError.
    """
    folders = {trial.path: trial.filesystem for trial in trials} | {
        trial.media_path: trial.place[0] for trial in trials
    }
    with ThreadPoolExecutor(_THREADS) as pool:
        listed = pool.map(lambda place: place[1].get_file_info(_all_files(place[0])), folders.items())
        sizes = {info.path: info.size or 0 for infos in listed for info in infos if info.is_file}
    kinds: Counter[str] = Counter()
    for path, size in sizes.items():
        kinds[_kind_of(path)] += size
    parts = ", ".join(f"{kind} {human_size(size)}" for kind, size in kinds.most_common())
    return f"{human_size(sum(sizes.values()))}{parts and f': {parts}'}"


def _all_files(folder: str) -> pyarrow.fs.FileSelector:
    return pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True)


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
