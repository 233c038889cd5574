import math

import pytest

import tune_media as tm
from tests.support.recorded import make_experiment
from tune_media.viewing.data_frames import MEDIA_COLUMNS, differing


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    return make_experiment(tmp_path_factory.mktemp("sweep") / "exp")


def test_only_hyperparameters_that_differ_are_columns(experiment):
    frame = tm.load(experiment).to_pandas()
    assert [name for name in frame if name.startswith("config/")] == ["config/lr"]
    assert {"config/lr", "config/gamma", "config/seed"} <= set(tm.load(experiment).to_pandas(params="all"))
    assert not [name for name in tm.load(experiment).to_pandas(params="none") if name.startswith("config/")]
    with pytest.raises(ValueError, match="'differing', 'all' or 'none', got 'some'"):
        tm.load(experiment).to_pandas(params="some")


def test_addresses_of_functions_do_not_differ():
    assert differing([{"f": "<function f at 0x7f1>"}, {"f": "<function f at 0x7f2>"}]) == []
    assert differing([{"a": 1}, {}]) == ["a"]


def test_rows_are_joined_with_their_trials_metrics(experiment):
    frame = tm.load(experiment).to_pandas()
    name = "env_runners/episode_return_mean"
    of_b = frame[frame["trial"] == "trial_b"]
    assert set(of_b[f"last/{name}"]) == {4.0}
    assert set(of_b[f"best/{name}"]) == {9.0}
    assert not [name for name in tm.load(experiment).to_pandas(metrics=False) if name.startswith(("last/", "best/"))]
    assert "best/training_iteration" in tm.load(experiment).to_pandas(metrics=["training_iteration"])
    missing = tm.load(experiment).to_pandas(metrics="no_such_metric")
    assert all(map(math.isnan, missing["last/no_such_metric"]))


def test_the_columns_are_the_same_if_nothing_was_recorded(experiment, tmp_path):
    (tmp_path / "exp" / "trial").mkdir(parents=True)
    (tmp_path / "exp" / "trial" / "params.json").write_text("{}")
    empty = tm.load(tmp_path / "exp").to_pandas()
    assert list(empty) == list(MEDIA_COLUMNS)
    assert list(tm.load(experiment).to_pandas())[: len(MEDIA_COLUMNS)] == list(MEDIA_COLUMNS)
    assert {"trial", "episode_return", "note"} <= set(tm.load(tmp_path / "exp").episodes())
