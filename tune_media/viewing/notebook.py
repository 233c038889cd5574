"""How a catalog looks in a notebook: the viewer's page, with the clips inside, so that the notebook can be mailed."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tune_media.values.number import counted
from tune_media.viewing.single_page import single_page

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

    The page has clips of the 100 trials with the highest scores, chosen as by ``Gallery.inside``, at most 48 and 16 MB.

    Args:
        title: The name of the experiment.
        rows: The rows of the catalog.
        best_first: See ``Catalog.best_first``.
    """
    from tune_media.viewing.gallery import Gallery, published, wanted_lines

    trials = [trial for trial, *_ in best_first[:_MAX_TRIALS]]
    ids = {trial.name: trial.id for trial in trials}
    lines: dict[str, list[Line]] = {id: [] for id in ids.values()}
    for row in (row for row in rows if row["trial"] in ids):
        lines[ids[row["trial"]]].append({field: value for field, value in row.items() if field not in _ADDED})
    lines = {id: wanted_lines(own) for id, own in lines.items()}
    gallery = Gallery(title, trials, statuses=[published(trial.status) for trial in trials], lines=lines)
    inside, media = gallery.inside(trials, _MAX_BYTES, _MAX_CLIPS)
    page = single_page(inside.data(steps=True, is_whole=False), media, title, "notebook")
    told = [f"{counted(len(rows), 'medium', 'media')} of {counted(len(best_first), 'trial')} in {title}"]
    told += [f"the best {_MAX_TRIALS} trials are shown"] if len(best_first) > len(trials) else []
    if len(media) < len(rows):
        of_page = f"{counted(len(media), 'clip')} {'is' if len(media) == 1 else 'are'}"
        told.append(f"{of_page} in this page; `tune-media watch` shows all")
    return (
        f"<p>{html.escape('; '.join(told))}</p>"
        f'<iframe srcdoc="{html.escape(page)}" title="Episodes of {html.escape(title)}" '
        f'style="width:100%;height:{_HEIGHT}px;border:1px solid #8886;border-radius:8px"></iframe>'
    )
