"""The MLflow backend on a store in files: parameters, metrics, media and the last status of a trial."""

import os

import pytest
from ray import cloudpickle

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tests.support.pictures import clip


@pytest.fixture
def logged(files_uri, tmp_path):
    """Return a function that logs results as a trial and returns MLflow's client and the trial's run."""
    import mlflow

    before = mlflow.get_tracking_uri()

    def log(results, config, **options):
        callback = tm.MLflowMediaLoggerCallback(
            files_uri, experiment_name="e", media=tm.MediaOptions(strict=True), **options
        )
        run([callback], FakeTrial(tmp_path, **config), results)
        client = mlflow.MlflowClient(files_uri)
        (found,) = client.search_runs([client.get_experiment_by_name("e").experiment_id])
        return client, found

    yield log
    mlflow.set_tracking_uri(before)


def test_a_trial_has_its_hyperparameters_its_metrics_and_its_clips(logged):
    results = [{"score": 5.0, "clip": clip(), "text": "no number"}, {"score": 7.0}]
    client, found = logged(results, {"lr": 0.5, "env_config": {"size": 3}})
    assert found.data.params == {"lr": "0.5", "env_config/size": "3"}
    history = client.get_metric_history(found.info.run_id, "score")
    assert sorted((metric.step, metric.value) for metric in history) == [(1, 5.0), (2, 7.0)]
    assert "text" not in found.data.metrics
    (file,) = client.list_artifacts(found.info.run_id, "media/train/clip")
    assert file.path == results[0]["clip"]
    assert found.info.status == "FINISHED"


def test_hyperparameters_that_change_are_kept_beside_the_first_ones(logged):
    results = [{"score": 1, "config": {"lr": lr, "mode": mode}} for lr, mode in ((0.5, "a"), (0.5, "a"), (2.0, "b"))]
    _, found = logged(results, {"lr": 0.5, "mode": "a"})
    assert found.data.params == {"lr": "0.5", "mode": "a"}
    assert found.data.metrics["config/lr"] == 2.0
    assert found.data.tags["config.mode"] == "b"


def test_a_token_is_put_where_mlflow_looks_for_it_and_is_not_pickled(monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "")
    callback = tm.MLflowMediaLoggerCallback("http://127.0.0.1:9", tracking_token="t0psecret")
    assert os.environ["MLFLOW_TRACKING_TOKEN"] == "t0psecret"
    assert b"t0psecret" not in cloudpickle.dumps(callback)


def test_the_end_of_a_sweep_is_tried_again_whole():
    """A server that was away for a moment at the end cost the page of the sweep, and its last status."""
    ended = []

    class Runs:
        def end(self, status):
            ended.append(status)
            if len(ended) == 1:
                raise ConnectionError

    backend = tm.MLflowMediaLoggerCallback("sqlite:///never-made.db").backend
    backend._runs = Runs()
    with pytest.raises(ConnectionError):
        backend.finish()
    backend.finish()
    assert ended == ["FINISHED", "FINISHED"]
