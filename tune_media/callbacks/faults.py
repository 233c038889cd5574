"""Faults are counted, each kind is said once, and no message shows a key or password."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator

from tune_media.values.foreign import shown

logger = logging.getLogger("tune_media")

_SECRETS: set[str] = set()
_MAX_KINDS = 1000
# A password in a URI ends at the last @: of the host's part for http, which has no "/" in it, and of all for databases.
_PASSWORD = re.compile(r"""(https?://)[^/\s'"]*@|(\w+://)[^/:@\s'"]*(?::[^\s'"]*)?@""")


class Faults:
    """Counts faults and says each kind once. Any thread calls any method.

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
        """Turn an exception into one warning, or let it through if strict."""
        try:
            yield
        except Exception as error:
            if self.strict and not background:
                raise
            self.report(name, what, error)

    def report(self, name: str, what: str, error: Exception, kind: str = "") -> None:
        """Count a fault, and warn of it if it is the first of its place, type and ``kind``."""
        self.count += 1
        self._first = self._first or error
        seen = (name, type(error).__name__, kind)
        if seen in self._told or len(self._told) >= _MAX_KINDS:
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
        """Raise the first error of a background thread, if strict."""
        if self.strict and self._first is not None:
            error, self._first = self._first, None
            raise error


def keep_secret(*secrets: str | None) -> None:
    """Keep keys and tokens out of every message."""
    _SECRETS.update(secret for secret in secrets if secret)


def redacted(text: str) -> str:
    """Return a message without the keys and passwords that it may repeat.

    Example:
        >>> redacted("postgresql://me:se/c@ret@host/runs and http://me:secret@host/a@b")
        'postgresql://***@host/runs and http://***@host/a@b'
        >>> redacted("s3://bucket/a@b and file:///home/me@work")
        's3://bucket/a@b and file:///home/me@work'
    """
    for secret in _SECRETS:
        text = text.replace(secret, "***")
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}***@", text)
