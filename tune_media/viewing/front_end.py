"""The files of the front end, and the media files that it shows."""

from __future__ import annotations

import functools
import html
import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
SHOWN = {
    **{".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"},
    **{".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"},
}
"""The files that the page shows, by their suffix; a browser runs none of them."""
_PRELOAD = '<link rel="preload" href="data/first.json" as="fetch" crossorigin>\n'  # which only a server can answer


def page(name: str, title: str, source: str = "") -> str:
    """Return a page of the front end for readers without a server; ``source`` is where its data are, see ``start.js``.

    >>> "<title>a &amp; b</title>" in page("index.html", "a & b", "files")
    True
    """
    text = re.sub("<title>.*</title>", lambda _: f"<title>{html.escape(title)}</title>", (STATIC / name).read_text())
    return text.replace(_PRELOAD, "").replace('data-source="server"', f'data-source="{source}"')


@functools.cache  # every request of a file asks
def static_files() -> tuple[str, ...]:
    """Return the files of the front end, relative to ``STATIC``."""
    return tuple(sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()))
