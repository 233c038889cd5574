"""How one clip or picture looks in a notebook: inside the page, so that the notebook can be mailed."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from typing import Any

MOST_BYTES = 16 * 2**20
"""The largest file that a notebook takes in."""


def facts_html(title: str, facts: Mapping[str, Any]) -> str:
    """Return a table of facts, a line each; those that are None or empty are left out.

    >>> facts_html("run <1>", {"lr": 0.1 + 0.2, "error": ""})
    '<table><caption>run &lt;1&gt;</caption><tr><th>lr</th><td>0.3</td></tr></table>'
    """
    texts = {name: f"{value:.5g}" if isinstance(value, float) else str(value) for name, value in facts.items()}
    lines = [
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
        for name, text in texts.items()
        if facts[name] is not None and text
    ]
    return f"<table><caption>{html.escape(title)}</caption>{''.join(lines)}</table>"


def clip_html(content: bytes, caption: str, kind: str = "video/mp4") -> str:
    """Return a clip or a picture as HTML with a line of plain text; the text alone if the file is too large.

    >>> clip_html(b"abc", "return < 3").endswith("<figcaption>return &lt; 3</figcaption></figure>")
    True
    """
    escaped = html.escape(caption)
    if not content or len(content) > MOST_BYTES:
        why = f"{len(content) / 1e6:.0f} MB, too large for a notebook" if content else "not rendered yet"
        return f"<p>{escaped} ({why})</p>"
    source = f'src="data:{kind};base64,{base64.b64encode(content).decode()}" style="max-width:100%"'
    shown = f"<video {source} controls loop muted playsinline></video>"
    if kind.startswith("image/"):
        shown = f'<img {source} alt="{escaped}">'
    return f'<figure style="margin:0">{shown}<figcaption>{escaped}</figcaption></figure>'
