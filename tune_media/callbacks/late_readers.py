"""Finds callbacks of the user's own that read media from a result after ours have replaced them by paths."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

_READS = "episode_media"


def late_readers(callbacks: Sequence[Any], ours: type) -> Iterator[str]:
    """Yield a warning for each callback that reads ``episode_media`` and comes after one of ours.

    Slicing the path that stands there, as the lists of RLlib's old API stack are sliced, gives a piece of text.

    Args:
        callbacks: All callbacks of an experiment, in Tune's order.
        ours: The class of ours.

    Example:
        >>> list(late_readers([], object))
        []
    """
    first = next((index for index, callback in enumerate(callbacks) if isinstance(callback, ours)), len(callbacks))
    for callback in callbacks[first:]:
        if not isinstance(callback, ours) and _READS in _source(type(callback)):
            yield (
                f"{type(callback).__name__} reads {_READS} from the results, and the callbacks before it put a path "
                f"there. List it before {type(callbacks[first]).__name__} in callbacks=[...], and let it write its "
                "files to another folder than episode_data."
            )


def _source(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # made in an interactive session, or not in Python
        return ""
