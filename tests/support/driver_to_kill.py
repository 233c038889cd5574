"""An experiment of one fake trial, in a process that is killed at a given place: ``driver_to_kill.py FOLDER PLACE``.

Everything that it reports is told in ``told.jsonl`` before, and each call of its backend in ``calls.jsonl``.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tune_media as tm
from tests.support.fake_trial import FakeTrial
from tests.support.faults import clip, episodes, wait_until
from tests.support.json_lines import read_lines, write_line
from tests.support.killed_process import INDEX, LOG, exit_when, has, state_after_kill

CALM = 3  # results before the one at which it is killed
KEYS = ("best", "my key/best of 3?", "weights", "worst")  # ``best`` and ``worst`` share a file
PLACES = ("append", "log", "file", "index", "tracker")


def report(callback: Any, trial: FakeTrial, folder: Path, iteration: int) -> dict[str, Any]:
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
    """Tells of each call at its end, unless it is told to do something else."""

    name = "tells"

    def __init__(self, folder: Path, instead: Callable[[list[Any]], None] = lambda what: None) -> None:
        self.file, self._instead = folder / "calls.jsonl", instead

    def metrics(self, trial, report):
        self._call(["metrics", report.training_iteration], report.row)

    def media(self, trial, entry):
        self._call(["media", entry.training_iteration, entry.key, entry.medium.id], entry.row)

    def _call(self, what: list[Any], row: int) -> None:
        self._instead(what)
        write_line(self.file, [*what, row])


def calls(folder: Path) -> list[tuple[Any, ...]]:
    """Return the calls of a ``Tells``, the row of each at its end."""
    return [tuple(call) for call in read_lines(folder / "calls.jsonl")]


def told(folder: Path) -> list[dict[str, Any]]:
    """Return the key, id and iteration of everything that was reported."""
    return read_lines(folder / "told.jsonl")


def kill_at(folder: Path, place: str) -> dict[str, Any]:
    """Run ``main`` in a process of its own until it is killed; return the state that Tune saved of its callback."""
    state = state_after_kill(__file__, folder, place)
    if place == "append":
        (folder / LOG).parent.unlink()
    return state


def main(folder: Path, place: str) -> None:
    trial, file = FakeTrial(folder), f"step_{CALM + 1:09d}*"
    media = Path(trial.storage.trial_fs_path, "media")
    last = rb'"training_iteration": ?%d\b' % (CALM + 1)
    has_happened: dict[str, Callable[[], Any]] = {
        "log": lambda: has(folder, LOG, last),
        "file": lambda: any(media.glob(f"*/*/{file}")),
        "index": lambda: has(folder, INDEX, last),
    }

    def instead(what: list[Any]) -> None:
        if place == "append":
            time.sleep(60)
        if place == "tracker" and what[:2] == ["media", CALM + 1]:
            os._exit(9)

    if place == "append":  # nothing gets as far as the storage or the tracker
        (folder / LOG).parent.parent.mkdir()
        (folder / LOG).parent.touch()
    callback = tm.MediaLoggerCallback(Tells(folder, instead))
    callback.log_trial_start(trial)
    for iteration in range(1, CALM + 1):
        report(callback, trial, folder, iteration)
    if place != "append":
        wait_until(lambda: sum(call[:2] == ("media", CALM) for call in calls(folder)) > len(KEYS))  # and the episodes
        wait_until(lambda: any(media.glob(f"train/best/step_{CALM:09d}*")))
    (folder / "state").write_bytes(pickle.dumps(callback.get_state()))
    if place in has_happened:
        exit_when(has_happened[place])
    report(callback, trial, folder, CALM + 1)
    if place == "append":
        os._exit(9)
    if place == "index":
        callback.log_trial_end(trial)
    time.sleep(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
