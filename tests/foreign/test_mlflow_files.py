"""Runs in MLflow's file store, which the real library wrote."""

import pytest

from tests.support.foreign_run import curves_in, run_in


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    mlflow = pytest.importorskip("mlflow")
    folder = tmp_path_factory.mktemp("mlflow") / "mlruns"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        client = mlflow.MlflowClient(folder.as_uri())
        run = client.create_run(client.create_experiment("cartpole"), run_name="ppo")
        for name, value in {"env_id": "CartPole-v1", "seed": 1, "agent/lr": 1e-4, "layers": [64, 64]}.items():
            client.log_param(run.info.run_id, name, value)
        for step in range(3):
            client.log_metric(run.info.run_id, "rollout/ep_rew_mean", 1.5 * step, timestamp=1000 * step, step=10 * step)
        client.log_metric(run.info.run_id, "loss", float("nan"))
        client.set_terminated(run.info.run_id)
    return folder / run.info.experiment_id / run.info.run_id


@pytest.mark.slow
def test_a_run_has_its_params_and_its_metrics(run_folder):
    run = run_in(run_folder)
    assert run.config == {"env_id": "CartPole-v1", "seed": 1, "agent/lr": 1e-4, "layers": [64, 64]}
    assert run.env_id == "CartPole-v1"
    assert run.not_understood == []
    curves = curves_in(run_folder)
    assert set(curves) == {"episode_return_mean", "loss"}
    curve = curves["episode_return_mean"]
    assert (curve.steps, curve.values, curve.times) == ([0.0, 10.0, 20.0], [0.0, 1.5, 3.0], [0.0, 1.0, 2.0])


@pytest.mark.slow
def test_a_damaged_metric_is_passed_over(run_folder, caplog):
    metric = run_folder / "metrics" / "loss"
    metric.write_text(f"{metric.read_text()}1 x 3\n")
    assert set(curves_in(run_folder)) == {"episode_return_mean"}
    assert "passed over in" in caplog.text
    assert "metrics/loss" in caplog.text


def test_params_of_another_tool_are_none_of_mlflow(tmp_path):
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "agent.yaml").write_text("lr: 1")
    assert run_in(tmp_path).config == {"agent": {"lr": 1}}
