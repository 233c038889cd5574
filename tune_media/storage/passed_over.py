"""Names the files, lines and values that readers pass over, so that a broken one is skipped alone."""

from __future__ import annotations

import logging

from tune_media.values.secrets import redacted

logger = logging.getLogger("tune_media")

_MOST_WARNINGS = 10_000
_warned: set[tuple[str, str]] = set()


def warn_passed_over(path: str, why: str) -> None:
    """Log that a file, or a part of it, is passed over; once in this process for each file and reason.

    Example:
        >>> warn_passed_over("sweep/trial_1/params.json", "it is no JSON object")
    """
    warning = (path, why)
    if warning not in _warned and len(_warned) < _MOST_WARNINGS:
        _warned.add(warning)
        logger.warning("tune_media: passed over in %r: %s.", path, redacted(why))


def warn_of_broken_lines(path: str, lines: list[int], kind: str) -> None:
    """Log that some lines of a file are passed over, if there are any.

    Example:
        >>> warn_of_broken_lines("sweep/trial_1/result.json", [], "a result")
    """
    if lines:
        warn_passed_over(path, f"{len(lines)} line(s) that are not {kind}, the first is line {lines[0]}")
