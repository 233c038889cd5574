"""An experiment whose clip comes as a tape, in a process that ends at a place: ``tapes_to_kill.py FOLDER PLACE``.

Its backend tells of each clip in ``calls.jsonl``; the state that Tune saved last is in ``state``.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import tune_media as tm
from tests.support.driven_sweep import Sweep
from tests.support.json_lines import read_lines, write_line
from tests.support.killed_process import LOG, OUTBOX, changes_of, exit_when, has, state_after_kill, versions
from tests.support.taped import taped_clip

PLACES = ("under way", "told to end", "rendered", "logged", "stored")


class Tells(tm.Backend):
    """Tells of each clip that it has got, and of ends."""

    name = "tells"

    def __init__(self, folder: Path) -> None:
        self.file = folder / "calls.jsonl"

    def media(self, trial, entry):
        assert entry.content()
        write_line(self.file, ["media", entry.training_iteration, entry.medium.id])

    def end(self, trial, status):
        write_line(self.file, ["end", status])


def calls(folder: Path) -> list[list[Any]]:
    """Return what a ``Tells`` has told."""
    return read_lines(folder / "calls.jsonl")


kill_at = functools.partial(state_after_kill, __file__)


def main(folder: Path, place: str) -> None:
    sweep = Sweep(folder, backend=Tells(folder))
    sweep.report(1, score=1.0)
    gate = folder / "gate"
    clip = taped_clip(1, gate=str(gate), tells=str(folder / "under way"))
    sweep.report(2, best=clip)
    (folder / "state").write_bytes(pickle.dumps(sweep.callback.get_state()))
    while place in ("under way", "told to end"):
        if (folder / "under way").exists():
            sys.exit(9) if place == "told to end" else os._exit(9)
        time.sleep(0.01)
    has_happened = {
        "rendered": changes_of(lambda: versions(folder, OUTBOX)),
        "logged": lambda: has(folder, LOG, rb'"status": ?"stored"'),
        "stored": lambda: any(sweep.path.glob("media/*/*/*.mp4")),
    }
    exit_when(has_happened[place])
    gate.touch()
    time.sleep(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
