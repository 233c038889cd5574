import json
import pickle

import pytest
from ray.tune.callback import CallbackList
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tune_media.callbacks.backend import Backend, Report


def test_an_error_of_setup_is_the_users_to_see(tmp_path):
    class Misspelt(Backend):
        def setup(self, **info):
            raise ValueError("no tracker at htp://")

    with pytest.raises(ValueError, match="no tracker at htp://"):
        run([tm.MediaLoggerCallback(Misspelt())], FakeTrial(tmp_path), [])


def test_the_state_of_a_backend_survives_a_restore(tmp_path):
    class Counting(Backend):
        state = None

        def get_state(self):
            return {"runs": 3}

        def set_state(self, state):
            self.state = state

    callback, trial = tm.MediaLoggerCallback(Counting()), FakeTrial(tmp_path)
    callback.log_trial_start(trial)
    state = callback.get_state()
    callback.on_experiment_end([trial])
    restored = tm.MediaLoggerCallback(Counting())
    restored.set_state(state)
    assert restored.backend.state == {"runs": 3}


class Mine(tm.JsonMediaLoggerCallback):
    def __init__(self, team, *, lead="me"):
        super().__init__(tm.MediaOptions(raw_fps=5.0))
        self.team, self.lead = team, lead


def test_a_pickle_has_the_arguments_alone_so_another_version_can_make_the_callback_again():
    """Attributes that another version had not were missing, and so were all media of TensorBoard after a restore."""
    callback = tm.TBXMediaLoggerCallback(tm.MediaOptions(raw_fps=5.0))
    callback.backend.__dict__.clear()  # as an earlier version had other ones
    copy = pickle.loads(pickle.dumps(callback))
    assert copy.backend._media == {}
    assert copy.given_options.raw_fps == 5.0
    mine = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(Mine("a", lead="b")))))
    assert (mine.team, mine.lead, mine.given_options.raw_fps) == ("a", "b", 5.0)
    assert isinstance(copy, TBXLoggerCallback) and isinstance(mine, JsonLoggerCallback)


class Passing(tm.WandbMediaLoggerCallback):
    """As subclasses usually pass arguments on."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


def test_a_subclass_that_passes_arguments_on_can_be_restored():
    restored = pickle.loads(pickle.dumps(Passing("walkers", group="ours")))
    assert (type(restored), restored.project, restored.group) == (Passing, "walkers", "ours")


def test_a_callback_is_pickled_without_what_runs(tmp_path):
    callback, trial = tm.MediaLoggerCallback(Backend()), FakeTrial(tmp_path)
    callback.log_trial_start(trial)
    copy = pickle.loads(pickle.dumps(callback))
    callback.on_experiment_end([trial])
    assert copy.get_state() is None  # it has joined no experiment
    assert not hasattr(copy.backend, "context")
    run([copy], FakeTrial(tmp_path, "t2"), [{"score": 1}])  # and may begin one of its own


def test_a_callback_that_is_restored_into_a_finished_experiment_lists_what_was_not_listed(tmp_path):
    trial = FakeTrial(tmp_path)
    run([tm.JsonMediaLoggerCallback()], trial, [{"file": tm.Artifact(b"x", name="x.bin")}])
    index = tmp_path / "storage" / "t1" / "media" / "index.jsonl"
    before = json.loads(index.read_text())
    index.unlink()
    (done,) = (tmp_path / "storage" / ".tune_media_log").glob("*.done.json")
    done.unlink()  # as a killed driver leaves it
    tm.JsonMediaLoggerCallback().on_experiment_end([trial])  # no trial was left to run
    assert json.loads(index.read_text())["path"] == before["path"]


@pytest.mark.parametrize(
    ("config", "changed", "found"), [({"lr": 1}, True, {"lr": 1}), ({"lr": 1}, False, None), ("a text", True, None)]
)
def test_a_report_in_tunes_loop_has_hyperparameters_only_if_they_have_changed(config, changed, found):
    report = Report(7, 3, {"score": 1, "config": config}, changed=lambda: changed)
    assert (report.config, report.flat) == (found, {"score": 1})


def test_a_backend_passed_as_a_callback_says_how_to_make_one_of_it():
    with pytest.raises(TypeError, match=r"Backend is a backend, not a callback: .*MediaLoggerCallback\(Backend"):
        CallbackList([Backend()]).setup()
    CallbackList([tm.MediaLoggerCallback(Backend())]).setup()


@pytest.mark.parametrize("has_json", [False, True])
def test_a_sweep_whose_trials_will_have_no_params_is_told(monkeypatch, caplog, has_json):
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    own = [tm.JsonMediaLoggerCallback()] if has_json else []
    CallbackList([tm.TBXMediaLoggerCallback(), tm.MediaLoggerCallback(Backend()), *own]).setup()
    assert caplog.text.count("will have no hyperparameters") == (0 if has_json else 1)
