"""What a user of Tune is told of a recorder that gets nothing; the session's Ray hides the logs of its workers."""

from types import SimpleNamespace

import pytest

import tune_media as tm
from tests.support.experiment import fit
from tests.support.rllib_configs import ppo
from tune_media.rllib.problem_reports import ProblemReports


def run(tmp_path, recorder, callbacks, env_config=None, iterations=1, **evaluation):
    config = ppo(recorder, env_config, **evaluation)
    results = fit("PPO", tmp_path, callbacks, space=config, stop={"training_iteration": iterations})
    assert not results.errors
    return results


def test_the_driver_names_each_reason_once_and_again_in_the_last_line(ray_session, tmp_path, caplog, capsys):
    recorder = tm.rllib.record_episodes(collect=["spped"])
    evaluation = {"evaluation_interval": 2, "evaluation_duration": 2}
    results = run(tmp_path, recorder, [tm.JsonMediaLoggerCallback()], {"render_mode": None}, iterations=2, **evaluation)
    reasons = ["env 'CountingEnv' returned None from render()", "collect='spped' takes nothing"]
    told = [record.getMessage() for record in caplog.records if record.name == "tune_media"]
    for reason in reasons:
        assert len([message for message in told if reason in message]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("tune_media: stored")]
    assert all(line.count(reason) == 1 for reason in reasons)
    assert "episodes without a clip)" in line
    notes = tm.load(results.experiment_path).episodes()["note"]
    assert len(notes) >= 2
    assert all("no clip: env 'CountingEnv' returned None" in note for note in notes)


def test_a_bad_env_is_known_before_its_first_evaluation(ray_session, tmp_path, caplog, capsys):
    recorder = tm.rllib.record_episodes(env_indices=[5])
    run(tmp_path, recorder, [tm.JsonMediaLoggerCallback()], {"render_mode": None}, evaluation_interval=100)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "nothing was recorded" in line]
    assert "returned None from render()" in line
    assert "env_indices=[5]" in line


@pytest.mark.parametrize("is_logged", [True, False])
def test_the_driver_speaks_if_a_logger_callback_runs_there(is_logged, monkeypatch, caplog):
    monkeypatch.setattr("tune_media.ray_compat.is_logged", lambda trial: is_logged)
    reports, result = ProblemReports("episodes"), {}
    reports.begin(SimpleNamespace(_storage=SimpleNamespace(trial_dir_name="a_00000")))
    reports.add("no evaluation")
    assert not caplog.records  # until the trial has started, nobody knows
    reports.put(result)
    texts = [problem.text for problem in result["episodes"]["problems"]]
    assert texts[0] == "record_episodes: no evaluation"
    assert len(texts) == len(caplog.records) + 1 if is_logged else len(texts) == len(caplog.records) == 2
    assert any("JsonMediaLoggerCallback" in text for text in texts) is not is_logged
