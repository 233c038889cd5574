"""A sweep with a clip that becomes suspect, in a process that ends at a place: ``suspects_to_kill.py FOLDER PLACE``.

The state that Tune saved last is in ``state``.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.driven_sweep import Sweep
from tests.support.faults import wait_until
from tests.support.killed_process import state_after_kill
from tests.support.taped import taped_clip
from tests.support.tapes_to_kill import Tells
from tune_media.callbacks.outbox import NewRow, Outbox
from tune_media.replay.verdicts import Verdict, decide
from tune_media.storage.experiment_log import ExperimentLog

PLACES = ("verdict", "its row", "the mark's row", "logged", "told by others")


class Marks(Tells):
    """Tells of each clip and of each mark that it has got, and of ends."""

    def suspect(self, trial, entry):
        super().media(trial, entry)


kill_at = functools.partial(state_after_kill, __file__)


def main(folder: Path, place: str) -> None:
    """Run until the process is killed."""
    replace_tape, append, log = Outbox.replace_tape, Outbox.append, ExperimentLog.append

    def replaces(self: Outbox, seq: int, row: NewRow, *more: Any) -> bool:
        is_failed = row.content is None
        if place == "verdict" and is_failed:
            os._exit(9)
        done = replace_tape(self, seq, row, *more)
        if place == "its row" and is_failed:
            os._exit(9)
        return done

    def appends(self: Outbox, rows: Any, *more: Any) -> int:
        last = append(self, rows, *more)
        if place in ("the mark's row", "told by others") and any(row.kind == "suspect" for row in rows):
            os._exit(9)
        return last

    def logs(self: ExperimentLog, lines: Any) -> None:
        lines = list(lines)
        log(self, lines)
        if any(line.get("event") == "suspect" for line in lines):
            os._exit(9)

    Outbox.replace_tape, Outbox.append, ExperimentLog.append = replaces, appends, logs  # type: ignore[method-assign]
    sweep = Sweep(folder, backend=Marks(folder))
    first = taped_clip(1, ballast=str(folder))
    sweep.report(1, best=first)
    wait_until(lambda: (sweep.path / "media/train/best").exists())
    sweep.settle()
    (folder / "state").write_bytes(pickle.dumps(sweep.callback.get_state()))
    if place == "told by others":
        decide(first.recipe.hash, Verdict(False, "somebody saw another episode"))
    else:
        sweep.report(2, best=taped_clip(1, jump=1, ballast=str(folder)))
    time.sleep(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
