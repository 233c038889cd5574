"""Tells whether an env has started processes, such as a simulator."""

from __future__ import annotations

import contextlib
from pathlib import Path

HAS_CHILDREN = (
    "env {} has started processes of its own, such as a simulator with a port or a license; another env like it might "
    "take that"
)
_NO_SIMULATORS = (b"tune_media.replay.child", b"multiprocessing.resource_tracker")


def child_processes() -> set[int]:
    """Return the ids of this process's child processes, without our own; on Linux only, elsewhere none are found."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids |= {int(child) for child in task.read_text().split()}
    return {child for child in pids if not _is_known(child)}


def _is_known(process: int) -> bool:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ")
        return any(name in command for name in _NO_SIMULATORS)
    return True  # it has ended
