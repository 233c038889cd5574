"""Storage that is no plain path, and reading what there is while the sweep goes on."""

from __future__ import annotations

import time
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem, SubTreeFileSystem
from ray import tune

import tune_media as tm
from tests.support.experiment import fit
from tests.support.trial_life import (
    LOCAL,
    Accepted,
    assert_files_and_index_agree,
    assert_life,
    load_state,
    make_result,
    report,
    told,
)


def fsspec_dir(folder):
    return PyFileSystem(FSSpecHandler(DirFileSystem(path=str(folder), fs=LocalFileSystem(auto_mkdir=True)))), "results"


def fsspec_memory(folder):
    return PyFileSystem(FSSpecHandler(fsspec.filesystem("memory"))), f"/{folder.name}"


def subtree(folder):
    return SubTreeFileSystem(str(folder), LOCAL), "results"


def train(config):
    trial = tune.get_context().get_trial_id()
    state = load_state(trial)
    for iteration in range(1, 5):
        state["iteration"] = iteration
        report(make_result(config["log"], trial, iteration), state if config["saves"] else None)


@pytest.mark.parametrize("make", [fsspec_dir, fsspec_memory, subtree])
def test_any_filesystem_that_tune_takes(ray_session, tmp_path, make):
    log = tmp_path / "told"
    log.mkdir()
    filesystem, folder = make(tmp_path)
    strict = tm.MediaOptions(strict=True)
    callbacks = [tm.JsonMediaLoggerCallback(strict), tm.TBXMediaLoggerCallback(strict)]
    space = {"log": str(log), "saves": make is not fsspec_memory}  # memory is of the driver's process
    (result,) = fit(train, folder, callbacks, space=space, name="sweep", storage_filesystem=filesystem)
    assert not result.error
    (trial,) = {line["trial"] for line in told(log)}
    lines = assert_files_and_index_agree(result.path, filesystem)
    assert {line["id"] for line in lines if line["key"] == "rollout"} == {line["id"] for line in told(log)}
    assert len(lines) == 8
    catalog = tm.load(f"{folder}/sweep", filesystem)
    assert {row["id"] for row in catalog} == {line["id"] for line in lines}
    for row in catalog:
        assert filesystem.get_file_info(row["file"]).size == row["bytes"]
    if make is not fsspec_memory:
        local = tmp_path / result.path
        assert_life(local, trial, told(log))


class Reader(tune.Callback):
    def __init__(self, experiment):
        self.experiment, self.staging = experiment, ""
        self.seen = {"storage": [], "staging": []}

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.staging = trial.local_experiment_path
        for name, folder in (("storage", self.experiment), ("staging", self.staging)):
            rows = tm.load(folder) if Path(folder).exists() else []
            for row in rows:  # what is listed is there, whole
                assert Path(row["file"]).is_relative_to(self.experiment)
                assert Path(row["file"]).stat().st_size == row["bytes"]
                assert (row["status"], row.get("note"), row.get("frames", 3)) == ("stored", None, 3)
            self.seen[name].append(sorted(row["path"] for row in rows))


def slow(config):
    trial = tune.get_context().get_trial_id()
    for iteration in range(1, 11):
        tune.report(make_result(config["log"], trial, iteration))
        time.sleep(0.2)


def test_what_there_is_can_be_read_at_any_time(ray_session, tmp_path):
    log = tmp_path / "told"
    log.mkdir()
    accepted, reader = Accepted(), Reader(tmp_path / "read")
    callbacks = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback(), accepted, reader]
    (result,) = fit(slow, tmp_path, callbacks, space={"log": str(log)}, name="read")
    assert not result.error
    ((trial, _),) = accepted.ids.items()
    listed = {line["path"] for line in assert_life(result.path, trial, told(log), accepted.ids[trial])}
    for paths in (*reader.seen["storage"], *reader.seen["staging"]):  # of files that were not listed yet, too
        assert len(paths) == len(set(paths))
        assert set(paths) <= listed
    for name in ("storage", "staging"):
        counts = [len(ids) for ids in reader.seen[name]]
        assert counts == sorted(counts)
        assert len({0, *counts}) > 2, f"{name}: nothing new could be read while the sweep went on: {counts}"
    assert {row["id"] for row in tm.load(reader.staging)} == {row["id"] for row in tm.load(tmp_path / "read")}
    assert all(Path(row["file"]).is_file() for row in tm.load(reader.staging))
