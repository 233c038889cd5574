import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata

from tests.support.experiment import tensorboard_events
from tune_media.callbacks.tensorboard.callback import TBXMediaLoggerCallback
from tune_media.callbacks.tensorboard.event_file import EventWriter
from tune_media.callbacks.tensorboard.hparams import HparamsTable

RETURN = "env_runners/episode_return_mean"


def content(folder, tag):
    events = EventAccumulator(str(folder)).Reload()
    return events.SummaryMetadata(tag).plugin_data.content


def columns(folder):
    experiment = metadata.parse_experiment_plugin_data(content(folder, metadata.EXPERIMENT_TAG))
    return [(info.display_name, info.name.tag) for info in experiment.metric_infos]


@pytest.fixture
def writer(tmp_path):
    return EventWriter(str(tmp_path / "trial"))


def test_returns_are_the_first_columns_the_best_before_the_last(writer):
    table = HparamsTable({"lr": 0.1, "layers": [64, 64], "relu": True}, {})
    table.add(writer, {"num_iterations": 1, RETURN: 3.0, "env_runners/episode_len_mean": 8.0}, 10, evaluates=True)
    writer.file_writer.flush()
    assert columns(writer.logdir) == [
        ("best evaluation return", "best/evaluation/env_runners/episode_return_mean"),
        ("last evaluation return", "ray/tune/evaluation/env_runners/episode_return_mean"),
        ("last evaluation episode length", "ray/tune/evaluation/env_runners/episode_len_mean"),
        ("best training return", "best/env_runners/episode_return_mean"),
        ("last training return", "ray/tune/env_runners/episode_return_mean"),
        ("last training episode length", "ray/tune/env_runners/episode_len_mean"),
    ]
    start = metadata.parse_session_start_info_plugin_data(content(writer.logdir, metadata.SESSION_START_INFO_TAG))
    assert start.hparams["lr"].number_value == 0.1
    assert start.hparams["layers"].string_value == "[64, 64]"
    assert start.hparams["relu"].bool_value is True


def test_the_best_return_is_a_curve_that_never_falls_and_outlives_a_restore(writer):
    table = HparamsTable({"lr": 0.1}, {RETURN: 4.0})
    for step, value in enumerate((3.0, 9.0, float("nan"), float("inf"), 5.0)):
        table.add(writer, {RETURN: value}, step)
    writer.file_writer.flush()
    events = tensorboard_events(writer.logdir)
    assert [(event.step, event.value) for event in events.Scalars(f"best/{RETURN}")] == [(0, 4.0), (1, 9.0), (4, 9.0)]
    assert table.best == {RETURN: 9.0}


def test_another_trainable_shows_its_own_numbers(writer):
    HparamsTable({"lr": 0.1}, {}).add(writer, {"score": 1.0, "time_total_s": 2.0, "name": "x", "done": False}, 1)
    writer.file_writer.flush()
    assert columns(writer.logdir) == [("last score", "ray/tune/score")]


@pytest.mark.parametrize(("failed", "status"), [(False, 1), (True, 2)])
def test_how_a_trial_ended(writer, failed, status):
    table = HparamsTable({"lr": 0.1}, {})
    table.add(writer, {"score": 1.0}, 1)
    table.end(writer, failed=failed)
    writer.file_writer.flush()
    end = metadata.parse_session_end_info_plugin_data(content(writer.logdir, metadata.SESSION_END_INFO_TAG))
    assert end.status == status


def test_a_trial_without_hyperparameters_is_not_in_the_table(writer):
    table = HparamsTable({}, {})
    table.add(writer, {RETURN: 1.0}, 1)
    table.end(writer, failed=False)
    assert table.best == {}


def test_secrets_are_not_in_the_table(writer):
    HparamsTable({"lr": 0.1, "api_key": "abc", "uri": "s3://me:hunter22@bucket"}, {}).add(writer, {RETURN: 1.0}, 1)
    writer.file_writer.flush()
    shown = str(content(writer.logdir, metadata.SESSION_START_INFO_TAG))
    assert "***" in shown
    assert "abc" not in shown
    assert "hunter22" not in shown


def test_the_best_of_trials_that_have_not_started_since_a_restore_is_saved_again():
    backend = TBXMediaLoggerCallback().backend
    backend.set_state({"best": {"t1": {RETURN: 3.0}}})
    assert backend.get_state() == {"best": {"t1": {RETURN: 3.0}}}


def test_hyperparameters_that_tensorboard_cannot_hold_cost_no_other(writer):
    class Odd:
        def __repr__(self):
            raise ValueError("no text")

    table = HparamsTable({"lr": 0.1, "odd": Odd(), "large": 10**400, "name": "half \ud800", "gap": float("nan")}, {})
    table.add(writer, {RETURN: 3.0}, 10)
    writer.file_writer.flush()
    start = metadata.parse_session_start_info_plugin_data(content(writer.logdir, metadata.SESSION_START_INFO_TAG))
    assert start.hparams["lr"].number_value == 0.1
    assert (start.hparams["large"].string_value, start.hparams["name"].string_value) == (str(10**400), "half ?")
    assert "Odd" in start.hparams["odd"].string_value


def test_an_array_is_a_hyperparameter_whatever_numpy_prints(writer):
    with np.printoptions(precision=1, threshold=2):
        HparamsTable({"lr": 0.1, "layers": np.array([1.25, 2.0, 3.0])}, {}).add(writer, {RETURN: 1.0}, 1)
    writer.file_writer.flush()
    assert "[1.25, 2.0, 3.0]" in str(content(writer.logdir, metadata.SESSION_START_INFO_TAG))
