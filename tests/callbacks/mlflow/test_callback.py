"""MLflow: a real server over HTTP, killed and started again; hyperparameters that change; names; final states."""

import logging
import re
import threading
import time

import pytest
from ray import tune
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

import tune_media as tm
from tests.support.browser import chromium
from tests.support.experiment import fit
from tests.support.fake_trial import FakeTrial, run
from tests.support.faults import At, episodes
from tests.support.pictures import clip
from tests.support.trackers import MlflowServer, mlflow_store, read_mlflow
from tune_media.callbacks.mlflow.backend import MlflowBackend
from tune_media.callbacks.mlflow.valid_names import valid_name
from tune_media.encoding.decode import probe_video


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch):
    """What failed is tried again soon: fifteen seconds are too long for a test."""
    monkeypatch.setattr("tune_media.callbacks.outbox_thread._LONGEST_PAUSE", 0.5)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = MlflowServer(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.stop()


def run_sweep(trainable, folder, uri, *, scheduler=None, space=None, callbacks=(), **options):
    if uri.startswith("sqlite"):
        options["artifact_location"] = f"file://{folder}/mlruns"
    own = [tm.MLflowMediaLoggerCallback(tracking_uri=uri, **options), *callbacks]
    return fit(trainable, folder, own, space=space, name=folder.name, tune_config={"scheduler": scheduler})


def runs_of(uri, experiment):
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment)
    return client, client.search_runs([found.experiment_id])


def steady(config):
    for step in range(1, 9):
        time.sleep(config["pause"])
        tune.report({"score": step, "a@b(c), d": step, "rollout": clip(10 * step)})


def kill_and_start(server):
    server.stop()
    time.sleep(1)
    server.start()


def test_a_server_that_is_killed_and_comes_back_has_everything_once(ray_session, tmp_path, server, caplog):
    outage = threading.Thread(target=kill_and_start, args=(server,))
    callbacks = [At({3: outage.start}), tm.JsonMediaLoggerCallback()]
    results = run_sweep(steady, tmp_path, server.uri, space={"pause": 0.2}, callbacks=callbacks)
    outage.join()
    assert not results.errors
    client, (run,) = runs_of(server.uri, tmp_path.name)
    held = read_mlflow(server.uri, run.data.tags["trial_name"])
    assert sorted(held.clips["train/rollout"]) == list(range(1, 9))
    assert all(probe_video(data).frames == 4 for data in held.clips["train/rollout"].values())
    assert held.scalars["score"] == {step: step for step in range(1, 9)}
    assert held.scalars[valid_name("a@b(c), d")][8] == 8
    assert len(client.get_metric_history(run.info.run_id, "score")) == 8
    assert held.status == "FINISHED"
    assert "tried again" in caplog.text


def many(config):
    for step in range(1, 21):
        tune.report({"score": step, "rollout": clip(step), "episodes": {"data": episodes("speed", step)}})


def test_a_server_that_hangs_for_a_while_gets_all_of_it(ray_session, tmp_path, server, caplog, monkeypatch):
    finish = MlflowBackend.setup

    def set_up_and_hang(backend, **info):
        finish(backend, **info)
        server.pause()
        threading.Timer(2, server.resume).start()

    monkeypatch.setattr(MlflowBackend, "setup", set_up_and_hang)
    results = run_sweep(many, tmp_path, server.uri)
    assert not results.errors
    assert "MLflow lacks" not in caplog.text
    _, (run,) = runs_of(server.uri, tmp_path.name)
    held = read_mlflow(server.uri, run.data.tags["trial_name"])
    assert held.scalars["score"] == {step: step for step in range(1, 21)}
    stored = [row["training_iteration"] for row in tm.load(results.experiment_path) if row["kind"] == "video"]
    assert sorted(held.clips["train/rollout"]) == sorted(stored)
    assert held.histograms["train/episodes/speed"] == dict.fromkeys(range(1, 21), 5)


def quick(config):
    for step in range(1, 4):
        if config.get("fails") and step == 2:
            raise RuntimeError("as it was told to")
        tune.report({"score": step})


class StopsAtTwo(FIFOScheduler):
    def on_trial_result(self, tune_controller, trial, result):
        return TrialScheduler.STOP if trial.config.get("stops") and result["score"] == 2 else TrialScheduler.CONTINUE


def test_runs_end_as_their_trials_did_under_a_parent_of_the_users_whatever_their_names(ray_session, tmp_path):
    from mlflow import MlflowClient

    uri, folder = mlflow_store(tmp_path), tmp_path / "bob's"
    client = MlflowClient(uri)
    parent = client.create_run(client.create_experiment("bob's")).info.run_id
    folder.mkdir()
    space = {"case": tune.grid_search(["finishes", "fails", "stops"]), "fun": lambda: 0, "lr": 1}
    space |= {name: tune.sample_from(lambda spec, name=name: spec.config.case == name) for name in ("fails", "stops")}
    tags = {"team": "ours", "mlflow.parentRunId": parent}
    run_sweep(quick, folder, uri, scheduler=StopsAtTwo(), space=space, tags=tags)
    _, runs = runs_of(uri, "bob's")
    trials = {run.data.params["case"]: run for run in runs if run.info.run_id != parent}
    ended = {case: (run.info.status, run.data.metrics["score"]) for case, run in trials.items()}
    assert ended == {"finishes": ("FINISHED", 3), "fails": ("FAILED", 1), "stops": ("FINISHED", 2)}
    for found in trials.values():
        assert found.data.tags["mlflow.parentRunId"] == parent
        assert found.data.tags["team"] == "ours"
        assert not any(name.startswith("config") for name in found.data.tags)  # a lambda has not changed
        assert found.data.metrics["config/lr"] == 1


def test_a_server_that_never_answers_holds_nothing_up_nor_has_its_key_told(ray_session, tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "")
    options = {"media": tm.MediaOptions(flush_seconds=3), "tracking_token": "t0psecret"}
    with caplog.at_level(logging.DEBUG, "tune_media"):
        results = run_sweep(steady, tmp_path, "http://user:hunter2@127.0.0.1:9", space={"pause": 0.05}, **options)
    assert not results.errors
    assert "tune_media: MLflow lacks 1 end(s), 8 media, 8 result(s), 1 start(s) of 1 trial(s): " in caplog.text
    assert re.search(r"The end of the experiment waited \d\.\d s", caplog.text)  # not a minute, as without the option
    assert len(list(tmp_path.glob("*/*/media/train/rollout/*.mp4"))) == 8
    said = "".join(record.getMessage() for record in caplog.records if record.name == "tune_media")
    pickled = b"".join(path.read_bytes() for path in tmp_path.glob("*/*.pkl"))
    for key in ("t0psecret", "hunter2"):
        assert key not in said
        assert key.encode() not in pickled


def test_a_clip_plays_in_mlflows_page(tmp_path, server):
    callback = tm.MLflowMediaLoggerCallback(server.uri, experiment_name="page")
    run([callback], FakeTrial(tmp_path), [{"rollout": clip(20)}])
    client, (found,) = runs_of(server.uri, "page")
    (artifact,) = client.list_artifacts(found.info.run_id, "media/train/rollout")
    place = f"#/experiments/{found.info.experiment_id}/runs/{found.info.run_id}/artifacts/{artifact.path}"
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{server.uri}/{place}")
        page.wait_for_selector("video", timeout=60_000)
        page.evaluate("async () => { const v = document.querySelector('video'); v.muted = true; await v.play(); }")
        page.wait_for_function("() => document.querySelector('video').ended", timeout=30_000)
        shown = page.evaluate(
            "() => { const v = document.querySelector('video'); return [v.error, v.videoWidth, v.videoHeight] }"
        )
    assert shown == [None, 24, 16]


def test_a_tag_that_mlflow_sets_itself_is_refused_before_the_sweep():
    with pytest.raises(ValueError, match=r"tags=\.\.\.\) holds 'mlflow.runName', which .*; name trials"):
        tm.MLflowMediaLoggerCallback(tags={"team": "a", "mlflow.runName": "mine"})


def test_a_hyperparameter_that_is_no_whole_text_does_not_leave_the_run_running(tmp_path, caplog):
    uri = mlflow_store(tmp_path)
    callback = tm.MLflowMediaLoggerCallback(uri, artifact_location=f"file://{tmp_path}/mlruns")
    run([callback], FakeTrial(tmp_path, lr=0.5, text="half \ud800", **{"na\ud800me": 1}), [{"score": 2.0}])
    _, (found,) = runs_of(uri, "experiment")
    assert (found.info.status, found.data.metrics["score"]) == ("FINISHED", 2.0)
    assert (found.data.params["lr"], found.data.params["text"]) == ("0.5", "half ?")


def test_hyperparameters_that_change_are_kept_beside_the_first_ones(files_uri, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    before = mlflow.get_tracking_uri()
    results = [{"score": 1, "config": {"lr": lr, "mode": mode}} for lr, mode in ((0.5, "a"), (0.5, "a"), (2.0, "b"))]
    callback = tm.MLflowMediaLoggerCallback(files_uri, experiment_name="e", media=tm.MediaOptions(strict=True))
    run([callback], FakeTrial(tmp_path, lr=0.5, mode="a"), results)
    mlflow.set_tracking_uri(before)
    client = mlflow.MlflowClient(files_uri)
    (found,) = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    assert found.data.params == {"lr": "0.5", "mode": "a"}
    assert found.data.metrics["config/lr"] == 2.0
    assert found.data.tags["config.mode"] == "b"
