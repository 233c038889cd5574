"""The files of the front end, and the media files that it shows."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent / "static"
SHOWN = {".mp4": "video/mp4", ".gif": "image/gif", ".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}
"""The files that the page shows, by their suffix; a browser runs none of them."""
PRELOAD = '<link rel="preload" href="data/first.json" as="fetch" crossorigin>\n'
"""The part of the page that only a server can answer."""


def static_files() -> list[str]:
    """Return the files of the front end, relative to ``STATIC``.

    Example:
        >>> "index.html" in static_files()
        True
    """
    return sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())
