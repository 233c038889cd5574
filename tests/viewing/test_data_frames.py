import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tests.support.faults import episodes
from tests.support.recorded import make_experiment
from tune_media.viewing.data_frames import MEDIA_COLUMNS


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


def test_rows_are_joined_with_their_trials_metrics(experiment):
    frame = tm.load(experiment).to_pandas()
    name = "env_runners/episode_return_mean"
    of_b = frame[frame["trial"] == "trial_b"]
    assert set(of_b[f"last/{name}"]) == {4.0}
    assert set(of_b[f"best/{name}"]) == {9.0}
    assert not [name for name in tm.load(experiment).to_pandas(metrics=False) if name.startswith(("last/", "best/"))]
    assert list(tm.load(experiment).to_pandas(metrics=None)) == list(tm.load(experiment).to_pandas())
    assert "best/training_iteration" in tm.load(experiment).to_pandas(metrics=["training_iteration"])
    missing = tm.load(experiment).to_pandas(metrics="no_such_metric")
    assert all(map(math.isnan, missing["last/no_such_metric"]))


def test_the_columns_are_the_same_if_nothing_was_recorded(experiment, tmp_path):
    recorded = tm.load(experiment).to_pandas()
    assert list(recorded)[: len(MEDIA_COLUMNS)] == MEDIA_COLUMNS
    shutil.copytree(experiment, tmp_path / "exp", ignore=shutil.ignore_patterns("media", ".tune_media.json"))
    (tmp_path / "exp" / "tuner.pkl").touch()
    empty = tm.load(tmp_path / "exp").to_pandas()
    assert list(empty) == list(recorded)
    assert len(empty) == len(tm.load(tmp_path / "exp").to_pandas(params="all")) == 0
    assert {
        empty[name].dtype for name in ("step", "episode_return", "fps", "last/env_runners/episode_return_mean")
    } == {np.dtype(float)}
    assert len(empty.merge(recorded, on="step")) == 0
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "tuner.pkl").touch()
    assert list(tm.load(tmp_path / "nothing").to_pandas()) == MEDIA_COLUMNS


def test_every_field_of_the_index_is_a_column():
    text = (Path(__file__).parents[2] / "docs" / "files.md").read_text().partition("| field | meaning |")[2]
    table = text[: text.index("\n\n")]
    fields = [name for line in table.splitlines()[2:] for name in re.findall("`([a-z0-9_]+)`", line.split("|")[1])]
    assert len(fields) > 30
    assert set(fields) <= set(MEDIA_COLUMNS)


def test_episodes_have_their_columns_if_there_are_none(experiment):
    empty = tm.load(experiment).episodes()
    assert {"trial", "episode_return", "note", "series", "config/lr"} <= set(empty)
    assert empty["episode_return"].dtype == float


def test_what_a_trial_left_behind_is_told_by_a_truth_value(tmp_path):
    results = [
        {
            "evaluation": {"env_runners": {"episodes": {"data": episodes(f"life {life}", iteration)}}},
            "clip": tm.Video(iter(np.full((3, 16, 16, 3), 20 * number, np.uint8)), fps=5),
            "training_iteration": iteration,
        }
        for number, (life, iteration) in enumerate([(1, 1), (1, 2), (1, 3), (2, 2), (2, 3)], 1)
    ]
    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), results)
    catalog = tm.load(tmp_path / "storage")
    for frame in (catalog.episodes(), catalog.to_pandas()):
        assert frame["rolled_back"].dtype == np.dtype(bool)
        assert frame[~frame["rolled_back"]]["training_iteration"].tolist() == [1, 2, 3]
        assert frame[frame["rolled_back"]]["training_iteration"].tolist() == [2, 3]
    told = catalog.episodes()
    assert sorted(told[~told["rolled_back"]]["episode_id"]) == ["life 1-1", "life 2-2", "life 2-3"]
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "tuner.pkl").touch()
    empty = tm.load(tmp_path / "nothing")
    assert empty.episodes()["rolled_back"].dtype == empty.to_pandas()["rolled_back"].dtype == np.dtype(bool)
