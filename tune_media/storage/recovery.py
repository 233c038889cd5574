"""Files that the index does not list as stored: finding them, and listing them.

A killed driver wrote them and did not list them; or they came to the storage after they were listed as lost. Their
facts are put together from the file's own name (section, key, step, the first characters of the id), the Parquet row of
its episode (return, length, seed, metrics), ``result.json`` (the training iteration, whether the trial went back behind
it), and the file itself (size, frames, checksum).
"""

from __future__ import annotations

import contextlib
import logging
import posixpath
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.fs

from tune_media.storage.entry import DELETED, KEPT_ON_DRIVER, LOST, STORED
from tune_media.storage.episode_files import FOLDER, parquet_name, report_step
from tune_media.storage.filesystem import PARTIAL, is_local, read_if_there, write_atomically
from tune_media.storage.found_facts import EpisodeFacts, ResultMarks, facts_of_content, kind_of
from tune_media.storage.index_lines import INDEX_PATH, INDEX_VERSION, Line, changed_line, key_of, lines_of_trial
from tune_media.storage.index_table import IndexTable
from tune_media.storage.location import media_folder, path_of
from tune_media.storage.names import FILE_NAME
from tune_media.storage.own_files import delete_own
from tune_media.values.secrets import error_text
from tune_media.values.strict_json import json_bytes

logger = logging.getLogger("tune_media")

Files = dict[str, pyarrow.fs.FileInfo]

_MEDIA = "media"
_FOLDERS = (_MEDIA, FOLDER)
_PREFIXES = (f"{_MEDIA}/", f"{FOLDER}/")
_NOTE = "found on the storage: its driver was killed before it could be listed"
_RUNNING_SECONDS = 120.0  # a younger file may belong to a driver that runs and will list it


@dataclass(frozen=True)
class TrialContents:
    """The media that a trial's folder holds.

    Attributes:
        media_folder: The folder that the paths of the lines are relative to: the trial's own, unless that is its folder
            on the driver; then a path, or a URI. See ``tune_media.storage.location.media_folder``.
        lines: The valid lines of the index, and the lines of files that it does not list; as JSON and parsed.
        unlisted: How many files the index does not list.
        may_run: Whether a driver that runs may still list these files.
    """

    media_folder: str
    lines: Sequence[tuple[bytes, Line]] = ()
    unlisted: int = 0
    may_run: bool = False


def read_trial(filesystem: pyarrow.fs.FileSystem, folder: str) -> TrialContents:
    """Read a trial's index and find the files that it does not list; nothing is changed.

    Several threads may call this at once. On an object store it takes the requests of reading one file and of listing
    two folders; more only if files are unlisted. Checkpoints are not listed: a trial may have thousands of their files.

    Args:
        filesystem: Any pyarrow filesystem.
        folder: The trial's folder on it, or the trial's folder on the driver.

    Raises:
        OSError: The filesystem does not answer.

    Example:
        >>> len(read_trial(pyarrow.fs.LocalFileSystem(), "/no/such/trial").lines)
        0
    """
    listed = lines_of_trial(filesystem, folder) or []
    lines = [line for _, line in listed]
    files = list_files(filesystem, folder)
    place = folder
    stored = next((line["path"] for line in lines if line.get("status") == STORED), None)
    if stored is not None and stored not in files and is_local(filesystem):
        place = media_folder(filesystem, folder, [line.get("trial_id") for line in lines])
        if place != folder:  # an object store is not listed: that is left to readers of the storage itself
            files = list_files(filesystem, place) if path_of(place) == place else {}
    found = find_unlisted(filesystem, place, lines, files)
    ages = [time.time() - files[line["path"]].mtime_ns / 1e9 for line in found if files[line["path"]].mtime_ns]
    may_run = bool(ages) and min(ages) < _RUNNING_SECONDS
    valid = {key_of(line): (raw, line) for raw, line in [*listed, *((json_bytes(line), line) for line in found)]}
    return TrialContents(place, list(valid.values()), len(found), may_run)


def warn_of_unlisted(found: Mapping[str, TrialContents]) -> None:
    """Say how many files are in no index, and how they get into it.

    Args:
        found: The contents of trials, by their folder.
    """
    unlisted = {folder: contents for folder, contents in found.items() if contents.unlisted}
    if not unlisted:
        return
    may_run = any(contents.may_run for contents in unlisted.values())
    logger.log(
        logging.INFO if may_run else logging.WARNING,
        "tune_media: the index.jsonl of %d trial(s) (%r ...) does not list %d of their files: %s. They are included, "
        "with the facts that their names and the episode data tell. Tuner.restore(...) adds them to the index.",
        len(unlisted),
        min(unlisted),
        sum(contents.unlisted for contents in unlisted.values()),
        "a running driver has not listed them yet"
        if may_run
        else "the driver was killed before it could list them, or they came later",
    )


def list_files(filesystem: pyarrow.fs.FileSystem, folder: str) -> Files:
    """Return the media and episode files in a trial's folder by their path relative to it.

    Args:
        filesystem: Any pyarrow filesystem.
        folder: The trial's folder on it.

    Raises:
        OSError: The filesystem does not answer.
    """
    found = {}
    for name in _FOLDERS:
        selector = pyarrow.fs.FileSelector(posixpath.join(folder, name), allow_not_found=True, recursive=True)
        for info in filesystem.get_file_info(selector):
            with contextlib.suppress(UnicodeDecodeError):  # a name that is no text is none of ours
                if info.is_file:
                    found[_relative(info.path, folder)] = info
    found.pop(INDEX_PATH, None)
    return {path: info for path, info in found.items() if path.startswith(_PREFIXES)}


def delete_leftovers(filesystem: pyarrow.fs.FileSystem, folder: str, files: Files, lines: Iterable[Line]) -> None:
    """Delete half-written files and files that the index lists as deleted; remove them from ``files``, too.

    Files that are not ours stay, see ``tune_media.storage.own_files``.

    Args:
        filesystem: Any pyarrow filesystem.
        folder: The trial's folder on it.
        files: The files, as ``list_files`` returns them.
        lines: The valid lines of the index.

    Raises:
        OSError: The filesystem does not answer.
    """
    deleted = {line["path"] for line in lines if line.get("status") == DELETED}
    deleted -= {line["path"] for line in lines if line.get("status") == STORED}  # recorded again, under another key
    for path in [path for path in files if path.endswith(PARTIAL) or path in deleted]:
        if delete_own(filesystem, folder, path):
            del files[path]


def find_unlisted(
    filesystem: pyarrow.fs.FileSystem,
    folder: str,
    lines: Collection[Line],
    files: Mapping[str, pyarrow.fs.FileInfo],
    *,
    trial_id: str | None = None,
    marks: ResultMarks | None = None,
) -> list[Line]:
    """Return a line for each file of a trial that its index does not list.

    If a line lists a file as lost, and all of the file is there, its line has the same key and the same facts.

    Args:
        filesystem: Any pyarrow filesystem.
        folder: The folder that holds the media.
        lines: The valid lines of the index.
        files: The files, as ``list_files`` returns them.
        trial_id: The trial's id; None: as the lines or the results say.
        marks: The facts that ``result.json`` tells. If they are given, the files themselves are read, too.

    Raises:
        OSError: The filesystem does not answer.
    """
    unlisted = unlisted_of(files, lines)
    if not unlisted:
        return []
    episodes = EpisodeFacts(filesystem, folder, [path for path in files if report_step(path) is not None])
    known = (line["trial_id"] for line in lines if isinstance(line.get("trial_id"), str))
    trial_id = trial_id or next(known, None) or (marks.trial_id if marks else None)
    lost: dict[str, list[Line]] = {}
    for line in filter(_is_lost, lines):
        lost.setdefault(line["path"], []).append(line)
    found = []
    for path in unlisted:
        info = files[path]
        if path.startswith(f"{FOLDER}/"):
            of_file = list(episodes.lines_of(path))
        else:
            line = _line_of_name(path)
            suffix, step = line["format"], line["step"]
            if marks is not None:
                line |= facts_of_content(suffix, read_if_there(filesystem, info.path) or b"") | marks.facts_of(path)
            of_file = [{"trial_id": trial_id, **line, **episodes.of_clip(path, step)}]
        of_file = [_finished(line, info) for line in of_file]
        if path in lost:
            facts = of_file[0] if of_file else _finished({}, info)
            of_file = [_as_stored(line, facts) for line in lost[path] if line.get("bytes", info.size) == info.size]
        found += of_file
    return found


def unlisted_of(files: Iterable[str], lines: Iterable[Line]) -> list[str]:
    """Return the paths of media and reports that no line lists, or one lists as lost; other files have no lines.

    Example:
        >>> unlisted_of(["media/train/clip/step_000000001-0123456789ab.mp4", "media/notes.txt"], [])
        ['media/train/clip/step_000000001-0123456789ab.mp4']
    """
    lines = list(lines)
    listed = {line["path"] for line in lines} - {line["path"] for line in lines if _is_lost(line)}
    listed |= {parquet_name(path) for path in listed if path.endswith(".json")}  # lines name the JSON files only
    others = sorted(path for path in files if path not in listed)
    return [path for path in others if _is_medium(path) or report_step(path) is not None]


def marks_of_results(filesystem: pyarrow.fs.FileSystem, folder: str) -> ResultMarks:
    """Return the facts that a trial's ``result.json`` tells of its media; none if it cannot be read."""
    try:
        return ResultMarks(read_if_there(filesystem, posixpath.join(folder, "result.json")) or b"")
    except OSError as error:
        logger.info("tune_media: result.json of %r was not read (%s)", folder, error_text(error))
        return ResultMarks(b"")


def heal(filesystem: pyarrow.fs.FileSystem, folder: str) -> int:
    """List the files of a trial that has ended which its index does not list.

    Args:
        filesystem: The filesystem of the results.
        folder: The trial's folder on it. No driver may be writing to it.

    Returns:
        How many lines were added or changed.

    Raises:
        OSError: The filesystem does not answer.
    """
    files = list_files(filesystem, folder)
    if not files:
        return 0
    table = IndexTable()
    table.add_all(read_if_there(filesystem, posixpath.join(folder, INDEX_PATH)) or b"")
    lines = table.lines()
    delete_leftovers(filesystem, folder, files, lines)
    if not unlisted_of(files, lines):
        return 0
    marks = marks_of_results(filesystem, folder)
    found = find_unlisted(filesystem, folder, lines, files, marks=marks)
    if found:
        for line in found:
            table.add(json_bytes(line), line)
        for line in table.lines():
            change = marks.change_of(line)
            if change is not None:
                table.add(changed_line(line, change), line)
        write_atomically(filesystem, posixpath.join(folder, INDEX_PATH), table.content())
    return len(found)


def _is_lost(line: Line) -> bool:
    return line.get("status") in LOST


def _is_medium(path: str) -> bool:
    in_folder = path.startswith(f"{_MEDIA}/") and path.count("/") > 2
    return in_folder and FILE_NAME.match(posixpath.basename(path)) is not None


def _line_of_name(path: str) -> Line:
    """Return the facts that the path of a medium tells."""
    _, section, *key, name = path.split("/")
    found = FILE_NAME.match(name)
    assert found is not None
    step, id, suffix = found.groups()
    return {
        "id": id,
        "kind": kind_of(suffix),
        "section": section,
        "key": "/".join(key),
        "path": path,
        "format": suffix,
        "step": int(step),
    }


def _finished(line: Line, info: pyarrow.fs.FileInfo) -> Line:
    line = {"v": INDEX_VERSION, **line, "bytes": info.size, "status": STORED, "note": _NOTE}
    line["time"] = round(info.mtime_ns / 1e9 if info.mtime_ns else time.time(), 3)
    return {name: value for name, value in line.items() if value is not None}


def _as_stored(line: Line, facts: Line) -> Line:
    """Return the line of a lost medium whose file is there after all, without the reason for the loss."""
    own_note, is_kept, _ = str(line.get("note")).partition(KEPT_ON_DRIVER)
    note = own_note.removesuffix("; ") if is_kept else ""
    line = {**facts, **line, "v": INDEX_VERSION, "status": STORED, "note": note or None}
    return {name: value for name, value in line.items() if value is not None}


def _relative(path: str, folder: str) -> str:
    """Return a found path relative to the trial's folder; some filesystems leave out the beginning of it."""
    root, name, path = f"{folder.strip('/')}/", posixpath.basename(folder.rstrip("/")), path.strip("/")
    if path.startswith(root):
        return path.removeprefix(root)
    start = max(path.rfind(f"{name}/{prefix}") for prefix in _PREFIXES)
    return path[start + len(name) + 1 :] if start >= 0 else ""
