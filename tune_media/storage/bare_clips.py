"""Folders of clips that no index lists, as other recorders leave them: what the names of the files say.

Gymnasium's ``RecordVideo`` writes ``<prefix>-episode-<n>.mp4`` and ``<prefix>-step-<n>.mp4``, Stable-Baselines3's
``VecVideoRecorder`` ``<prefix>-step-<n>-to-step-<m>.mp4``, and ``RecordEpisodes`` names that begin like these: only
these numbers are steps. Isaac Lab has Gymnasium's in ``videos/train`` and ``videos/play`` of a run's folder. Clips with
other names have no step, unless a table beside them has it.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import re
from dataclasses import replace

import pyarrow.fs

from tune_media.storage.clip_tables import MOST_BYTES, SUFFIXES, ClipTables
from tune_media.storage.entry import STORED
from tune_media.storage.filesystem import local_path, read_if_there
from tune_media.storage.index_lines import INDEX_VERSION, Line, MediumLine
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.clip_columns import Columns
from tune_media.values.safe_names import name_digest
from tune_media.values.secrets import error_text
from tune_media.values.sections import EVALUATION, TRAIN
from tune_media.values.video import Video

KEY = "clips"
"""The key of all clips of a folder, whatever their names begin with: runs beside each other have different prefixes."""

RUNS = (f"videos/{TRAIN}", "videos/play")
"""The folders in a run's folder that have its clips, too, as Isaac Lab makes them."""
_RECORDERS = re.compile(
    r"(?P<prefix>[^/]*?)(?:-env-(?P<env>\d+))?"
    r"-(?:episode-(?P<episode>\d{1,15})|step-(?P<step>\d{1,15})(?:-to-step-\d+)?)(?:-[^/]+)?\.mp4"
)
_PLACED = re.compile(rf"(?:(?:{'|'.join(RUNS)})/)?[^/.][^/]*\.(?:mp4|webm|gif)", re.IGNORECASE)
_EVALUATES = re.compile(r"(eval|evaluation|test|val|validation|play)(?![A-Za-z])", re.IGNORECASE)
_TUNES = ("tuner.pkl", "params.pkl", "result.json", "experiment_state-", ".tune_media")


def section_of(name: str) -> str:
    """Return the section of the clips whose names begin so.

    >>> section_of("rl-video"), section_of("eval"), section_of("test_hard"), section_of("evaluate-this")
    ('train', 'evaluation', 'evaluation', 'train')
    """
    return EVALUATION if _EVALUATES.match(name) else TRAIN


def is_clip_name(path: str) -> bool:
    """Return whether a path in a folder is one that a clip without an index may have.

    >>> is_clip_name("rl-video-episode-0.mp4"), is_clip_name("videos/train/a.webm"), is_clip_name("b.gif")
    (True, True, True)
    >>> is_clip_name("holiday.avi"), is_clip_name("private/rl-video-episode-0.mp4"), is_clip_name(".a.mp4")
    (False, False, False)
    """
    return _PLACED.fullmatch(path) is not None


def is_recorders_name(path: str) -> bool:
    """Return whether a known recorder gave a clip its name.

    >>> is_recorders_name("videos/train/rl-video-step-2000.mp4"), is_recorders_name("eval_episode_0.mp4")
    (True, False)
    """
    return _RECORDERS.fullmatch(posixpath.basename(path)) is not None


def bare_clips(
    filesystem: pyarrow.fs.FileSystem, folder: str, columns: Columns | None = None
) -> tuple[list[MediumLine], frozenset[str]]:
    """Return an index line for each clip in a folder without an index, in the natural order of their names.

    And the columns of the tables beside them.

    Facts are from its name, its header, and the tables beside it. A number in a name is a step only if a known recorder
    gave the name. Headers are read on this machine only: elsewhere each would take several requests. A folder of Tune's
    has no bare clips: files beside Tune's are no trial's. Raises OSError.
    """
    files = _files(filesystem, folder)
    clips = {path: info for path, info in files.items() if is_clip_name(path)}
    tables = ClipTables(folder, clips, columns)
    for path, info in files.items():
        if path not in clips and (info.size or 0) <= MOST_BYTES:
            try:
                tables.add(path, read_if_there(filesystem, posixpath.join(folder, path)) or b"")
            except (ValueError, RecursionError) as error:
                warn_passed_over(posixpath.join(folder, path), error_text(error))
    lines = []
    for path, info in clips.items():
        here = local_path(filesystem, posixpath.join(folder, path))
        header = _header(here, info.size, info.mtime_ns) if here is not None else {}
        lines.append(_line(path, info, header, *tables.facts(path)))
    ordered = sorted(lines, key=lambda line: (line.facts.get("step", 0), _natural(line.path)))
    return [replace(line, row=row) for row, line in enumerate(ordered, 1)], frozenset(tables.names)


def _natural(path: str) -> list[str | int]:
    """Return a key that orders a2 before a10: texts and numbers take turns."""
    return [int(part) if number % 2 else part for number, part in enumerate(re.split(r"(\d+)", path))]


def bare_version(filesystem: pyarrow.fs.FileSystem, folder: str) -> tuple[int, int] | None:
    """Return the size of all files of ``bare_clips``, and when the last was written, in ns; None without a clip."""
    files = _files(filesystem, folder).values()
    return (sum(info.size or 0 for info in files), max(info.mtime_ns or 0 for info in files)) if files else None


def _files(filesystem: pyarrow.fs.FileSystem, folder: str) -> dict[str, pyarrow.fs.FileInfo]:
    here = _listed(filesystem, folder)
    if any(name.startswith(_TUNES) for name in here):
        return {}
    files = dict(here)
    for run in RUNS if "videos" in here else ():
        inner = _listed(filesystem, posixpath.join(folder, run))
        files |= {posixpath.join(run, name): info for name, info in inner.items()}
    clips = {path: info for path, info in files.items() if info.is_file and is_clip_name(path)}
    tables = {path: info for path, info in files.items() if info.is_file and path.lower().endswith(SUFFIXES)}
    return clips | tables if clips else {}


def _listed(filesystem: pyarrow.fs.FileSystem, folder: str) -> dict[str, pyarrow.fs.FileInfo]:
    named = {}
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True)):
        with contextlib.suppress(UnicodeDecodeError):  # a name that is no text is no recorder's
            named[str(info.base_name)] = info
    return named


@functools.lru_cache(maxsize=10_000)
def _header(path: str, size: int, written: int) -> Line:
    """Return the size and speed of a clip, or a note why it cannot be read."""
    from tune_media.encoding.decode import header_of  # it loads PyAV, which reading an index does not need

    try:
        return dict(header_of(path))
    except (ValueError, OSError) as error:
        return {"note": error_text(error)}


def _line(path: str, info: pyarrow.fs.FileInfo, header: Line, told: Line, columns: str) -> MediumLine:
    folder, name = posixpath.split(path)
    stem, suffix = posixpath.splitext(name)
    kind = suffix[1:].lower()
    parts = _RECORDERS.fullmatch(name)
    numbers = {"step": parts["episode"] or parts["step"], "env_index": parts["env"]} if parts else {}
    facts: Line = {
        **header,
        "v": INDEX_VERSION,
        "kind": Video.kind,
        "time": (info.mtime_ns or 0) / 1e9,
        "bytes": info.size or 0,
        "format": kind,
        **{fact: int(number) for fact, number in numbers.items() if number is not None},
        **told,
    }
    notes = ["GIF: no time line, no sync" if kind == "gif" else "", header.get("note"), columns]
    if any(notes):
        facts["note"] = "; ".join(filter(None, notes))
    if columns:
        facts["columns"] = columns
    section = section_of(posixpath.basename(folder) or (stem if parts is None else parts["prefix"]))
    return MediumLine(id=name_digest(path), section=section, key=KEY, path=path, row=0, status=STORED, facts=facts)
