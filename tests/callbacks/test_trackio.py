"""Trackio, where it can be imported: each row once, whatever comes again; nothing leaves this machine."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tests.support.faults import episodes, wait_until
from tests.support.pictures import clip
from tests.support.trackers import read_trackio, trackio_project, trackio_rows
from tune_media.values.installing import pip_install

STRICT = tm.MediaOptions(strict=True)
RUN = "train_t1"


@pytest.fixture
def project(tmp_path, outboxes):
    if importlib.util.find_spec("trackio") is None:
        pytest.skip("trackio is not installed: .ci/beside trackio runs these tests")
    return trackio_project(tmp_path)


def result(at, **more):
    return {"score": float(at), "rollout": clip(10 * at), "timestamp": 1_700_000_000 + at, **more}


def log(folder, project, results, **config):
    trial = FakeTrial(folder, **config)
    run([tm.TrackioMediaLoggerCallback(project, media=STRICT)], trial, results)
    return trial


def run_of(project):
    import trackio

    (run,) = trackio.Api().runs(project)
    return run


def media_files(project):
    return [file for file in Path(os.environ["TRACKIO_DIR"], "media", project).rglob("*") if file.is_file()]


def test_a_run_has_its_config_captions_and_a_table_of_episodes(tmp_path, project):
    video = tm.Video(
        (np.zeros((16, 24, 3), np.uint8) for _ in range(4)), fps=10, episode=tm.EpisodeRecord("e1", 231.0, 4)
    )
    picture = tm.Image(np.zeros((4, 4, 3), np.uint8), caption="the start")
    log(tmp_path, project, [{"best": video, "map": picture, "episodes": {"data": episodes("e", 1)}}], lr=0.5, net=[64])
    values = {name: value for _, row in trackio_rows(project, RUN) for name, value in row.items()}
    assert values["train/best"]["caption"] == "return 231, length 4, step 1"
    assert values["train/map"]["caption"] == "the start"
    (episode,) = values["train/episodes"]["_value"]
    assert (episode["episode_id"], episode["episode_return"], episode["speed_avg"]) == ("e-1", 1.0, 2.0)
    assert "metrics" not in episode
    held = run_of(project)
    assert (held.name, held.id) == (RUN, "experiment t1")
    assert held.config.items() >= {"lr": 0.5, "net": "[64]", "_Group": "experiment"}.items()


def test_names_that_trackio_keeps_for_itself_are_marked_as_it_marks_them(tmp_path, project):
    log(tmp_path, project, [{"step": 7, "timestamp": 8, "score": 1}])
    ((step, row),) = trackio_rows(project, RUN)
    assert (step, row) == (1, {"__step": 7, "score": 1, "training_iteration": 1})  # a row has its own time


def test_hyperparameters_that_change_are_curves(tmp_path, project):
    log(tmp_path, project, [result(at, config={"lr": lr}) for at, lr in enumerate([0.5, 0.5, 0.1], 1)], lr=0.5)
    held = read_trackio(project, RUN)
    assert held.scalars["config/lr"] == {3: 0.1}
    assert run_of(project).config["lr"] == 0.1


def test_what_comes_again_after_a_kill_is_there_once(tmp_path, project):
    """The process is killed when Trackio has a row, and the outbox does not know that yet."""
    script = f"""
import os, pickle, sys, time
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import tune_media as tm
from tests.callbacks.test_trackio import FakeTrial, result
from tune_media.callbacks.trackio import TrackioBackend

class Dies(TrackioBackend):
    def _write(self, trial, row, step, at, id):
        super()._write(trial, row, step, at, id)
        if os.environ["DIES"] and step == 2 and ("train/rollout" in row) == (os.environ["DIES"] == "media"):
            while not all_is_told.exists():
                time.sleep(0.02)
            os._exit(9)

folder = Path({str(tmp_path)!r})
callback, trial = tm.MediaLoggerCallback(Dies({project!r})), FakeTrial(folder)
callback.setup()
state, all_is_told = folder / "state", folder / "told"
if state.exists():
    callback.set_state(pickle.loads(state.read_bytes()))
callback.log_trial_start(trial)
for at in {{"metrics": [1, 2, 3], "media": [], "": [4]}}[os.environ["DIES"]]:
    callback.log_trial_result(at, trial, result(at, training_iteration=at))
    state.write_bytes(pickle.dumps(callback.get_state()))
all_is_told.touch()
if os.environ["DIES"]:
    time.sleep(60)
callback.log_trial_end(trial)
callback.on_experiment_end([trial])
"""
    for dies, code in (("metrics", 9), ("media", 9), ("", 0)):
        done = subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "DIES": dies}, timeout=120, check=False
        )
        assert done.returncode == code
    held = read_trackio(project, RUN)  # which asserts that no value is there twice
    assert held.scalars["score"] == {at: at for at in (1, 2, 3, 4)}
    assert sorted(held.clips["train/rollout"]) == [1, 2, 3, 4]
    assert len(media_files(project)) == 4


def test_a_trial_that_goes_back_keeps_the_numbers_that_trackio_got_first(tmp_path, project, sessions_end):
    from trackio.sqlite_storage import SQLiteStorage

    callback, trial = tm.TrackioMediaLoggerCallback(project, media=STRICT), FakeTrial(tmp_path)
    callback.log_trial_start(trial)
    for at in (1, 2, 3):
        callback.log_trial_result(at, trial, result(at, training_iteration=at))
    wait_until(lambda: len(SQLiteStorage.get_logs(project, RUN)) == 6)
    for at in (4, 5, 6):
        callback.log_trial_result(at, trial, result(at, training_iteration=at - 2))
    callback.log_trial_end(trial)
    callback.on_experiment_end([trial])
    scores = [(step, row["score"]) for step, row in trackio_rows(project, RUN) if "score" in row]
    assert scores == [(1, 1), (2, 2), (3, 3), (4, 6)]


def test_an_export_doubles_nothing_and_adds_what_is_missing(tmp_path, project):
    trial = FakeTrial(tmp_path, lr=0.5)
    trial.experiment_dir_name = trial.storage.experiment_dir_name = "storage"
    results = [result(at, trial_id="t1", episodes={"data": episodes("e", at)}) for at in (1, 2)]
    run([tm.JsonMediaLoggerCallback(), tm.TrackioMediaLoggerCallback(project, media=STRICT)], trial, results)
    Path(trial.local_path, "result.json").rename(Path(trial.storage.trial_fs_path, "result.json"))
    during, files, elsewhere = trackio_rows(project, RUN), media_files(project), f"{project}-2"
    for name in (project, elsewhere):
        done = tm.export.to_tracker(trial.storage.experiment_fs_path, tm.TrackioMediaLoggerCallback(name))
        assert (done.results, done.media, done.problems) == (2, 2, [])
    assert (trackio_rows(project, RUN), trackio_rows(project, "t1")) == (during, [])  # "t1": its name without Tune
    assert {file.name for file in media_files(project)} == {file.name for file in files}
    assert [sorted(row) for _, row in trackio_rows(elsewhere, "t1")] == [sorted(row) for _, row in during]


def test_two_experiments_may_name_their_trials_alike(tmp_path, project):
    for name in ("a", "b"):
        trial = FakeTrial(tmp_path / name)
        trial.experiment_dir_name = trial.storage.experiment_dir_name = name
        run([tm.TrackioMediaLoggerCallback(project, media=STRICT)], trial, [result(1)])
    import trackio

    assert sorted((run.id, run.name) for run in trackio.Api().runs(project)) == [("a t1", RUN), ("b t1", RUN)]


def test_on_a_networks_disk_rows_go_to_trackios_inbox(tmp_path, project, monkeypatch):
    from trackio import fragments

    monkeypatch.setenv("TRACKIO_STORAGE_MODE", "jsonl")
    log(tmp_path, project, [result(1), result(2)])
    assert not Path(os.environ["TRACKIO_DIR"], f"{project}.db").exists()
    fragments.import_inbox_dir()  # as its page does
    assert sorted(read_trackio(project, RUN).clips["train/rollout"]) == [1, 2]


def test_it_connects_to_nothing(tmp_path, project, monkeypatch):
    def connect(*address):
        raise AssertionError(address)

    monkeypatch.setenv("TRACKIO_SPACE_ID", "somebody/space")
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    log(tmp_path, project, [result(1)])
    assert read_trackio(project, RUN).scalars["score"] == {1: 1}


def test_a_full_disk_or_a_locked_database_is_tried_again(tmp_path, project, monkeypatch):
    import sqlite3

    from trackio import fragments

    errors, write = [OSError("no space left"), sqlite3.OperationalError("database is locked")], fragments.import_records

    def fails(records):
        if errors:
            raise errors.pop()
        return write(records)

    monkeypatch.setattr("tune_media.callbacks.outbox_thread._LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(fragments, "import_records", fails)
    run([tm.TrackioMediaLoggerCallback(project)], FakeTrial(tmp_path), [result(1)])
    assert sorted(read_trackio(project, RUN).clips["train/rollout"]) == [1]
    assert not errors


def test_a_name_that_trackio_does_not_take_ends_fit_at_once(project):
    with pytest.raises(ValueError, match="reserved"):
        tm.TrackioMediaLoggerCallback("registry-a").setup()


def test_without_trackio_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=re.escape(pip_install("trackio"))):
        tm.TrackioMediaLoggerCallback()
