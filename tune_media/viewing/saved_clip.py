"""One medium as a file for a slide or a mail: as it is stored, or a clip as an animated GIF."""

from __future__ import annotations

import posixpath
from pathlib import Path

from tune_media.storage.filesystem import save_file
from tune_media.values import checks
from tune_media.values.problems import argument

_FASTEST = 50  # frames per second: viewers show GIFs no faster
_NO_LIMIT = 2**31
_CLIPS = (".mp4", ".webm")


def save_medium(
    content: bytes, stored_as: str, output: str | Path, *, width: int | None = None, fps: float | None = None
) -> Path:
    """Write a medium to a file as it is stored, or a clip as a GIF that plays at its speed, see ``CatalogRow.save``."""
    checks.above_0(whole=True, or_none=True).check("save(width=...)", width)
    checks.between(1, _FASTEST, or_none=True).check("save(fps=...)", fps)
    path, stored = checks.local_path("save(path)", output), posixpath.splitext(stored_as)[1].lower()
    wanted = path.suffix.lower()
    if wanted == ".gif" and stored in _CLIPS:
        from tune_media.encoding.gif import gif_from_video

        content = gif_from_video(content, width or _NO_LIMIT, fps or _FASTEST, max_frames=_NO_LIMIT, name=stored_as)
    elif wanted != stored:
        formats = f"{stored} or .gif" if stored in _CLIPS else stored
        raise ValueError(f"A medium that is stored as {stored} is saved as {formats}, not as {path.name!r}.")
    elif width or fps:
        both = argument("save(width=...)") + " and " + argument("save(fps=...)")
        raise ValueError(both + f" are for GIFs; {path.name!r} gets the clip as it is stored.")
    return save_file(path, content)
