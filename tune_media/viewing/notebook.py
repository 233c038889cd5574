"""How a catalog looks in a notebook: its best clips, which play, and a table."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tune_media.viewing.catalog import Catalog

_MAX_CLIPS = 6
_MAX_BYTES = 16 * 2**20
_MAX_ROWS = 20
_COLUMNS = ("trial", "step", "section", "key", "episode_return", "episode_length", "file")


def as_html(catalog: Catalog) -> str:
    """Return a catalog as HTML without scripts; the clips are inside the text, so that the notebook can be mailed."""
    clips = "".join(_figure(row) for row in _clips(catalog))
    rows = "".join(_table_row([row.get(name, "") for name in _COLUMNS]) for row in catalog[:_MAX_ROWS])
    more = f"<p>{len(catalog) - _MAX_ROWS} more rows: to_pandas()</p>" if len(catalog) > _MAX_ROWS else ""
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    return (
        f"<p>{html.escape(repr(catalog))}</p><div style='display:flex;flex-wrap:wrap;gap:12px'>{clips}</div>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"
    )


def _clips(catalog: Catalog) -> list[Any]:
    """Return the best clip of each trial, the best trials first, unless they are too large for a notebook."""
    found = [row for _, _, row in catalog.filter(kind="video").best_first() if row is not None]
    size, chosen = 0, []
    for row in found[:_MAX_CLIPS]:
        size += int(row.get("bytes", 0))
        if size > _MAX_BYTES:
            break
        chosen.append(row)
    return chosen


def _figure(row: Any) -> str:
    try:
        encoded = base64.b64encode(row.read_bytes()).decode()
    except OSError:  # deleted since
        return ""
    caption = f"{row['trial']}: return {row['episode_return']:g}, step {row.get('step', '')}"
    video = f"<video controls loop muted width='240' src='data:video/mp4;base64,{encoded}'></video>"
    return f"<figure style='margin:0'>{video}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _table_row(values: list[Any]) -> str:
    return "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in values) + "</tr>"
