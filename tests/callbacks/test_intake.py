from types import SimpleNamespace

import numpy as np
import pytest

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tests.support.pictures import clip
from tests.support.trial_life import index_lines
from tune_media.callbacks import intake
from tune_media.callbacks.backend import Backend
from tune_media.values.episodes import EpisodeBatch, EpisodeData


class Taking(Backend):
    def __init__(self):
        self.configs = []

    def metrics(self, trial, report):
        self.configs.append(report.config)


def test_a_checkpoints_copy_of_a_result_gets_the_same_path_and_stores_nothing_again(tmp_path):
    callback, trial, video = tm.JsonMediaLoggerCallback(), FakeTrial(tmp_path), clip()
    result, metrics = {"clip": video, "training_iteration": 1}, {"clip": video, "training_iteration": 1}
    trial.run_metadata.checkpoint_manager.latest_checkpoint_result = SimpleNamespace(metrics=metrics)
    callback.log_trial_start(trial)
    callback.log_trial_result(1, trial, result)
    callback.log_trial_save(trial)
    callback.log_trial_end(trial)
    callback.on_experiment_end([trial])
    assert isinstance(result["clip"], str)
    assert metrics["clip"] == result["clip"]
    assert len(index_lines(tmp_path / "storage" / "t1")) == 1


def test_a_checkpoints_copy_of_a_result_is_read_once_for_all_callbacks(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(intake, "clean_result", lambda result, report: read.append(result))
    callbacks = [tm.JsonMediaLoggerCallback(), tm.MediaLoggerCallback(Taking())]
    trial, metrics = FakeTrial(tmp_path), {"score": 1.0}
    trial.run_metadata.checkpoint_manager.latest_checkpoint_result = SimpleNamespace(metrics=metrics)
    for hook in ("log_trial_start", "log_trial_save", "log_trial_end"):
        for callback in callbacks:
            getattr(callback, hook)(trial)
    for callback in callbacks:
        callback.on_experiment_end([trial])
    assert [result is metrics for result in read] == [True]


def test_a_clip_whose_facts_cannot_be_kept_costs_itself_alone(tmp_path):
    bad = tm.EpisodeRecord("bad", 1.0, 3, task=object())
    state = EpisodeData(tm.EpisodeRecord("good", 2.0, 3), values={"generator": 2**127})
    data = EpisodeBatch((state,))
    episodes = {"bad": tm.Video([np.zeros((16, 24, 3), np.uint8)], episode=bad), "good": clip(), "data": data}
    trial = FakeTrial(tmp_path)
    run([tm.JsonMediaLoggerCallback()], trial, [{"evaluation": {"env_runners": {"episodes": episodes}}}])
    lines = index_lines(trial.storage.trial_fs_path)
    assert {line["key"]: line["status"] for line in lines} == {
        "episodes/bad": "failed",
        "episodes/good": "stored",
        "episodes/data": "stored",
    }
    assert list(tm.load(tmp_path / "storage").episodes()["values"]) == [{"generator": 2**127}]


def test_a_large_array_that_is_no_medium_is_named_once_with_the_remedy(tmp_path, caplog):
    results = [{"weights": {"all": np.zeros((1000, 1000))}} for _ in range(3)]
    run([tm.MediaLoggerCallback(Taking())], FakeTrial(tmp_path), results)
    (said,) = [record.getMessage() for record in caplog.records if "weights/all" in record.getMessage()]
    assert "8 MB" in said
    assert "Histogram" in said


@pytest.mark.parametrize("changes", [{"lr": 2}, {"env": {"size": 4}}])
def test_a_backend_gets_hyperparameters_only_if_they_differ_and_as_plain_data(tmp_path, changes):
    backend, config = Taking(), {"lr": 1, "env": {"size": 3}, "function": lambda: 0}
    configs = [config, {**config, "function": lambda: 0}, {**config, **changes}, {**config, **changes}]
    run([tm.MediaLoggerCallback(backend)], FakeTrial(tmp_path), [{"score": 1, "config": one} for one in configs])
    first, second, changed, last = backend.configs
    assert first is second is last is None
    assert {name: changed[name] for name in changes} == changes
    assert changed["function"].startswith("<function ")


def test_a_reported_config_that_is_no_dict_is_no_hyperparameters(tmp_path):
    backend = Taking()
    results = [{"score": 1, "config": {"lr": 1}}, {"score": 2, "config": "a text"}, {"score": 3, "config": [1]}]
    run([tm.MediaLoggerCallback(backend)], FakeTrial(tmp_path), results)
    assert backend.configs == [None, None, None]
