"""Finds the files of runs: a run's folder, and the folders in it that are its parts."""

from __future__ import annotations

import contextlib
import posixpath

import pyarrow.fs

from tune_media.foreign.run_files import RunFiles
from tune_media.storage.clip_names import is_clip_name, is_part
from tune_media.values.sections import TRAIN

_TUNES = ("tuner.pkl", "params.pkl", "result.json", "experiment_state-", ".tune_media")
_INNER = frozenset((".hydra", "params", "scalars"))  # folders of a run that hold no clips
_CLIPS = ("", f"videos/{TRAIN}", "videos/play")
_DEEPEST = 6


def files_of(filesystem: pyarrow.fs.FileSystem, folder: str) -> RunFiles:
    """Return the files of a run's folder and of its parts; none of a folder that Tune writes to. Raises OSError."""
    infos: dict[str, pyarrow.fs.FileInfo] = {}
    level = [""]
    for _ in range(_DEEPEST):
        inner = []
        for part in level:
            for name, info in _listed(filesystem, posixpath.join(folder, part)).items():
                if not part and name.startswith(_TUNES):
                    return RunFiles(filesystem, folder, {})
                path = posixpath.join(part, name)
                if info.is_file and (part in _CLIPS or not is_clip_name(path)):
                    infos[path] = info
                elif info.type == pyarrow.fs.FileType.Directory and (is_part(path) or name in _INNER):
                    inner.append(path)
        level = inner
    return RunFiles(filesystem, folder, infos)


def _listed(filesystem: pyarrow.fs.FileSystem, folder: str) -> dict[str, pyarrow.fs.FileInfo]:
    named = {}
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector(folder.rstrip("/"), allow_not_found=True)):
        with contextlib.suppress(UnicodeDecodeError):  # a name that is no text is no tool's
            named[str(info.base_name)] = info
    return named
