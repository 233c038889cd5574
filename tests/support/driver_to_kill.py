"""An experiment of one fake trial, in a process that is killed at a given place: ``driver_to_kill.py FOLDER PLACE``.

Everything that it reports is told in ``told.jsonl`` before, and each call of its backend in ``calls.jsonl``.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tune_media as tm
from tests.support.fake_trial import FakeTrial
from tests.support.faults import clip, episodes
from tests.support.json_lines import read_lines, write_line
from tests.support.killed_process import state_after_kill
from tune_media.callbacks import session
from tune_media.callbacks.readers import Reader
from tune_media.storage.experiment_log import ExperimentLog
from tune_media.storage.index import Index

CALM = 3  # results before the one at which it is killed
KEYS = ("best", "my key/best of 3?", "weights", "worst")  # ``best`` and ``worst`` share a file
PLACES = ("append", "log", "file", "index", "tracker")


def report(callback: Any, trial: FakeTrial, folder: Path, iteration: int) -> dict[str, Any]:
    """Show a result to a callback, as Tune does."""
    shared, other, weights = clip(iteration, 64), clip(100 + iteration), tm.Histogram(np.arange(10.0 * iteration))
    batch = episodes("e", iteration)
    ids = {"best": shared.id, "worst": shared.id, "my key/best of 3?": other.id, "weights": weights.id}
    for key, id in [*ids.items(), ("episodes/data", batch.id)]:
        write_line(folder / "told.jsonl", {"key": key, "id": id, "training_iteration": iteration})
    result = {"best": shared, "worst": shared, "my key": {"best of 3?": other}, "weights": weights}
    result |= {"training_iteration": iteration, "level": float(iteration)}
    result["evaluation"] = {"env_runners": {"episodes": {"data": batch}}}
    callback.log_trial_result(iteration, trial, result)
    trial.last_result = result
    return result


class Tells(tm.Backend):
    """Tells of each call, at its beginning and at its end."""

    name = "tells"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def metrics(self, trial, report):
        self._call(["metrics", report.training_iteration])

    def media(self, trial, entry):
        self._call(["media", entry.training_iteration, entry.key, entry.medium.id])

    def _call(self, what: list[Any]) -> None:
        write_line(self.folder / "calls.jsonl", {"call": what, "done": False})
        if _exits.get("tracker") and what[0] == "media":
            _end()
        write_line(self.folder / "calls.jsonl", {"call": what, "done": True})


def calls(folder: Path) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the calls of a ``Tells`` that have begun, and those that have ended."""
    found = read_lines(folder / "calls.jsonl")
    begun, done = ([tuple(call["call"]) for call in found if call["done"] is is_done] for is_done in (False, True))
    return begun, done


def told(folder: Path) -> list[dict[str, Any]]:
    """Return the key, id and iteration of everything that was reported."""
    return read_lines(folder / "told.jsonl")


kill_at = functools.partial(state_after_kill, __file__)
_exits: dict[str, bool] = {}
_has_reported = threading.Event()


def _end() -> None:
    _has_reported.wait(60)  # a reader may still be at the result before it
    os._exit(9)


def _exit_after(kind: type, method: str, place: str, *, before: bool = False) -> None:
    whole: Callable[..., Any] = getattr(kind, method)

    def exits(*arguments: Any, **more: Any) -> Any:
        if _exits.get(place) and before:
            _end()
        done = whole(*arguments, **more)
        if _exits.get(place):
            _end()
        return done

    setattr(kind, method, exits)


def main(folder: Path, place: str) -> None:
    """Run until the process is killed."""
    if place == "append":
        Reader.begin = lambda self: None  # no reader gets so far, and nobody waits for one
        session._LOAD_SECONDS = session._SETTLE_SECONDS = 0.0
    _exit_after(ExperimentLog, "append", "log")
    _exit_after(Index, "add", "file", before=True)
    _exit_after(Index, "copy", "index", before=True)
    callback, trial = tm.MediaLoggerCallback(Tells(folder)), FakeTrial(folder)
    callback.log_trial_start(trial)
    for iteration in range(1, CALM + 1):
        report(callback, trial, folder, iteration)
        (folder / "state").write_bytes(pickle.dumps(callback.get_state()))
    if place != "append":
        while sum(call[:2] == ("media", CALM) for call in calls(folder)[1]) <= len(KEYS):  # and the episodes' data
            time.sleep(0.01)
    _exits[place] = True
    report(callback, trial, folder, CALM + 1)
    _has_reported.set()
    if place == "append":
        os._exit(9)
    time.sleep(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
