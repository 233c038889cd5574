"""Tells whether an env has started processes, such as a simulator."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tune_media.values.child_process import own_processes

HAS_CHILDREN = (
    "processes were started while env {} was made or reset; if one is a simulator with a port or a license, another "
    "env like it might take that"
)
_NO_SIMULATOR = b"multiprocessing.resource_tracker"


def all_children() -> set[int]:
    """Return the ids of this process's child processes; on Linux only, elsewhere none are seen."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids |= {int(child) for child in task.read_text().split()}
    return pids


def child_processes() -> set[int]:
    """Return the ids of the child processes that may be simulators: all but ours and Python's."""
    children = all_children()
    simulators = set()
    for child in children - own_processes():  # asked for in this order: none is started in between
        with contextlib.suppress(OSError):  # it has ended
            command = Path(f"/proc/{child}/cmdline").read_bytes()  # empty once it has ended
            if command and _NO_SIMULATOR not in command.replace(b"\0", b" "):
                simulators.add(child)
    return simulators
