"""An experiment with a tiled clip, in a process that ends at a place: ``tiles_to_kill.py FOLDER PLACE``."""

from __future__ import annotations

import functools
import os
import pickle
import sys
import time
from pathlib import Path

import numpy as np

import tune_media as tm
from tests.support.driven_sweep import Sweep
from tests.support.killed_process import exit_when, state_after_kill
from tests.support.tapes_to_kill import Tells
from tune_media.callbacks.outbox import Outbox
from tune_media.callbacks.tiler import Tiler
from tune_media.values.tiled import ClipTile, TiledClips

PLACES = ("appended", "under way", "made", "stored")

kill_at = functools.partial(state_after_kill, __file__)


def main(folder: Path, place: str) -> None:
    sweep = Sweep(folder, backend=Tells(folder))
    clip = tm.Video(np.full((4, 64, 64, 3), 90, np.uint8), fps=10)
    if place in ("appended", "under way"):
        method = "may_make" if place == "appended" else "_answer"
        setattr(Tiler, method, lambda *_: os._exit(9) if (folder / "state").exists() else False)
    elif place == "made":
        replace = Outbox._replace_tape
        Outbox._replace_tape = lambda *given: os._exit(9 * replace(*given))  # type: ignore[method-assign]
    else:
        exit_when(lambda: any(sweep.path.glob("media/*/tiled/*.mp4")) and (folder / "state").exists())
    sweep.report(1, best=clip, tiled=TiledClips([ClipTile("best", "return 1", clip)]))
    (folder / "part").write_bytes(pickle.dumps(sweep.callback.get_state()))
    (folder / "part").rename(folder / "state")
    time.sleep(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
