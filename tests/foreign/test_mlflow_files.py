"""Runs in MLflow's file store; tests/foreign/test_layouts.py has those that the real library wrote."""

import shutil

from tests.support.foreign_run import FOREIGN, curves_in, run_in


def test_a_damaged_metric_is_passed_over(tmp_path, caplog):
    written = next((FOREIGN / "mlflow_files" / "mlruns").glob("*/*/params")).parent
    run = shutil.copytree(written, tmp_path / "run")
    (run / "metrics" / "loss").write_text("1000 0.5 10\n1 x 3\n")
    (run / "metrics" / "score").write_text("1000 1.5 10\n2000 3 20\n")
    curves = curves_in(run)
    assert set(curves) == {"evaluation/episode_return_mean", "score"}
    score = curves["score"]
    assert (score.steps, score.values, score.times) == ([10, 20], [1.5, 3], [1, 2])
    assert "passed over in" in caplog.text
    assert "metrics/loss" in caplog.text


def test_params_of_another_tool_are_none_of_mlflow(tmp_path):
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "agent.yaml").write_text("lr: 1")
    assert run_in(tmp_path).config == {"agent": {"lr": 1}}
