"""Trainables that write down on their own what they report, and the comparison with what is there."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
from fsspec.implementations.local import LocalFileSystem
from ray import tune

import tune_media as tm
from tests.support.experiment import tensorboard_events
from tests.support.json_lines import read_lines, write_line

LOCAL = pyarrow.fs.LocalFileSystem()


def clip(level: int) -> list[np.ndarray]:
    return [np.full((16, 24, 3), (40 * level + 60 * index) % 256, np.uint8) for index in range(3)]


def tell(log: str | Path, **line: Any) -> None:
    """Add a line to what the trainables of a run tell."""
    write_line(Path(log) / "told.jsonl", {**line, "pid": os.getpid(), "time": time.time()})


def told(log: str | Path) -> list[dict[str, Any]]:
    """Return what the trainables told, in the order of time."""
    return sorted(read_lines(Path(log) / "told.jsonl"), key=lambda line: line["time"])


class Accepted(tune.Callback):
    """Notes which results Tune hands to callbacks: the ids of their clips, by trial, in order."""

    def __init__(self) -> None:
        self.ids: dict[str, list[str]] = defaultdict(list)

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.ids[trial.trial_id].append(result["told"])


class SlowStorage(LocalFileSystem):
    """Takes its time with every medium that is written."""

    def _open(self, path, mode="rb", **more):
        if "w" in mode and "/media/train/" in path:
            time.sleep(0.2)
        return super()._open(path, mode, **more)


def slot_of(trial_id: str) -> int:
    """Return the trial's number in its sweep, which stays whatever PBT does to its config."""
    return int(trial_id.split("_")[1])


def make_result(log: str | Path, trial: str, iteration: int, **more: Any) -> dict[str, Any]:
    """Make a result with a clip, and tell of it; whatever is told is then reported."""
    video = tm.Video(clip(iteration), fps=5)
    weights = tm.Histogram(np.arange(10.0 * iteration))
    tell(log, trial=trial, iteration=iteration, id=video.id, histogram=weights.id, **more)
    return {"rollout": video, "weights": weights, "told": video.id, "level": float(iteration)}


def load_state(trial: str) -> dict[str, Any]:
    """Return what the checkpoint says of where the trial is and who has been there before it."""
    state = {"iteration": 0, "clock": 0.0, "by": trial, "lineage": []}
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            state = json.loads((Path(folder) / "state.json").read_text())
    if state["by"] != trial:
        state["lineage"] = [f"{state['by']}@{state['iteration']}", *state["lineage"]]
        state["by"] = trial
    return state


def report(result: dict[str, Any], state: dict[str, Any] | None) -> None:
    """Report a result, with a checkpoint where there is a state to keep."""
    if state is None:
        tune.report(result)
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "state.json").write_text(json.dumps(state))
        tune.report(result, checkpoint=tune.Checkpoint.from_directory(folder))


def index_lines(trial_folder: str, filesystem: pyarrow.fs.FileSystem = LOCAL) -> list[dict[str, Any]]:
    """Return the lines of an index; each of them must be whole."""
    with filesystem.open_input_stream(f"{trial_folder}/media/index.jsonl") as stream:
        content = stream.read()
    assert content.endswith(b"\n")
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def stored_files(folder: str | Path, filesystem: pyarrow.fs.FileSystem = LOCAL) -> list[str]:
    """Return the media files below a trial's folder, relative to it and sorted, whatever the index says."""
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(f"{folder}/media", recursive=True, allow_not_found=True))
    paths = [info.path for info in found if info.is_file and info.base_name != "index.jsonl"]
    root = f"{folder}/"  # some filesystems leave a part of it out of what they find
    return sorted(path.removeprefix(root) if root in path else path[path.index("media/") :] for path in paths)


def superseded(iterations: Iterable[int]) -> list[bool]:
    """Return of each reported iteration whether the trial went back to it, or to before it, later on."""
    iterations = list(iterations)
    return [any(later <= now for later in iterations[at + 1 :]) for at, now in enumerate(iterations)]


def assert_files_and_index_agree(folder: str, filesystem: pyarrow.fs.FileSystem = LOCAL) -> list[dict[str, Any]]:
    """Assert that a trial's index lists each of its files once, as it is, and nothing else; return its lines."""
    lines = index_lines(folder, filesystem)
    keys = [(line["id"], line["section"], line["key"]) for line in lines]
    assert sorted(keys) == sorted(set(keys)), "a medium is listed twice"
    assert {line["status"] for line in lines} <= {"stored"}
    paths = [line["path"] for line in lines]
    assert sorted(paths) == sorted(set(paths)), "two media have one file"
    assert stored_files(folder, filesystem) == sorted(paths)
    for line in lines:
        with filesystem.open_input_stream(f"{folder}/{line['path']}") as stream:
            content = stream.read()
        assert len(content) == line["bytes"]
        assert hashlib.sha256(content).hexdigest() == line.get("sha256") or ("sha256" not in line and line.get("note"))
    return lines


def assert_tensorboard_shows_once(folder: str | Path) -> dict[str, list[int]]:
    """Assert that the steps of every tag only go up; return the steps of each tag."""
    events = tensorboard_events(folder)
    tags = events.Tags()
    readers = {"scalars": events.Scalars, "images": events.Images, "histograms": events.Histograms}
    steps = {tag: [event.step for event in read(tag)] for kind, read in readers.items() for tag in tags[kind]}
    doubled = {tag: found for tag, found in steps.items() if found != sorted(set(found))}
    assert not doubled
    return steps


def assert_life(
    folder: str | Path, trial: str, lines_told: list[dict[str, Any]], accepted: list[str] | None = None
) -> list[dict[str, Any]]:
    """Assert that what a trial told is on storage, in the index and in TensorBoard: each once, marked as it should be.

    ``lines_told`` are of all trials; ``accepted`` are the clips that Tune accepted, in order.
    """
    mine = [line for line in lines_told if line["trial"] == trial and "id" in line]
    if accepted is not None:
        assert [line["id"] for line in mine] == accepted
    results = [json.loads(line) for line in Path(folder, "result.json").read_text().splitlines()]
    assert [result["training_iteration"] for result in results] == [line["iteration"] for line in mine]
    lines = [line for line in assert_files_and_index_agree(str(folder)) if line["trial_id"] == trial]
    for key, id_of in (("rollout", "id"), ("weights", "histogram")):
        listed = {line["id"]: line for line in lines if line["key"] == key}
        assert sorted(listed) == sorted(line[id_of] for line in mine)
        wanted = {line[id_of]: (line["iteration"], line.get("lineage") or None) for line in mine}
        got = {id: (line["training_iteration"], line.get("lineage")) for id, line in listed.items()}
        assert got == wanted
        gone = superseded(line["iteration"] for line in mine)
        marked = {id: line.get("rolled_back", False) for id, line in listed.items()}
        assert marked == {line[id_of]: is_gone for line, is_gone in zip(mine, gone, strict=True)}
    left = [line["iteration"] for line, is_gone in zip(mine, gone, strict=True) if not is_gone]
    steps = assert_tensorboard_shows_once(folder)
    assert {tag: steps[tag] for tag in ("train/rollout", "train/weights", "ray/tune/level")} == {
        "train/rollout": left,
        "train/weights": left,
        "ray/tune/level": left,
    }
    return lines
