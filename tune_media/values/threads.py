"""Starts threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def start_thread(name: str, work: Callable[..., Any], *arguments: Any) -> threading.Thread:
    """Start a daemon and return it. Raises RuntimeError if the system allows no more, or the interpreter ends.

    >>> start_thread("tune_media sum", sum, [1, 2]).join()
    """
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return thread
