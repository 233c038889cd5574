import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tests.support.faults import episodes
from tests.support.recorded import make_experiment, make_trial
from tests.support.stores import StoredTrial
from tune_media.storage.episode_files import EPISODE_COLUMNS, SUCCESS
from tune_media.values.episodes import UNKNOWN, EpisodeBatch, EpisodeData, Series
from tune_media.viewing.data_frames import MEDIA_COLUMNS, data_frame


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


def made_odd(file):
    """Write a file as an older version would, whose seeds are shorter, without returns."""
    table = pyarrow.parquet.read_table(file).drop_columns(["success_once", "success_at_end"])
    others = {"episode_return": pa.nulls(len(table), pa.float64()), "seed": table["seed"].cast(pa.int32())}
    for name, column in others.items():
        table = table.set_column(table.column_names.index(name), name, column)
    pyarrow.parquet.write_table(table, file)


def rows_of(trial):
    """Yield the rows of a trial's files with Python's values."""
    for report, is_rolled_back in trial.report_files.items():
        for row in pyarrow.parquet.read_table(Path(trial.path, report).with_suffix(".parquet")).to_pylist():
            maps = {name: dict(row.pop(name)) for name in ("series", "every", "values", "lists", "metrics")}
            lists, values = ({key: json.loads(text) for key, text in maps[n].items()} for n in ("lists", "values"))
            row |= {"series": maps["series"] | lists, "every": maps["every"], "values": values, "trial": trial.name}
            row |= {f"metrics/{name}": value for name, value in maps["metrics"].items()}
            row |= {f"config/{name}": value for name, value in trial.config.items()}
            yield dict.fromkeys(SUCCESS) | row | {"rolled_back": is_rolled_back, "abandoned": False}


def test_episodes_have_the_values_and_types_that_pandas_makes_of_their_rows(tmp_path):
    record = tm.EpisodeRecord
    odd = [
        EpisodeData(record("e1", math.nan, 3, seed=2**40, success=True, metrics={"hunter/speed_avg": 1.0})),
        EpisodeData(
            record("e2", -1.5, 5, task="b", note="é", metrics={"prey/speed_avg": math.nan, "hunter/speed_avg": 2.0}),
            {"angle": Series(np.array([1.0, 2.5]), 2, 4), "words": Series([["a"], {"b": None}], 1, 2)},
            {"end": {"place": [1, None]}, "text": "x"},
        ),
        EpisodeData(record(UNKNOWN, 1.0, 1, metrics={"of_nobody": 1.0})),
    ]
    plain = [EpisodeData(record(f"p{number}", 1.0, 2, seed=number, terminated=True)) for number in range(3)]
    trials = {
        "a": ({"lr": 0.1, "n": 1, "act": "relu"}, {10: odd, 20: plain}),
        "b": ({"lr": "auto", "n": None}, {10: plain}),
        "c": ({"lr": 0.3, "wide": True}, {}),
        "d": ({"lr": 0.5}, {10: plain, 20: odd[2:]}),
    }
    for name, (config, reports) in trials.items():
        store = StoredTrial.in_folder(make_trial(tmp_path / name, config, {}))
        for step, episodes_of_step in reports.items():
            store.add(EpisodeBatch(tuple(episodes_of_step)), "evaluation", "x/data", step)
        store.goes_on(20)  # so that what it recorded then is left behind
        store.finish()
    made_odd(next((tmp_path / "b").rglob("data-*.parquet")))
    catalog = tm.load(tmp_path)
    told = catalog.episodes()
    assert list(told) == [
        *("trial", *EPISODE_COLUMNS, "rolled_back", "abandoned", "metrics/hunter/speed_avg", "metrics/prey/speed_avg"),
        *("config/act", "config/lr", "config/n", "config/wide"),
    ]
    rows = [row for trial in catalog.trials for row in rows_of(trial) if row["episode_id"] != UNKNOWN]
    pd.testing.assert_frame_equal(told, data_frame(rows, told.columns))
    assert told["rolled_back"].tolist() == [False] * 2 + [True] * 3 + [False] * 6
    told.loc[0, "series"]["mine"] = 1  # no two episodes share a dict
    assert [*told["series"][2:]] == [{}] * 9
