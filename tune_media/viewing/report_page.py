"""The page of a report: a single HTML file that has everything inside."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from tune_media.viewing.front_end import STATIC
from tune_media.viewing.payload import json_content
from tune_media.viewing.single_page import with_inside


def report_page(facts: Mapping[str, Any], title: str) -> str:
    """Return the page.

    Args:
        facts: What ``static/report.js`` shows.
        title: The title of the page.

    >>> "<title>a &amp; b</title>" in report_page({}, "a & b")
    True
    """
    page = (STATIC / "report.html").read_text().replace("<title>Report</title>", f"<title>{html.escape(title)}</title>")
    return with_inside(page, b"window.tuneMedia={facts:%s};" % json_content(facts))
