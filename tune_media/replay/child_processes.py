"""Tells whether an env has started processes, such as a simulator."""

from __future__ import annotations

import contextlib
from pathlib import Path

HAS_CHILDREN = (
    "processes were started while env {} was made or reset; if one is a simulator with a port or a license, another "
    "env like it might take that"
)
_NO_SIMULATORS = (b"tune_media.replay.child", b"multiprocessing.resource_tracker")


def all_children() -> set[int]:
    """Return the ids of this process's child processes; on Linux only, elsewhere none are seen."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids |= {int(child) for child in task.read_text().split()}
    return pids


def child_processes() -> set[int]:
    """Return the ids of the child processes that may be simulators: all but ours and Python's."""
    simulators = set()
    for child in all_children():
        with contextlib.suppress(OSError):  # it has ended
            command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
            if not any(name in command for name in _NO_SIMULATORS):
                simulators.add(child)
    return simulators
