import io
import multiprocessing
import os
import threading
import time

import numpy as np
import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem
from ray.tune.callback import CallbackList

import tune_media as tm
from tests.support.batches import batch_of
from tests.support.fake_trial import FakeTrial, run
from tune_media.callbacks import session
from tune_media.storage.index_lines import read_index


def test_an_experiment_ends_well_though_nobody_takes_its_last_line(tmp_path, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stdout", closed)
    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), [{"score": 1}])
    assert session._SESSIONS == {}


def test_callbacks_that_two_experiments_at_once_share_serve_both_and_warn_once(tmp_path, caplog):
    trials = [FakeTrial(tmp_path / name, name, lr=1) for name in ("one", "two")]
    callbacks = CallbackList([tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()])
    threads = threading.active_count()
    for trial in trials:
        callbacks.on_trial_start(iteration=0, trials=[trial], trial=trial)
    for step in range(1, 11):
        for trial in trials:
            result = {"training_iteration": step, "weights": tm.Artifact(bytes([step]), name="weights.bin")}
            callbacks.on_trial_result(iteration=step, trials=[trial], trial=trial, result=result)
    assert threading.active_count() - threads <= 4  # a storage's and TensorBoard's for each
    for trial in trials:
        callbacks.on_trial_complete(iteration=10, trials=[trial], trial=trial)
        callbacks.on_experiment_end(trials=[trial])
    for trial in trials:
        lines, _ = read_index(trial.storage.storage_filesystem, trial.storage.trial_fs_path)
        assert [line.facts["step"] for line in lines] == list(range(1, 11))
    assert session._SESSIONS == {}
    assert caplog.text.count("give each Tuner callbacks of its own") == 2  # one a callback


class Asks(tm.Backend):
    name = "asks for the storage"

    def finish(self):
        self.context.wait_for_storage()


class Slow(tm.Backend):
    name, patience = "slow", 30.0

    def finish(self):
        time.sleep(1.5)


def test_the_time_of_a_slow_tracker_is_not_taken_from_the_storage(tmp_path, caplog):
    media = tm.MediaOptions(flush_seconds=1)
    callbacks = [tm.MediaLoggerCallback(backend, media=media) for backend in (Asks(), Slow())]
    run(callbacks, FakeTrial(tmp_path), [{"weights": tm.Artifact(b"1", name="weights.bin")}])
    assert "did not accept" not in caplog.text


def test_the_end_may_wait_without_limit(tmp_path):
    media = tm.MediaOptions(flush_seconds=float("inf"))
    result = {"weights": tm.Artifact(b"1", name="weights.bin"), "raw": np.zeros((4, 16, 24, 3), np.uint8)}
    run([tm.JsonMediaLoggerCallback(media)], FakeTrial(tmp_path), [result])
    assert session._SESSIONS == {}


def be_killed_with_a_raw_clip(folder):
    callback, trial = tm.JsonMediaLoggerCallback(), FakeTrial(folder)
    callback.log_trial_start(trial)
    frames = np.random.default_rng(0).integers(0, 255, (300, 256, 256, 3), np.uint8)
    callback.log_trial_result(1, trial, {"training_iteration": 1, "clip": frames})
    os._exit(9)


def test_a_raw_clip_that_a_killed_driver_had_not_made_counts_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TUNE_MEDIA_OUTBOX", str(tmp_path / "outbox"))
    (tmp_path / "outbox").mkdir()
    killed = multiprocessing.get_context("spawn").Process(target=be_killed_with_a_raw_clip, args=[tmp_path])
    killed.start()
    killed.join()
    assert killed.exitcode == 9
    trial = FakeTrial(tmp_path)
    run([tm.JsonMediaLoggerCallback()], trial, [{"score": 1}])
    ((line,), _) = read_index(trial.storage.storage_filesystem, trial.storage.trial_fs_path)
    assert line.status == "failed"
    assert "1 could not be stored" in capsys.readouterr().out


def test_a_report_does_not_get_the_name_of_one_that_was_lost_with_its_machine(tmp_path):
    trial = FakeTrial(tmp_path)
    trial.last_result = {"training_iteration": 0}  # so that the name is not made before the storage was looked at
    run([tm.JsonMediaLoggerCallback()], trial, [{"episodes": {"data": batch_of(({"speed": 1.0}, {}))}}])
    folder = tmp_path / "storage" / "t1"
    (lost,) = (folder / "episode_data").glob("*.json")
    (folder / "media" / "index.jsonl").unlink()
    for file in (folder / "episode_data").iterdir():
        file.unlink()
    (done,) = (tmp_path / "storage" / ".tune_media_log").glob("*.done.json")
    done.unlink()  # as a killed driver leaves it
    again = FakeTrial(tmp_path)
    again.last_result = {"training_iteration": 1}
    run([tm.JsonMediaLoggerCallback()], again, [{"episodes": {"data": batch_of(({"speed": 2.0}, {}))}}])
    (new,) = (folder / "episode_data").glob("*.json")
    assert new.name != lost.name
    assert [path.endswith(new.name) for _, path in tm.load(tmp_path / "storage").reports] == [True]


class SlowIndex(LocalFileSystem):
    def _open(self, path, mode="rb", **more):
        if "r" in mode and path.endswith("index.jsonl"):
            time.sleep(1)
        return super()._open(path, mode, **more)


def test_what_comes_again_before_its_index_is_read_counts_again(tmp_path):
    frames = np.random.default_rng(0).integers(0, 255, (4, 16, 24, 3), np.uint8)
    for filesystem in (pyarrow.fs.LocalFileSystem(), pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(SlowIndex()))):
        trial = FakeTrial(tmp_path)
        trial.storage.storage_filesystem = filesystem
        run([tm.JsonMediaLoggerCallback()], trial, [{"clip": frames.copy()}])
    ((line,), _) = read_index(trial.storage.storage_filesystem, trial.storage.trial_fs_path)
    assert not line.rolled_back


@pytest.mark.parametrize("is_everywhere", [True, False])
@pytest.mark.parametrize("name", ["callbacks", "callbacks_class"])
def test_a_recorder_in_the_evaluation_config_only_is_named_before_training(tmp_path, caplog, is_everywhere, name):
    recorder = tm.rllib.record_episodes()
    config = {"evaluation_config": {name: [recorder]}, **({"callbacks": recorder} if is_everywhere else {})}
    callback, trial = tm.JsonMediaLoggerCallback(), FakeTrial(tmp_path, **config)
    callback.log_trial_start(trial)
    assert ("only in evaluation_config (callbacks or callbacks_class)" in caplog.text) != is_everywhere
    callback.log_trial_end(trial)
    callback.on_experiment_end([trial])
