"""The facts of a file that no index line names, put together again from all that is on the storage."""

from __future__ import annotations

import hashlib
import json
import logging
import posixpath
import re
import struct
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow.fs

from tune_media.storage.episode_files import clips_of_parquet, parquet_name, parts_of_parquet, report_step
from tune_media.storage.filesystem import read_if_there
from tune_media.storage.index_lines import Line
from tune_media.values.secrets import error_text

logger = logging.getLogger("tune_media")

_KINDS = {"mp4": "video", "png": "image"}
_PATH = re.compile(rb'"(media/[^"\\]+)"')


class ResultMarks:
    """The facts that a trial's ``result.json`` tells of its media: the iteration of each, and which are rolled back.

    A trial that goes back to a checkpoint reports iterations again. Media that only the earlier report names no longer
    count.

    Args:
        content: The file.

    Example:
        >>> first = b'{"training_iteration": 1, "clip": "media/a.mp4"}'
        >>> again = b'{"training_iteration": 1, "clip": "media/b.mp4"}'
        >>> marks = ResultMarks(first + b"\\n" + again)
        >>> marks.facts_of("media/a.mp4")
        {'training_iteration': 1, 'rolled_back': True}
        >>> marks.facts_of("media/b.mp4")
        {'training_iteration': 1}
    """

    def __init__(self, content: bytes) -> None:
        self.trial_id: str | None = None
        self._iterations: dict[str, int] = {}
        self._counting: dict[Any, list[tuple[int, set[str]]]] = {}  # by trial: the results that still count
        for raw in content.split(b"\n"):
            try:
                result = json.loads(raw) if raw else None
            except (ValueError, RecursionError):  # half-written
                continue
            if isinstance(result, dict) and isinstance(result.get("training_iteration"), int):
                self._add(result, {path.decode("utf-8", "replace") for path in _PATH.findall(raw)})
        self._valid = {path for results in self._counting.values() for _, paths in results for path in paths}

    def facts_of(self, path: str) -> Line:
        """Return the facts of a file; none if no result names it."""
        if path not in self._iterations:
            return {}
        facts: Line = {"training_iteration": self._iterations[path]}
        return facts if path in self._valid else {**facts, "rolled_back": True}

    def change_of(self, line: Line) -> Line | None:
        """Return the mark that an index line lacks, or None."""
        is_undone = self.facts_of(line["path"]).get("rolled_back")
        return {"rolled_back": True} if is_undone and not line.get("rolled_back") else None

    def _add(self, result: dict[str, Any], paths: Collection[str]) -> None:
        iteration = result["training_iteration"]
        if isinstance(result.get("trial_id"), str):
            self.trial_id = result["trial_id"]
        for path in paths:
            self._iterations.setdefault(path, iteration)
        results = self._counting.setdefault(result.get("trial_id"), [])
        while results and results[-1][0] >= iteration:
            results.pop()
        results.append((iteration, set(paths)))


class EpisodeFacts:
    """The facts that the Parquet files of a trial's episodes tell of its clips; each file is read at most once.

    Args:
        filesystem: The filesystem of the trial's folder.
        folder: The folder.
        paths: The JSON files of its reports, relative to it.
    """

    def __init__(self, filesystem: pyarrow.fs.FileSystem, folder: str, paths: Collection[str]) -> None:
        self._filesystem, self._folder = filesystem, folder
        self._contents: dict[str, bytes] = {}
        self._clips: dict[str, dict[str, Line]] = {}
        self._paths: dict[int | None, list[str]] = {}
        for path in paths:
            self._paths.setdefault(report_step(path), []).append(path)

    def of_clip(self, path: str, step: int) -> Line:
        """Return the facts of the episode that a clip shows; none if no Parquet file of its step names the clip."""
        for report in self._paths.get(step, ()):
            if report not in self._clips:
                self._clips[report] = clips_of_parquet(self._content(report))
            if path in self._clips[report]:
                return self._clips[report][path]
        return {}

    def lines_of(self, report: str) -> Iterator[Line]:
        """Yield the line of each section and recorder of a report; none if its Parquet file is not whole."""
        try:
            parts = parts_of_parquet(self._content(report))
        except ValueError as error:
            logger.info("tune_media: %r stays unlisted (%s)", posixpath.join(self._folder, report), error_text(error))
            return
        for trial_id, section, recorder, iteration in parts:
            id = hashlib.sha256("\n".join((trial_id, section, recorder, report)).encode()).hexdigest()[:32]
            line: Line = {"id": id, "kind": "episodes", "section": section, "key": f"{recorder}/data", "path": report}
            line |= {"format": "json", "step": report_step(report), "training_iteration": iteration}
            yield {**line, "trial_id": trial_id}

    def _content(self, report: str) -> bytes:
        if report not in self._contents:
            path = posixpath.join(self._folder, parquet_name(report))
            self._contents[report] = read_if_there(self._filesystem, path) or b""
        return self._contents[report]


def kind_of(suffix: str) -> str:
    """Return the kind of a medium, as far as the suffix of its file tells."""
    return _KINDS.get(suffix, "artifact")


def facts_of_content(suffix: str, content: bytes) -> Line:
    """Return the facts that a file itself tells: its checksum, and the size of a clip or picture."""
    facts: Line = {"sha256": hashlib.sha256(content).hexdigest()}
    if suffix == "mp4":
        return facts | _facts_of_clip(content)
    if suffix == "png" and content[12:16] == b"IHDR" and len(content) >= 24:
        width, height = struct.unpack(">II", content[16:24])
        return facts | {"width": width, "height": height}
    if suffix == "json":
        return facts | _facts_of_json(content)
    return facts


def _facts_of_clip(content: bytes) -> Line:
    from tune_media.encoding import probe_video  # PyAV: only if a driver was killed

    try:
        clip = probe_video(content)
    except (ValueError, ImportError):
        return {}
    return {"width": clip.width, "height": clip.height, "frames": clip.frames, "fps": clip.fps}


def _facts_of_json(content: bytes) -> Line:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    if {"counts", "edges", "count"} <= value.keys():
        return {"kind": "histogram", "count": value["count"]}
    if {"episode_id", "episode_return", "episode_length"} <= value.keys():
        return {**value, "kind": "episode"}
    return {}
