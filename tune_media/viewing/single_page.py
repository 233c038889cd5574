"""Single HTML files that have everything inside: styles, scripts, data and clips."""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from tune_media.viewing.front_end import SHOWN, STATIC, page
from tune_media.viewing.payload import json_content

_ICON = re.compile(r'<link rel="icon"[^>]*>\n')
_STYLE = re.compile(r'<link rel="stylesheet" href="static/([^"]+)">')
_SCRIPT = re.compile(r'<script src="static/([^"]+)"></script>')


def report_page(facts: Mapping[str, Any], title: str) -> str:
    """Return the page of some facts, ``tuneMedia.facts``, with all that it needs inside.

    Nothing calls it yet: the gate's own page will.

    >>> "<title>a &amp; b</title>" in report_page({}, "a & b")
    True
    """
    return _with_inside(page("report.html", title), b"window.tuneMedia={facts:%s};" % json_content(facts))


def _with_inside(text: str, held: bytes) -> str:
    """Return a page with its styles and scripts inside, and a script before them, which gives them their data."""
    script = held.decode().replace("<", "\\u003c")  # no text of the experiment's ends the script
    text = _ICON.sub("", text)
    text = _STYLE.sub(lambda found: f"<style>{_static(found)}</style>", text)
    text = _SCRIPT.sub(lambda found: f"<script>{_static(found)}</script>", text)
    return text.replace("<script>", f"<script>{script}</script>\n<script>", 1)


def data_uri(content: bytes, path: str) -> str:
    """Return a media file as a data URI.

    >>> data_uri(b"abc", "media/a.png")
    'data:image/png;base64,YWJj'
    """
    return f"data:{SHOWN[posixpath.splitext(path)[1].lower()]};base64,{base64.b64encode(content).decode()}"


def _static(found: re.Match[str]) -> str:
    return (STATIC / found[1]).read_text()
