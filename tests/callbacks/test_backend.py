"""The class that a user writes a backend with."""

import pytest
from ray.tune.callback import CallbackList

from tests.support.fake_trial import FakeTrial, run
from tune_media.callbacks.backend import Backend, Report
from tune_media.callbacks.callback import MediaLoggerCallback


@pytest.mark.parametrize(
    ("config", "changed", "found"), [({"lr": 1}, True, {"lr": 1}), ({"lr": 1}, False, None), ("a text", True, None)]
)
def test_a_report_in_tunes_loop_has_hyperparameters_only_if_they_have_changed(config, changed, found):
    report = Report(7, 3, {"score": 1, "config": config}, changed=lambda: changed)
    assert (report.config, report.flat) == (found, {"score": 1})


def test_a_backend_needs_to_override_nothing(tmp_path, caplog):
    run([MediaLoggerCallback(Backend())], FakeTrial(tmp_path), [{"score": 1}])
    assert not [record for record in caplog.records if "failed" in record.getMessage()]
    assert Backend().is_away(ConnectionError()) is False


def test_a_backend_passed_as_a_callback_says_how_to_make_one_of_it():
    with pytest.raises(TypeError, match=r"Backend is a backend, not a callback: .*MediaLoggerCallback\(Backend"):
        CallbackList([Backend()]).setup()
    CallbackList([MediaLoggerCallback(Backend())]).setup()
