"""What goes wrong is counted, said once, and keeps no secret."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator

from tune_media.values import shown

logger = logging.getLogger("tune_media")

_SECRETS: set[str] = set()
_MOST_KINDS = 1000


class Faults:
    """Counts what went wrong and says each kind of it once.

    Args:
        strict: Let exceptions through; those of the background are raised at the next chance.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.count = 0
        self._told: set[tuple[str, ...]] = set()
        self._first: Exception | None = None

    @contextlib.contextmanager
    def guard(self, name: str, what: str, *, background: bool = False) -> Iterator[None]:
        """Turn an exception into one warning, or let it through where strict."""
        try:
            yield
        except Exception as error:
            if self.strict and not background:
                raise
            self.report(name, what, error)

    def report(self, name: str, what: str, error: Exception, kind: str = "") -> None:
        """Count a fault and warn of the first of its kind: of its place and type, and of what else ``kind`` says."""
        self.count += 1
        self._first = self._first or error
        seen = (name, type(error).__name__, kind)
        if seen in self._told or len(self._told) >= _MOST_KINDS:
            return
        self._told.add(seen)
        logger.warning(
            "tune_media: %s: %s failed (%s: %s). Training goes on; further faults of this kind are counted only. "
            "To stop at the first, pass media=MediaOptions(strict=True).",
            name,
            shown(what, repr)[1:-1],
            type(error).__name__,
            redacted(shown(error, str)),
            exc_info=logger.isEnabledFor(logging.DEBUG) and not _SECRETS,
        )

    def raise_first(self) -> None:
        """Raise what the background met, where strict."""
        if self.strict and self._first is not None:
            error, self._first = self._first, None
            raise error


def without_address(text: str) -> str:
    """Return a text without the places in memory that objects show, which differ from result to result."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def keep_secret(*secrets: str | None) -> None:
    """Keep keys and tokens out of every message."""
    _SECRETS.update(secret for secret in secrets if secret)


def redacted(text: str) -> str:
    """Return a message without the keys and passwords that it may repeat."""
    for secret in _SECRETS:
        text = text.replace(secret, "***")
    return re.sub(r"(\w+://)[^/@\s]+@", r"\1***@", text)
