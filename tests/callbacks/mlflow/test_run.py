"""The MLflow run of a trial: calls that are made again, trials that go back, values that MLflow refuses."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import requests

import tune_media as tm
from tests.support.faults import episodes
from tests.support.reader import PlainContext, a_trial, calls_of, play, renewed
from tests.support.trackers import mlflow_store
from tune_media.callbacks.backend import Report
from tune_media.callbacks.mlflow import episodes_table
from tune_media.callbacks.mlflow.run import BEST_TAG, MlflowRun, best_clip_of
from tune_media.storage.entry import MediaEntry

mlflow = pytest.importorskip("mlflow")


@pytest.fixture
def backend_of(tmp_path, files_uri):
    """Return a maker of backends, as one process after the other makes them; on files, which take less time."""
    before = mlflow.get_tracking_uri()

    def make(name="e", uri=files_uri):
        options = {"experiment_name": name, "artifact_location": f"file://{tmp_path}/{name}"}
        backend = tm.MLflowMediaLoggerCallback(uri, **options).backend
        backend.setup()
        return backend

    yield make
    mlflow.set_tracking_uri(before)


def run_of(name="e"):
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name(name).experiment_id])
    return client, run


def files_of(client, run_id, folder=None):
    for info in client.list_artifacts(run_id, folder):
        if info.is_dir:
            yield from files_of(client, run_id, info.path)
        else:
            yield info.path


def held(name="e"):
    """Return everything that MLflow has of the only run of an experiment."""
    client, run = run_of(name)
    points = {
        metric: sorted((p.step, p.timestamp, repr(p.value)) for p in client.get_metric_history(run.info.run_id, metric))
        for metric in run.data.metrics
    }
    files = {
        path: Path(client.download_artifacts(run.info.run_id, path)).read_bytes()
        for path in files_of(client, run.info.run_id)
    }
    info = (run.info.status, run.info.start_time, run.info.end_time)
    tags = {name: value for name, value in run.data.tags.items() if not name.startswith("mlflow.source")}
    return {"info": info, "params": run.data.params, "tags": tags, "points": points, "files": files}


def test_calls_that_are_made_again_after_a_kill_change_nothing(backend_of, tmp_path):
    """Times came from the clock, pictures had a new name each time, and the table had rows twice."""
    trial, uri = a_trial(tmp_path, lr=0.5, mode="a"), mlflow_store(tmp_path)
    calls = [*calls_of(trial, [1, 2, 3, 2, 3], {2: 100.0}), ("end", "finished"), ("finish", None)]
    play(backend_of("once", uri), calls)
    for killed_at in range(1, len(calls), 6):
        play(backend_of("again", uri), map(renewed, calls[:killed_at]))
        rest = calls[max(1, killed_at - 7) :]  # the reader had not written down how far it was
        play(backend_of("again", uri), [calls[0], *map(renewed, rest)])
    once, again = held("once"), held("again")
    assert again == once
    table = json.loads(once["files"]["episodes.json"])
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert sorted(row["episode_id"] for row in rows) == sorted(f"of {n}-{i}" for n, i in enumerate([1, 2, 3, 2, 3], 1))
    client, run = run_of("again")
    assert client.load_table(run.info.experiment_id, "episodes.json")["step"].tolist() == [100, 200, 200, 300, 300]
    assert once["points"]["score"] == [
        (step, 1000 * (1000 + 10 * n), f"{n}.0") for n, step in ((1, 100), (2, 200), (4, 200), (3, 300), (5, 300))
    ]


def test_the_best_clip_is_none_that_was_rolled_back(backend_of, tmp_path):
    """A clip of an iteration that the trial has left behind stayed the best, also after a restore."""
    trial = a_trial(tmp_path)
    calls = calls_of(trial, [1, 2, 3, 2, 3], {1: 5.0, 2: 100.0, 3: 7.0, 4: 6.0, 5: 8.0})
    backend = backend_of()
    best = []
    for number, call in enumerate(calls):
        if number == 17:  # killed after the third result; the trial is restored
            backend = backend_of()
            play(backend, calls[:1])
        play(backend, [*calls[:1], call])
        tags = run_of()[1].data.tags
        found = best_clip_of(tags)
        if call[0] == "metrics":
            best.append(found and found.episode_return)
    assert best == [None, 5.0, 100.0, 5.0, 6.0]
    play(backend, [calls[0], ("end", "finished")])
    assert run_of()[1].data.metrics["best_return"] == 8.0
    assert "Best clip: return 8," in run_of()[1].data.tags["mlflow.note.content"]


def test_a_trial_whose_clips_are_all_rolled_back_has_no_best_clip(backend_of, tmp_path):
    trial = a_trial(tmp_path)
    play(backend_of(), [*calls_of(trial, [1, 2, 1], {1: 5.0})[:-4], ("end", "finished")])
    _, run = run_of()
    assert math.isnan(run.data.metrics["best_return"])
    assert best_clip_of(run.data.tags) is None
    assert "Best clip" not in run.data.tags.get("mlflow.note.content", "")


def test_the_best_clip_of_a_run_of_an_earlier_version_is_known():
    old = {"episode_return": 4.0, "episode_length": 2, "section": "train", "step": 3, "file": "a.mp4"}
    assert best_clip_of({BEST_TAG: json.dumps(old)}).file == "a.mp4"


def test_a_parameter_that_mlflow_refuses_costs_itself_only(backend_of, tmp_path):
    """One parameter that MLflow refused cost all parameters and metrics of the trial, and its run was never ended."""
    trial = a_trial(tmp_path, **{f"p{number}": number for number in range(150)})
    backend = backend_of()
    play(backend, [("start", a_trial(tmp_path))])
    client, run = run_of()
    client.log_param(run.info.run_id, "p7", "of somebody else")
    context = play(backend, [*calls_of(trial, [1]), ("end", "finished")])
    _, run = run_of()
    assert run.data.params == {**{f"p{number}": str(number) for number in range(150)}, "p7": "of somebody else"}
    assert run.data.metrics["score"] == 1.0
    assert run.info.status == "FINISHED"
    ((what, error),) = context.faults
    assert what == "logging hyperparameters"
    assert "refuses 1 of 150 value(s): p7" in str(error)


def test_hyperparameters_are_metrics_from_the_start_and_texts_that_are_numbers_are_numbers(backend_of, tmp_path):
    """As Ray's logger has them."""
    trial, result = a_trial(tmp_path, lr=0.5, deep={"size": "3"}, mode="a"), {"score": 1, "loss": "1e-3", "text": "no"}
    play(backend_of(), [("start", trial), ("metrics", Report(7, 1, result, time=5.0))])
    client, run = run_of()
    assert run.data.params == {"lr": "0.5", "deep/size": "3", "mode": "a"}
    assert run.data.metrics == {"score": 1.0, "loss": 0.001, "config/lr": 0.5, "config/deep/size": 3.0}
    (point,) = client.get_metric_history(run.info.run_id, "config/lr")
    assert (point.step, point.timestamp) == (7, 5000)


def test_a_folder_that_is_uploaded_has_no_file_of_ours(backend_of, tmp_path):
    trial = a_trial(tmp_path)
    (trial.location.local_path / "deep").mkdir()
    for name in ("notes.txt", ".tune_media.json", "deep/more.txt"):
        (trial.location.local_path / name).write_text("x")
    backend = backend_of()
    backend._rays.should_save_artifact = True
    play(backend, [("start", trial), ("end", "finished")])
    assert set(held()["files"]) == {"notes.txt", "deep/more.txt"}


@pytest.mark.parametrize(
    ("kept", "done"), [(True, 26), (False, 26), (True, 46)], ids=["new version", "old version", "only the end is left"]
)
def test_the_table_has_the_episodes_that_an_earlier_process_logged(backend_of, tmp_path, monkeypatch, kept, done):
    monkeypatch.setattr(episodes_table, "MAX_ROWS", 6)
    trial = a_trial(tmp_path)
    calls = calls_of(trial, range(1, 10))
    assert len(calls) == 46
    play(backend_of(), calls[:done])  # killed: there is no table yet
    if not kept:
        client, run = run_of()
        client.log_table(run.info.run_id, {"episode_id": ["of 1-1"], "step": [1]}, "episodes.json")
    play(backend_of(), [calls[0], *calls[done:], ("end", "finished")])
    table = json.loads(held()["files"]["episodes.json"])
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["episode_id"] for row in rows] == [f"of {n}-{n}" for n in range(4, 10)]  # the last six


def test_a_table_is_written_seldom_and_bounded(backend_of, tmp_path, monkeypatch):
    """It was downloaded and uploaded whole every 25 reports: 740 MB for 400,000 rows."""
    monkeypatch.setattr(episodes_table, "MAX_ROWS", 50)
    backend = backend_of()
    play(backend, [("start", a_trial(tmp_path))])
    run = backend._started["t1"]
    written, log_file = [], MlflowRun._log_file

    def watched(self, path, content):
        if path == "episodes.json":
            written.append(len(json.loads(content)["data"]))
        else:
            log_file(self, path, content)

    monkeypatch.setattr(MlflowRun, "_log_file", watched)
    monkeypatch.setattr(MlflowRun, "_log_quantiles", lambda *arguments: None)
    for step in range(300):
        batch = episodes("speed", step)
        entry = MediaEntry(batch, "train", "episodes/data", f"episode_data/data-{step:08d}.json", step, step)
        run.log_episodes(entry, batch)
    assert written == [25, *[50] * 7]  # and ever more seldom


def test_a_table_that_is_tried_again_has_each_row_once(backend_of, tmp_path, monkeypatch):
    """The rows were kept before the table was sent, so a message that was delivered again added them again."""
    monkeypatch.setattr("tune_media.callbacks.mlflow.run._FIRST_TABLE", 1)
    backend, fails = backend_of(), [True, True]
    log_file = MlflowRun._log_file

    def failing(self, path, content):
        if path == "episodes.json" and fails:
            fails.pop()
            raise requests.exceptions.ConnectionError
        log_file(self, path, content)

    monkeypatch.setattr(MlflowRun, "_log_file", failing)
    for call in [*calls_of(a_trial(tmp_path), [1, 2]), ("end", "finished")]:
        while True:  # as a reader does
            try:
                play(backend, [("start", a_trial(tmp_path)), call], PlainContext())
                break
            except requests.exceptions.ConnectionError:
                continue
    table = json.loads(held()["files"]["episodes.json"])
    ids = [row[table["columns"].index("episode_id")] for row in table["data"]]
    assert ids == ["of 1-1", "of 2-2"]


def test_a_picture_is_in_mlflows_grid_at_the_time_of_its_result(backend_of, tmp_path):
    play(backend_of(), calls_of(a_trial(tmp_path), [4]))
    pictures = sorted(path for path in held()["files"] if path.startswith("images/"))
    assert len(pictures) == 2
    assert all(path.startswith("images/train~map+step+400+timestamp+1010000+") for path in pictures)
    assert np.array([path.endswith((".png", "+compressed.webp")) for path in pictures]).all()
