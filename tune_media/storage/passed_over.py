"""Names the files, lines and values that readers pass over, so that a broken one is skipped alone."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tune_media.values.secrets import redacted

logger = logging.getLogger("tune_media")

_MOST_WARNINGS = 10_000
_warned: set[tuple[str, str]] = set()


def warn_passed_over(path: str, why: str) -> None:
    """Log that a file, or a part of it, is passed over; once in this process for each file and reason."""
    warning = (path, redacted(why))
    if warning not in _warned and len(_warned) < _MOST_WARNINGS:
        _warned.add(warning)
        logger.warning("tune_media: passed over in %r: %s.", *warning)


def passed_over(folders: Iterable[str]) -> list[tuple[str, str]]:
    """Return the files in some folders that this process has passed over, or parts of, each with the reason.

    >>> warn_passed_over("sweep/trial_2/params.json", "it is no JSON object")
    >>> passed_over(["sweep/trial_2"]), passed_over(["sweep/trial"])
    ([('sweep/trial_2/params.json', 'it is no JSON object')], [])
    """
    within = tuple(f"{folder.rstrip('/')}/" for folder in folders)
    return sorted(warning for warning in list(_warned) if warning[0].startswith(within))


def warn_of_broken_lines(path: str, lines: list[int], kind: str) -> None:
    """Log that some lines of a file are passed over, if there are any."""
    if lines:
        warn_passed_over(path, f"{len(lines)} line(s) that are not {kind}, the first is line {lines[0]}")
