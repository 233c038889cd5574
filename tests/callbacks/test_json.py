import copy
import json
import logging
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tune_media.ray_compat import json_files


class Own(JsonLoggerCallback):
    """A user's own JSON logger."""


def scores(folder, trial="t1"):
    lines = (folder / "driver/staging" / trial / "result.json").read_text().splitlines()
    return [json.loads(line)["score"] for line in lines]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: [tm.JsonMediaLoggerCallback(), JsonLoggerCallback()], "JsonLoggerCallback writes them"),
        (lambda: [JsonLoggerCallback(), tm.JsonMediaLoggerCallback()], "JsonLoggerCallback writes them"),
        (lambda: [Own(), tm.JsonMediaLoggerCallback()], "Own writes them"),
        (lambda: [tm.JsonMediaLoggerCallback(), tm.JsonMediaLoggerCallback()], "the first one writes them"),
    ],
    ids=["ours-rays", "rays-ours", "own-ours", "ours-ours"],
)
def test_two_json_loggers_write_each_line_once(tmp_path, caplog, make, says):
    with caplog.at_level(logging.WARNING, "tune_media"):
        run(make(), FakeTrial(tmp_path), [{"score": 1}, {"score": 2}])
    assert scores(tmp_path) == [1, 2]
    (said,) = [r.getMessage() for r in caplog.records if "result.json" in r.getMessage()]
    assert says in said
    assert "Pass only JsonMediaLoggerCallback" in said


def sync(folder, trial):
    target = folder / "storage" / trial.trial_id / "result.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(trial.local_path) / "result.json", target)
    trial.checkpoint = "a checkpoint"  # if a trial has one, Ray's logger takes the storage's copy when it starts


def test_a_trial_that_goes_on_keeps_the_lines_that_are_not_on_the_storage_yet(tmp_path):
    callback, trial = tm.JsonMediaLoggerCallback(), FakeTrial(tmp_path)
    callback.setup()
    callback.on_trial_start(0, [trial], trial)
    for score in (1, 2, 3):
        callback.on_trial_result(score, [trial], trial, {"score": score, "training_iteration": score})
        if score == 2:
            sync(tmp_path, trial)
    trial.config = {"lr": 0.5}
    callback.on_trial_start(3, [trial], trial)  # after a pause, say
    callback.on_trial_result(4, [trial], trial, {"score": 4, "training_iteration": 4})
    callback.on_trial_complete(4, [trial], trial)
    callback.on_experiment_end([trial])
    assert scores(tmp_path) == [1, 2, 3, 4]
    assert json.loads(Path(trial.local_path, "params.json").read_text()) == {"lr": 0.5}


def test_a_restored_driver_goes_on_from_the_copy_on_the_storage(tmp_path):
    first, trial = tm.JsonMediaLoggerCallback(), FakeTrial(tmp_path)
    run([first], trial, [{"score": 1}, {"score": 2}])
    sync(tmp_path, trial)
    shutil.rmtree(tmp_path / "driver")  # a restored sweep has another folder
    trial.init_local_path()
    run([tm.JsonMediaLoggerCallback()], trial, [{"score": 3, "training_iteration": 3}])
    assert scores(tmp_path) == [1, 2, 3]


def place_in_session(session, trial):
    staging = session / "artifacts" / "2026" / "sweep" / "driver_artifacts"
    trial.storage.experiment_driver_staging_path, trial.local_path = str(staging), str(staging / trial.trial_id)
    trial.init_local_path()


@pytest.mark.parametrize("has_earlier", [False, True])
@pytest.mark.parametrize(("left", "kept"), [(0, 0), (30, 0), (-3, 1), ("a line", 1)])
def test_a_copy_that_was_cut_off_by_a_kill_is_named_or_completed(tmp_path, caplog, left, kept, has_earlier):
    """Tune's copy truncates the file before it writes; ``tests.kills`` found it, by two kills in a hundred."""
    trial = FakeTrial(tmp_path)
    place_in_session(tmp_path / "session_1", trial)
    run([tm.JsonMediaLoggerCallback()], trial, [{"score": 1}, {"score": 2}])
    sync(tmp_path, trial)
    copied = tmp_path / "storage" / trial.trial_id / "result.json"
    content = copied.read_bytes()
    copied.write_bytes(content[: content.index(b"\n") + 1 if left == "a line" else left])
    if not has_earlier:
        shutil.rmtree(tmp_path / "session_1")
    place_in_session(tmp_path / "session_2", trial)
    trial.last_result = {"training_iteration": 2}
    run([tm.JsonMediaLoggerCallback()], trial, [{"score": 3, "training_iteration": 3}])
    lines = Path(trial.local_path, "result.json").read_text().splitlines()
    assert json.loads(lines[-1])["score"] == 3
    if has_earlier:
        assert [json.loads(line)["score"] for line in lines] == [1, 2, 3]
        assert not caplog.text
    else:
        assert len(lines) == kept + (left not in (0, "a line")) + 1
        assert "trial t1 had 2 results, and the storage's result.json is cut off" in caplog.text


def test_each_trial_whose_copy_was_cut_off_is_named(tmp_path, caplog):
    trials = [FakeTrial(tmp_path, name) for name in ("t1", "t2")]
    for trial in trials:
        trial.last_result, trial.checkpoint = {"training_iteration": 2}, True
        copied = tmp_path / "storage" / trial.trial_id / "result.json"
        copied.parent.mkdir(parents=True)
        copied.write_bytes(b"")
    callback = tm.JsonMediaLoggerCallback()
    callback.setup()
    for trial in trials:
        callback.on_trial_start(0, trials, trial)
    callback.on_experiment_end(trials)
    assert [f"trial {trial.trial_id} had 2 results" in caplog.text for trial in trials] == [True, True]


def test_files_that_were_closed_since_many_trials_run_lose_no_line(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.json._MAX_OPEN", 1)
    callback = tm.JsonMediaLoggerCallback()
    trials = [FakeTrial(tmp_path, name) for name in "ab"]
    callback.setup()
    for trial in trials:
        callback.on_trial_start(0, trials, trial)
    assert len(json_files(callback)) == 1
    for score in (1, 2, 3):
        for trial in trials:
            callback.on_trial_result(score, trials, trial, {"score": score, "training_iteration": score})
            if score == 1:
                sync(tmp_path, trial)
    for trial in trials:
        callback.on_trial_complete(3, trials, trial)
    callback.on_experiment_end(trials)
    assert [scores(tmp_path, name) for name in "ab"] == [[1, 2, 3], [1, 2, 3]]


class Odd:
    def __repr__(self):
        return "odd"


def test_a_line_is_the_one_that_rays_logger_writes_and_nothing_is_said(tmp_path, caplog):
    def result():
        numbers = {"a": np.float32(0.1), "b": np.float64(1e16), "c": np.int64(3), "d": np.bool_(True), "e": 2**70}
        texts = {"ä\u2028": "\n\ud800", 1: None, 1.5: True, None: False, False: Odd(), "set": {1}, "bytes": b"x"}
        nested = [(1, [np.arange(3), {"x": np.zeros((2, 2))}]), float("nan"), float("-inf"), np.float32("nan"), {}]
        return {"score": 1, "numbers": numbers, "texts": texts, "nested": nested, "class": Odd, "training_iteration": 1}

    written = []
    for callback, folder in ((tm.JsonMediaLoggerCallback(), tmp_path / "ours"), (JsonLoggerCallback(), tmp_path / "r")):
        trial = FakeTrial(folder)
        run([callback], trial, [result()])
        written.append((Path(trial.local_path) / "result.json").read_bytes())
    assert written[0] == written[1]
    assert written[0].count(b"\n") == 1
    assert not caplog.records


def test_of_a_result_that_is_no_json_there_is_no_half_line(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.json.result_line", lambda result: 1 / (result["score"] - 2) and "{}\n")
    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), [{"score": 1}, {"score": 2}, {"score": 3}])
    assert (Path(FakeTrial(tmp_path).local_path) / "result.json").read_text() == "{}\n{}\n"


def test_rays_own_tensorboard_logger_survives_a_raw_clip_as_people_report_it_first(tmp_path):
    frames = np.zeros((20, 64, 64, 3), np.uint8)
    trial = FakeTrial(tmp_path)
    run([tm.JsonMediaLoggerCallback(), TBXLoggerCallback()], trial, [{"rollout": frames, "deep": {"clips": [frames]}}])
    (line,) = [json.loads(line) for line in (Path(trial.local_path) / "result.json").read_text().splitlines()]
    assert line["rollout"].endswith(".mp4")
    assert [Path(path).suffix for path in line["deep"]["clips"]] == [".mp4"]


def test_a_config_with_keys_of_two_types_costs_no_result(tmp_path):
    config = {"tiles": {0: "wall", "start": 1, (1, 2): "door"}, "lr": float("inf")}
    trial = FakeTrial(tmp_path, **config)
    run([tm.JsonMediaLoggerCallback()], trial, [{"score": 1.0, "config": copy.deepcopy(config)}])
    folder = tmp_path / "driver/staging/t1"
    stored = json.loads((folder / "params.json").read_text())
    assert stored == {"tiles": {"0": "wall", "start": 1, "(1, 2)": "door"}, "lr": float("inf")}
    assert pickle.loads((folder / "params.pkl").read_bytes()) == config
    assert scores(tmp_path) == [1.0]
