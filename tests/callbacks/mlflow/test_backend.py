import tune_media as tm
from tests.support.fake_trial import FakeTrial, run


def test_hyperparameters_that_change_are_kept_beside_the_first_ones(files_uri, tmp_path):
    import mlflow

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
