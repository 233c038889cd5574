"""Folders of clips that no index lists, as other recorders leave them: what the names of the files say.

Gymnasium's ``RecordVideo`` writes ``<prefix>-episode-<n>.mp4`` and ``<prefix>-step-<n>.mp4``, Stable-Baselines3's
``VecVideoRecorder`` ``<prefix>-step-<n>-to-step-<m>.mp4``, and ``RecordEpisodes`` names that begin like these. Isaac
Lab has Gymnasium's in ``videos/train`` and ``videos/play`` of a run's folder. All other files are left alone.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import re
from dataclasses import replace

import pyarrow.fs

from tune_media.storage.entry import STORED
from tune_media.storage.filesystem import local_path
from tune_media.storage.index_lines import INDEX_VERSION, Line, MediumLine
from tune_media.values.safe_names import name_digest
from tune_media.values.secrets import error_text
from tune_media.values.sections import EVALUATION, TRAIN
from tune_media.values.video import Video

KEY = "clips"
"""The key of all clips of a folder, whatever their names begin with: runs beside each other have different prefixes."""

_INNER = "videos"
RUNS = (f"{_INNER}/{TRAIN}", f"{_INNER}/play")
"""The folders in a run's folder that have its clips, too, as Isaac Lab makes them."""
_CLIP = re.compile(
    r"(?P<prefix>[^/]*?)(?:-env-(?P<env>\d+))?"
    r"-(?:episode-(?P<episode>\d{1,15})|step-(?P<step>\d{1,15})(?:-to-step-\d+)?)(?:-[^/]+)?\.mp4"
)
_PLACED = re.compile(rf"(?:(?:{'|'.join(RUNS)})/)?{_CLIP.pattern}")
_EVALUATES = re.compile(r"(eval|evaluation|test|val|validation|play)(?![A-Za-z])", re.IGNORECASE)
_TUNES = ("tuner.pkl", "params.pkl", "result.json", "experiment_state-", ".tune_media")


def section_of(name: str) -> str:
    """Return the section of the clips whose names begin so.

    >>> section_of("rl-video"), section_of("eval"), section_of("test_hard"), section_of("evaluate-this")
    ('train', 'evaluation', 'evaluation', 'train')
    """
    return EVALUATION if _EVALUATES.match(name) else TRAIN


def is_clip_name(path: str) -> bool:
    """Return whether a path in a folder is one that a recorder gives to a clip.

    >>> is_clip_name("rl-video-episode-0.mp4"), is_clip_name("videos/train/rl-video-step-2000.mp4")
    (True, True)
    >>> is_clip_name("holiday.mp4"), is_clip_name("private/rl-video-episode-0.mp4")
    (False, False)
    """
    return _PLACED.fullmatch(path) is not None


def bare_clips(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[MediumLine]:
    """Return an index line for each clip in a folder without an index, of what its name and its header say.

    Its step is the number in its name, of an episode or a step. Its return, length and seed are not known.
    Headers are read on this machine only: elsewhere each would take several requests. A folder of Tune's has no bare
    clips: files beside Tune's are no trial's.

    Raises:
        OSError: The filesystem does not answer.
    """
    lines = []
    for path, info in _files(filesystem, folder).items():
        here = local_path(filesystem, posixpath.join(folder, path))
        header = _header(here, info.size, info.mtime_ns) if here is not None else {}
        lines.append(_line(path, info, header))
    ordered = sorted(lines, key=lambda line: (line.facts["step"], line.path))
    return [replace(line, row=row) for row, line in enumerate(ordered, 1)]


def bare_version(filesystem: pyarrow.fs.FileSystem, folder: str) -> tuple[int, int] | None:
    """Return the size of all clips of ``bare_clips``, and when the last was written, in ns; None if there are none."""
    files = _files(filesystem, folder).values()
    return (sum(info.size or 0 for info in files), max(info.mtime_ns or 0 for info in files)) if files else None


def _files(filesystem: pyarrow.fs.FileSystem, folder: str) -> dict[str, pyarrow.fs.FileInfo]:
    here = _listed(filesystem, folder)
    if any(name.startswith(_TUNES) for name in here):
        return {}
    files = dict(here)
    for run in RUNS if _INNER in here else ():
        inner = _listed(filesystem, posixpath.join(folder, run))
        files |= {posixpath.join(run, name): info for name, info in inner.items()}
    return {path: info for path, info in files.items() if info.is_file and is_clip_name(path)}


def _listed(filesystem: pyarrow.fs.FileSystem, folder: str) -> dict[str, pyarrow.fs.FileInfo]:
    named = {}
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True)):
        with contextlib.suppress(UnicodeDecodeError):  # a name that is no text is no recorder's
            named[str(info.base_name)] = info
    return named


@functools.lru_cache(maxsize=10_000)
def _header(path: str, size: int, written: int) -> Line:
    """Return the size and speed of a clip; what can be said of one that cannot be read, or not yet."""
    from tune_media.encoding.decode import header_of  # it loads PyAV, which reading an index does not need

    try:
        return dict(header_of(path))
    except (ValueError, OSError) as error:
        return {"note": error_text(error)}


def _line(path: str, info: pyarrow.fs.FileInfo, header: Line) -> MediumLine:
    folder, name = posixpath.split(path)
    parts = _CLIP.fullmatch(name)
    assert parts is not None
    facts: Line = {
        **header,
        "v": INDEX_VERSION,
        "kind": Video.kind,
        "step": int(parts["episode"] or parts["step"]),
        "time": (info.mtime_ns or 0) / 1e9,
        "bytes": info.size or 0,
        "format": "mp4",
    }
    if parts["env"] is not None:
        facts["env_index"] = int(parts["env"])
    section = section_of(posixpath.basename(folder) or parts["prefix"])
    return MediumLine(id=name_digest(path), section=section, key=KEY, path=path, row=0, status=STORED, facts=facts)
