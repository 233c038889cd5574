"""A sweep whose first trial asks for more than there is says what mends it, once for all callbacks."""

import logging
from types import SimpleNamespace

import pytest

import tune_media as tm
from tests.support.experiment import fit
from tests.support.fake_trial import FakeTrial
from tune_media.callbacks import waiting_trial

SOME = {"CPU": 2.0, "memory": 9e9}
PPO = {"num_env_runners": 2}


@pytest.mark.parametrize(
    ("config", "asked", "there", "remedy"),
    [
        (PPO, {"CPU": 3.0}, SOME, ".env_runners(num_env_runners=1)"),
        ({"env": "CartPole-v1"}, {"CPU": 3.0}, SOME, ".env_runners(num_env_runners=1)"),  # with PPO's defaults
        (
            {**PPO, "evaluation_num_env_runners": 2},
            {"CPU": 5.0},
            SOME,
            ".env_runners(num_env_runners=0).evaluation(evaluation_num_env_runners=1)",
        ),
        ({**PPO, "num_cpus_per_env_runner": 4}, {"CPU": 9.0}, {"CPU": 8.0}, ".env_runners(num_env_runners=1)"),
        ({**PPO, "num_gpus_per_learner": 1}, {"CPU": 2.0, "GPU": 1.0}, SOME, ".learners(num_gpus_per_learner=0)"),
        ({"lr": 0.1}, {"CPU": 4.0}, SOME, 'tune.with_resources(trainable, {"cpu": 2})'),
        ({"lr": 0.1}, {"CPU": 2.0}, SOME, "ray status"),  # others have them
    ],
)
def test_the_line_that_mends_it_asks_for_what_there_is(config, asked, there, remedy):
    told = waiting_trial.why("trial_1", config, asked, there)
    assert told.startswith("trial trial_1 asks for ")
    assert told.endswith(f"`{remedy}`")


def test_a_sweep_that_cannot_begin_says_so_once(ray_session, tmp_path, monkeypatch, caplog):
    from ray.rllib.algorithms.ppo import PPOConfig

    monkeypatch.setattr(waiting_trial, "PATIENCE", 1.0)
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=30)
    callbacks = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]
    with caplog.at_level(logging.WARNING, "tune_media"):
        fit("PPO", tmp_path, callbacks, space=config, tune_config={"time_budget_s": 5})
    (told,) = [record.getMessage() for record in caplog.records if "has begun" in record.getMessage()]
    assert told.startswith("tune_media: no trial has begun for 1 s: trial PPO_CartPole-v1_")
    assert told.endswith(" asks for 31 CPUs (Ray has 24); it begins with `.env_runners(num_env_runners=23)`.")


def test_a_sweep_that_has_begun_says_nothing_of_the_trials_that_wait(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(waiting_trial, "PATIENCE", 0.0)
    callback, trial = tm.JsonMediaLoggerCallback(), FakeTrial(tmp_path)
    callback.setup()
    callback.log_trial_start(trial)
    callback.on_step_begin(1, [SimpleNamespace(status="PENDING", PENDING="PENDING")])
    callback.on_experiment_end([trial])
    assert "has begun" not in caplog.text
