"""Single HTML files that have everything inside: styles, scripts, data and clips."""

from __future__ import annotations

import base64
import posixpath
import re

from tune_media.viewing.front_end import SHOWN, STATIC, page

_STYLE = re.compile(r'<link rel="stylesheet" href="static/([^"]+)">')
_SCRIPT = re.compile(r'<script src="static/([^"]+)"></script>')


def single_page(name: str, title: str, content: str) -> str:
    """Return a page of the front end with its styles and scripts inside, and some HTML as the content of its ``main``.

    >>> "<title>a &amp; b</title>" in single_page("gate.html", "a & b", "<p>both</p>")
    True
    """
    text = _STYLE.sub(lambda found: f"<style>{_static(found)}</style>", page(name, title))
    text = _SCRIPT.sub(lambda found: f"<script>{_static(found)}</script>", text)
    return text.replace("</main>", f"{content}</main>", 1)


def data_uri(content: bytes, path: str) -> str:
    """Return a media file as a data URI."""
    return f"data:{SHOWN[posixpath.splitext(path)[1].lower()]};base64,{base64.b64encode(content).decode()}"


def _static(found: re.Match[str]) -> str:
    return (STATIC / found[1]).read_text()
