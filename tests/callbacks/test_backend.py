"""What a backend is given, and how that waits on disk."""

import pytest
from ray.tune.callback import CallbackList

from tests.support.fake_trial import FakeTrial, run
from tune_media.callbacks.backend import Backend, Report
from tune_media.callbacks.callback import MediaLoggerCallback


def report_of(result, **more):
    return Report(7, 3, result, **more)


def test_a_report_has_its_values_by_path_and_no_hyperparameters():
    report = report_of({"score": 1, "a": {"b": {"c": 2}}, "config": {"lr": 1}})
    assert report.flat == {"score": 1, "a/b/c": 2}


def test_a_report_has_hyperparameters_only_if_they_have_changed():
    assert report_of({"config": {"lr": 1}}).config is None
    assert report_of({"config": {"lr": 1}}, changed=lambda: True).config == {"lr": 1}
    assert report_of({"config": "text"}, changed=lambda: True).config is None


def test_a_backend_needs_to_override_nothing(tmp_path, caplog):
    run([MediaLoggerCallback(Backend())], FakeTrial(tmp_path), [{"score": 1}])
    assert not [record for record in caplog.records if "failed" in record.getMessage()]
    assert Backend().is_away(ConnectionError()) is False


def test_a_backend_passed_as_a_callback_says_how_to_make_one_of_it():
    with pytest.raises(TypeError, match=r"Backend is a backend, not a callback: .*MediaLoggerCallback\(Backend"):
        CallbackList([Backend()]).setup()
    CallbackList([MediaLoggerCallback(Backend())]).setup()
