"""The values that travel from the env runners to the loggers: frozen, picklable, without threads or storage.

In comes what users and env runners pass, checked once. Out go media, records, options and problems. It imports no other
wing, but for ``encoding`` when frames become a clip or a picture.
"""

__all__ = [
    "artifact",
    "calls",
    "checks",
    "child_process",
    "clip_columns",
    "convert",
    "episode_record",
    "episodes",
    "file_medium",
    "foreign",
    "headline",
    "histogram",
    "image",
    "in_notebook",
    "installing",
    "medium",
    "metric_names",
    "named_function",
    "number",
    "options",
    "plain",
    "problems",
    "rates",
    "safe_names",
    "score",
    "secrets",
    "sections",
    "strict_json",
    "threads",
    "tiled",
    "video",
]
