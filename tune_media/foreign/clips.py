"""The index lines of clips that no index lists, as other recorders leave them."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow.fs

from tune_media.foreign.clip_paths import section_of_path
from tune_media.foreign.run_files import RunFiles
from tune_media.storage.clip_names import KEY
from tune_media.storage.entry import STORED
from tune_media.storage.index_lines import INDEX_VERSION, Line, MediumLine
from tune_media.values.safe_names import name_digest
from tune_media.values.secrets import error_text
from tune_media.values.video import Video


def clip_lines(files: RunFiles, clips: Iterable[str], told: Mapping[str, Line]) -> list[MediumLine]:
    """Return an index line for each of some clips, in the natural order of their names, with the facts told of it.

    Others are from its header. Headers are read on this machine only: elsewhere each would take several requests.
    """
    lines = []
    for path in clips:
        info, here = files.infos[path], files.local(path)
        header = _header(here, info.size, info.mtime_ns) if here is not None else {}
        lines.append(_line(path, info, header, told.get(path, {})))
    ordered = sorted(lines, key=lambda line: (line.facts.get("step", 0), _natural(line.path)))
    return [replace(line, row=row) for row, line in enumerate(ordered, 1)]


def _natural(path: str) -> list[str | int]:
    """Return a key that orders a2 before a10: texts and numbers take turns."""
    return [int(part) if number % 2 else part for number, part in enumerate(re.split(r"(\d+)", path))]


@functools.lru_cache(maxsize=10_000)
def _header(path: str, size: int, written: int) -> Line:
    """Return the size and speed of a clip, or a note why it cannot be read."""
    from tune_media.encoding.decode import header_of  # it loads PyAV, which reading an index does not need

    try:
        return dict(header_of(path))
    except (ValueError, OSError) as error:
        return {"note": error_text(error)}


def _line(path: str, info: pyarrow.fs.FileInfo, header: Line, told: Line) -> MediumLine:
    kind = posixpath.splitext(path)[1][1:].lower()
    facts: Line = {
        **header,
        "v": INDEX_VERSION,
        "kind": Video.kind,
        "time": (info.mtime_ns or 0) / 1e9,
        "bytes": info.size or 0,
        "format": kind,
        **told,
    }
    notes = ["GIF: no time line, no sync" if kind == "gif" else "", header.get("note"), told.get("columns")]
    if any(notes):
        facts["note"] = "; ".join(filter(None, notes))
    id, section = name_digest(path), told.get("section") or section_of_path(path)
    return MediumLine(id=id, section=section, key=KEY, path=path, row=0, status=STORED, facts=facts)
