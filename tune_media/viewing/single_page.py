"""The viewer as a single HTML file that has everything inside: scripts, data and clips."""

from __future__ import annotations

import base64
import html
import posixpath
import re
from collections.abc import Iterable, Mapping

from tune_media.viewing.front_end import PRELOAD, SHOWN, STATIC
from tune_media.viewing.payload import json_content

_ICON = re.compile(r'<link rel="icon"[^>]*>\n')
_STYLE = re.compile(r'<link rel="stylesheet" href="static/([^"]+)">')
_SCRIPT = re.compile(r'<script src="static/([^"]+)"></script>')


def single_page(data: Iterable[tuple[str, bytes]], media: Mapping[str, str], title: str, source: str = "page") -> str:
    """Return the viewer's page with all that it needs inside.

    Args:
        data: What the page reads, as ``Gallery.data`` yields it.
        media: The clips as data URIs, by ``<trial id>/<path>``.
        title: The title of the page.
        source: ``"page"``, or ``"notebook"`` for a frame without an address.

    >>> "<title>a &amp; b</title>" in single_page([], {}, "a & b")
    True
    """
    contents = b",".join(json_content(name) + b":" + content for name, content in data)
    held = b"window.tuneMedia={held:{data:{%s},media:%s}};" % (contents, json_content(media))
    page = (STATIC / "index.html").read_text().replace('data-source="server"', f'data-source="{source}"')
    page = page.replace("<title>Episodes</title>", f"<title>{html.escape(title)}</title>")
    return with_inside(page.replace(PRELOAD, ""), held)


def with_inside(page: str, held: bytes) -> str:
    """Return a page of the front end with its styles and scripts inside, and a script before them.

    Args:
        page: The page.
        held: The script, which gives the others their data.
    """
    text = held.decode().replace("<", "\\u003c")  # no text of the experiment's ends the script
    page = _ICON.sub("", page)
    page = _STYLE.sub(lambda found: f"<style>{_static(found)}</style>", page)
    page = _SCRIPT.sub(lambda found: f"<script>{_static(found)}</script>", page)
    return page.replace("<script>", f"<script>{text}</script>\n<script>", 1)


def data_uri(content: bytes, path: str) -> str:
    """Return a media file as a data URI.

    >>> data_uri(b"abc", "media/a.png")
    'data:image/png;base64,YWJj'
    """
    return f"data:{SHOWN[posixpath.splitext(path)[1].lower()]};base64,{base64.b64encode(content).decode()}"


def _static(found: re.Match[str]) -> str:
    return (STATIC / found[1]).read_text()
