"""The driver is killed at a random moment and its machine is lost: what is restored from the storage is all, once."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pyarrow.fs
import pytest
import ray

from tests.support.processes import driver
from tests.support.trial_life import assert_files_and_index_agree, assert_tensorboard_shows_once, told

SCRIPT = Path(__file__).parents[1] / "support" / "sweep_to_kill.py"
LENGTH = 8  # results of each trial after it was restored
OFTEN = {"TUNE_GLOBAL_CHECKPOINT_S": "1"}  # Tune brings its state to the storage every second, not every ten


ON_THIS_RAY = ("local", 2) if ray.__version__.startswith("2.50.") else ("s3", 5)  # each takes half a minute


@pytest.mark.parametrize(("storage", "seed"), [ON_THIS_RAY])
def test_a_killed_sweep_is_restored_from_its_storage(request, tmp_path, storage, seed):
    if storage == "s3":
        request.getfixturevalue("s3")
    place = "s3://results/restored" if storage == "s3" else str(tmp_path / "results")
    filesystem, folder = pyarrow.fs.FileSystem.from_uri(place)
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    delay = random.Random(seed).uniform(0, 2)
    print(f"seed {seed}: killed {delay:.3f} s after the state of two trials was on the storage")

    experiment = f"{folder}/killed"
    told_before = {"TOLD": str(before), "LENGTH": "1000", **OFTEN}
    told_after = {"TOLD": str(after), "LENGTH": str(LENGTH), **OFTEN}
    with driver(SCRIPT, "start", place, log=tmp_path / "started.log", **told_before) as first:
        first.wait_until(lambda: len({one["trial"] for one in told(before)}) == 2 and is_saved(filesystem, experiment))
        time.sleep(delay)
        assert first.process.poll() is None, first.output()
        kill_outside_of_copies(first, filesystem, experiment)
    with driver(SCRIPT, "restore", place, log=tmp_path / "restored.log", **told_after) as second:
        second.finish()

    trials = {line["trial"] for line in told(before)}
    assert len(trials) == 2
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(experiment))
    folders = {info.path for info in found if not info.is_file and not info.base_name.startswith(".")}
    assert len(folders) == 2
    for trial in trials:
        (trial_folder,) = [path for path in folders if trial in path]
        assert_restored(filesystem, trial_folder, lines_of(before, trial), lines_of(after, trial), tmp_path)


def is_saved(filesystem, experiment):
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(experiment, allow_not_found=True))
    for info in found:
        if info.base_name.startswith("experiment_state-"):
            with filesystem.open_input_stream(info.path) as stream:
                return stream.read().count(b"training_iteration") >= 2
    return False


def kill_outside_of_copies(sweep, filesystem, experiment):
    """Kill a driver when Tune's own files are whole: Tune copies them to a folder piece by piece, and reads no part."""
    until = time.monotonic() + 60
    sweep.process.send_signal(signal.SIGSTOP)
    while not are_whole(filesystem, experiment):
        assert time.monotonic() < until, "Tune's files are never whole"
        sweep.process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        sweep.process.send_signal(signal.SIGSTOP)
    sweep.kill()


def are_whole(filesystem, experiment):
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector(experiment)):
        if info.is_file and not info.base_name.startswith("."):
            with filesystem.open_input_stream(info.path) as stream:
                if not stream.read().endswith((b"}", b".")):
                    return False
    return True


def lines_of(log, trial):
    return [line for line in told(log) if line["trial"] == trial]


def assert_restored(filesystem, folder, before, after, tmp_path):
    with filesystem.open_input_stream(f"{folder}/result.json") as stream:
        results = [json.loads(line) for line in stream.read().splitlines()]
    history = {result["training_iteration"]: result for result in results}  # the last of each iteration
    back_to = after[0]["iteration"]
    new = list(range(back_to, back_to + LENGTH))
    assert [line["iteration"] for line in after] == [i for i in sorted(history) if i >= back_to] == new

    lines = assert_files_and_index_agree(folder, filesystem)
    all_ids = [line[name] for line in (*before, *after) for name in ("id", "histogram")]
    assert all(line["id"] in all_ids and line["training_iteration"] == line["step"] for line in lines)
    assert len({line["id"] for line in lines}) == len(lines)
    clips = {line["id"]: line for line in lines if line["key"] == "rollout"}
    for iteration, result in history.items():
        line = clips[result["told"]]
        assert (line["path"], line["training_iteration"]) == (result["rollout"], iteration)
        assert not line.get("rolled_back")
    assert {line["id"] for line in after} <= clips.keys()
    reported = {line[name]: line["iteration"] for line in before for name in ("id", "histogram")}
    for line in lines:
        was_before = line["id"] in reported
        assert bool(line.get("rolled_back")) == (was_before and line["training_iteration"] >= back_to)
        assert not was_before or line["training_iteration"] == reported[line["id"]]

    events = tmp_path / "events" / Path(folder).name
    events.mkdir(parents=True)
    pyarrow.fs.copy_files(folder, str(events), source_filesystem=filesystem)
    steps = assert_tensorboard_shows_once(events)
    for tag in ("train/rollout", "train/weights", "ray/tune/level"):
        assert [step for step in steps[tag] if step >= back_to] == new
