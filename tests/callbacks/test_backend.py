"""What a backend is given, and how that waits on disk."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest
from ray.tune.callback import CallbackList

from tests.support.fake_trial import FakeTrial, run
from tune_media.callbacks.backend import Backend, Report, TrialInfo
from tune_media.callbacks.callback import MediaLoggerCallback
from tune_media.storage.location import TrialLocation


def report_of(result, **more):
    return Report(7, 3, result, **more)


def test_a_report_has_its_values_by_path_and_no_hyperparameters():
    report = report_of({"score": 1, "a": {"b": {"c": 2}}, "config": {"lr": 1}})
    assert report.flat == {"score": 1, "a/b/c": 2}


def test_a_report_has_hyperparameters_only_if_they_have_changed():
    assert report_of({"config": {"lr": 1}}).config is None
    assert report_of({"config": {"lr": 1}}, changed=lambda: True).config == {"lr": 1}
    assert report_of({"config": "text"}, changed=lambda: True).config is None


def test_a_report_that_waits_on_disk_keeps_its_values_without_the_live_result():
    live = {"score": 1, "config": {"lr": 2}, "new": 0}
    report = report_of(live, changed=lambda: True, new_in_lists={("new",): [1]})
    waiting = pickle.dumps(report)
    live["score"] = 99  # Tune goes on changing it
    loaded = pickle.loads(waiting)
    assert (loaded.flat, loaded.config) == ({"score": 1, "new": 0}, {"lr": 2})
    assert (loaded.step, loaded.training_iteration, loaded.time) == (7, 3, report.time)
    assert (loaded.result, loaded.new_in_lists) == ({}, {})


def test_a_report_of_large_arrays_weighs_what_they_do():
    assert report_of({"a": {"b": np.zeros(10_000)}}).nbytes > 80_000
    assert 0 < report_of({"score": 1}).nbytes < 1000


def test_a_trial_that_waits_on_disk_comes_back_without_rays_object():
    location = TrialLocation(pyarrow.fs.LocalFileSystem(), "/s/t", Path("/d/t"), "t")
    trial = TrialInfo("t", "PPO_t", "sweep", {"lr": 1}, location, ray=lambda: "cannot be pickled")
    loaded = pickle.loads(pickle.dumps(trial))
    assert loaded.ray is None
    assert (loaded.trial_id, loaded.name, loaded.config, loaded.location) == ("t", "PPO_t", {"lr": 1}, location)


def test_a_backend_needs_to_override_nothing(tmp_path, caplog):
    run([MediaLoggerCallback(Backend())], FakeTrial(tmp_path), [{"score": 1}])
    assert not [record for record in caplog.records if "failed" in record.getMessage()]
    assert Backend().is_away(ConnectionError()) is False


def test_a_backend_passed_as_a_callback_says_how_to_make_one_of_it():
    with pytest.raises(TypeError, match=r"Backend is a backend, not a callback: .*MediaLoggerCallback\(Backend"):
        CallbackList([Backend()]).setup()
    CallbackList([MediaLoggerCallback(Backend())]).setup()
