"""Shows experiments: as a catalog, tables, the page of the viewer, a gallery, a grid of clips.

In come the folders of experiments, out go rows, text, pages and rendered clips. It may import every wing but
evaluation, and needs no running Ray.
"""

__all__ = [
    "catalog",
    "configurations",
    "copies",
    "demo",
    "doctor",
    "episode_details",
    "figure",
    "filmstrip",
    "gallery",
    "grid",
    "grid_choice",
    "inference",
    "list_formats",
    "next_steps",
    "saved_clip",
    "score_tables",
    "single_page",
    "status_line",
    "table",
    "taped_episodes",
    "trials",
    "verdict_figure",
    "watch",
    "wording",
]
