"""A sweep with a clip that becomes suspect, in a process that ends at a place: ``suspects_to_kill.py FOLDER PLACE``.

The state that Tune saved last is in ``state``.
"""

from __future__ import annotations

import functools
import pickle
import sys
import time
from pathlib import Path

from tests.support.driven_sweep import Sweep
from tests.support.faults import wait_until
from tests.support.killed_process import LOG, OUTBOX, changes_of, exit_when, has, state_after_kill, versions
from tests.support.taped import taped_clip
from tests.support.tapes_to_kill import Tells, calls
from tune_media.replay.verdicts import Verdict, decide

PLACES = ("outbox 4", "outbox 5", "outbox 6", "logged", "told by others")  # so many of its changes were seen


class Marks(Tells):
    """Tells of each clip and of each mark that it has got, and of ends."""

    def suspect(self, trial, entry):
        super().media(trial, entry)


kill_at = functools.partial(state_after_kill, __file__)


def main(folder: Path, place: str) -> None:
    """Run until the process is killed."""
    sweep = Sweep(folder, backend=Marks(folder))
    first = taped_clip(1, ballast=str(folder))
    sweep.report(1, best=first)
    wait_until(lambda: calls(folder) and (sweep.path / "media/train/best").exists())
    (folder / "state").write_bytes(pickle.dumps(sweep.callback.get_state()))
    changes = changes_of(lambda: versions(folder, OUTBOX))
    most = int(place[-1]) if place.startswith("outbox") else sys.maxsize
    exit_when(lambda: changes() >= most or has(folder, LOG, b"suspect"))
    if place == "told by others":
        decide(first.recipe.hash, Verdict(False, "somebody saw another episode"))
    else:
        sweep.report(2, best=taped_clip(1, jump=1, ballast=str(folder)))
    time.sleep(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
