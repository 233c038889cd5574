"""Waits for what another process or thread does; it needs no Ray."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any


def wait_until(is_so: Callable[[], Any], seconds: float = 60) -> None:
    for _ in range(round(seconds / 0.02)):
        with contextlib.suppress(FileNotFoundError):  # another process deletes files while it looks
            if is_so():
                return
        time.sleep(0.02)
    raise AssertionError("it never was so")
