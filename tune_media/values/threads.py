"""Starts threads on machines that may allow no more of them."""

from __future__ import annotations

import errno
import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

from tune_media.values.foreign import shown

logger = logging.getLogger("tune_media")


def start_thread(name: str, work: Callable[..., Any], *arguments: Any) -> threading.Thread | None:
    """Start a daemon and return it; None if the system allows no more threads now, so that the caller tries again.

    >>> start_thread("tune_media sum", sum, [1, 2]).join()
    """
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # a limit of processes, or the interpreter ends
        _warn(name, str(error))
        return None
    return thread


def is_refusal(error: BaseException) -> bool:
    """Return whether code of others failed since the system allows no more threads or processes now: that passes.

    >>> is_refusal(RuntimeError("can't start new thread")), is_refusal(ValueError("bad"))
    (True, False)
    """
    return getattr(error, "errno", None) == errno.EAGAIN or "can't start new thread" in shown(error, str)


@functools.cache
def _warn(name: str, reason: str) -> None:
    logger.warning(
        "tune_media: the thread %r did not start (%s); it is tried again. If that goes on, raise the limit of "
        "processes (ulimit -u, or pids.max of the container).",
        name,
        reason,
    )
