"""Faults are counted, and each kind is said once."""

from __future__ import annotations

import contextlib
import functools
import logging
import traceback
from collections.abc import Iterator

from tune_media.values.foreign import shown
from tune_media.values.problems import Problem, Problems
from tune_media.values.secrets import error_text, redacted

logger = logging.getLogger("tune_media")

_MAX_KINDS = 1000
_GOES_ON = (
    "Training goes on; further faults of this kind are counted only. To stop at the first, pass "
    "media=MediaOptions(strict=True)."
)


class Faults:
    """Counts faults and says each kind once. Any thread calls any method.

    ``strict`` lets exceptions through; those of the background are raised at the next chance.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.count = 0
        # All problems that the driver knows of: its faults, and those of recording.
        self.problems = Problems(functools.partial(logger.warning, "tune_media: %s"), _MAX_KINDS)
        self._first: Exception | None = None

    @contextlib.contextmanager
    def guard(self, name: str, action: str, *, later: bool = False) -> Iterator[None]:
        """Turn an exception into one warning; if strict, let it through, or leave it to ``raise_first``."""
        try:
            yield
        except Exception as error:
            if self.strict and not later:
                raise
            self.report(name, action, error)

    def report(self, name: str, action: str, error: BaseException, kind: str = "") -> None:
        """Count a fault, and warn of it if it is the first of its place, type and ``kind``."""
        if not isinstance(error, Exception):  # a SystemExit must not end Tune's loop
            error = RuntimeError(error_text(error))
        self.count += 1
        self._first = self._first or error
        seen = (name, type(error).__name__, kind)
        if seen in self.problems:
            return
        is_debug = logger.isEnabledFor(logging.DEBUG)
        more = redacted("\n" + "".join(traceback.format_exception(error))) if is_debug else ""
        text = f"{name}: {shown(action, repr)[1:-1]} failed ({error_text(error)})"
        self.problems.add(Problem(text, remedy=_GOES_ON + more), seen)

    def raise_first(self) -> None:
        """Raise the first error that was reported, if strict."""
        if self.strict and self._first is not None:
            error, self._first = self._first, None
            raise error
