"""How a catalog looks in a notebook: the viewer's page, with the clips inside, so that the notebook can be mailed."""

from __future__ import annotations

import html
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tune_media.values.number import counted, whole_number
from tune_media.viewing.front_end import SHOWN
from tune_media.viewing.payload import shown_lines
from tune_media.viewing.single_page import data_uri, single_page

if TYPE_CHECKING:
    from tune_media.experiment.trial_files import Line, TrialFiles
    from tune_media.viewing.catalog_row import CatalogRow

    Ranked = tuple[TrialFiles, float | None, CatalogRow | None]

_MAX_TRIALS = 100
_MAX_CLIPS = 48
_MAX_BYTES = 16 * 2**20
_ADDED = ("trial", "params", "file", "abandoned")  # to an index line, by the catalog
_HEIGHT = 760


def as_html(title: str, rows: Sequence[CatalogRow], best_first: Sequence[Ranked]) -> str:
    """Return a catalog as HTML: a line of text, and the viewer's page in a frame.

    The page has the best and the last clips of the trials with the highest scores, at most 48 clips and 16 MB.

    Args:
        title: The name of the experiment.
        rows: The rows of the catalog.
        best_first: See ``Catalog.best_first``.
    """
    from tune_media.viewing.gallery import Gallery, published

    trials = [trial for trial, *_ in best_first[:_MAX_TRIALS]]
    lines, media = _chosen(rows, best_first)
    gallery = Gallery(title, trials, statuses=[published(trial.status) for trial in trials], lines=lines)
    page = single_page(gallery.data(steps=True, is_whole=False), media, title, "notebook")
    told = [f"{counted(len(rows), 'medium', 'media')} of {counted(len(best_first), 'trial')} in {title}"]
    told += [f"the best {_MAX_TRIALS} trials are shown"] if len(best_first) > len(trials) else []
    if len(media) < len(rows):
        inside = f"{counted(len(media), 'clip')} {'is' if len(media) == 1 else 'are'}"
        told.append(f"{inside} in this page; `tune-media watch` shows all")
    return (
        f"<p>{html.escape('; '.join(told))}</p>"
        f'<iframe srcdoc="{html.escape(page)}" title="Episodes of {html.escape(title)}" '
        f'style="width:100%;height:{_HEIGHT}px;border:1px solid #8886;border-radius:8px"></iframe>'
    )


def _chosen(
    catalog: Sequence[CatalogRow], best_first: Sequence[Ranked]
) -> tuple[dict[str, list[Line]], dict[str, str]]:
    """Return the index lines of the clips that are shown, by trial, and their contents as data URIs.

    First comes the best clip of each trial, then its last ones; as many as there is room for.
    """
    ids = {trial.name: trial.id for trial, *_ in best_first}
    trials = [trial.id for trial, *_ in best_first[:_MAX_TRIALS]]
    rows: dict[str, list[CatalogRow]] = {}
    for row in catalog:
        if posixpath.splitext(row["path"])[1].lower() in SHOWN:
            rows.setdefault(ids[row["trial"]], []).append(row)
    best = {trial.id: row for trial, _, row in best_first if row is not None}
    wanted: list[CatalogRow] = [best[trial] for trial in trials if trial in best and best[trial] in rows.get(trial, [])]
    wanted += [row for trial in trials for row in shown_lines(rows.get(trial, []))]  # type: ignore[misc]
    lines: dict[str, list[Line]] = {trial: [] for trial in trials}
    media: dict[str, str] = {}
    size = 0
    for row in wanted:
        trial, name = ids[row["trial"]], f"{ids[row['trial']]}/{row['path']}"
        line = {field: value for field, value in row.items() if field not in _ADDED}
        if name not in media:
            if len(media) == _MAX_CLIPS:
                break
            if size + whole_number(row.get("bytes")) > _MAX_BYTES:  # a smaller one may have room
                continue
            try:
                content = row.read_bytes()
            except OSError:  # deleted since
                continue
            size += len(content)
            media[name] = data_uri(content, row["path"])
        if line not in lines[trial]:
            lines[trial].append(line)
    return lines, media
