import json
import math
import pickle
import tracemalloc

import numpy as np
import pytest

from tune_media import EpisodeRecord
from tune_media.episode_files import MOST_JSON_POINTS, Part, Report, report_json, report_parquet
from tune_media.episodes import MOST_NAMES, MOST_POINTS, EpisodeBatch, EpisodeData, EpisodeValues, Series, thinned
from tune_media.recorder import EpisodeRecorder, Plan
from tune_media.selection import as_selectors
from tune_media.steps import Named, Rule, final


def batch_of(*episodes):
    return EpisodeBatch(
        tuple(
            EpisodeData(
                EpisodeRecord(f"e{index}", float(index), 3, metrics=metrics),
                {name: Series(np.asarray(values, float), 1, len(values)) for name, values in series.items()},
            )
            for index, (metrics, series) in enumerate(episodes)
        )
    )


def test_a_million_steps_are_thinned_and_their_statistics_exact():
    held = EpisodeValues()
    rule = Rule("x")
    tracemalloc.start()
    for step in range(1_000_000):
        held.add(Named("x", float(step), rule))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20
    series = held.series()["x"]
    assert MOST_POINTS / 2 <= len(series) <= MOST_POINTS
    assert series.count == 1_000_000
    assert list(series.values[:3]) == [0, series.stride, 2 * series.stride]
    assert held.metrics() == {
        "x_avg": 499_999.5,
        "x_sum": 499_999_500_000,
        "x_min": 0,
        "x_max": 999_999,
        "x_last": 999_999,
    }


def test_long_things_count_for_what_they_are():
    held = EpisodeValues()
    for step in range(10_000):
        held.add(Named("scan", [float(step)] * 1000, Rule("scan")))
    assert sum(len(value) for value in held.series()["scan"].values) < 2 * MOST_POINTS


def test_a_histogram_of_a_thinned_series_counts_all_its_values():
    series = Series(np.arange(0, 1000, 4, dtype=float), 4, 1000)
    batch = EpisodeBatch((EpisodeData(EpisodeRecord("e", 1.0, 1000), {"x": series}),))
    histogram = batch.histograms()["x"]
    assert histogram.count == 1000
    assert sum(histogram.counts) == pytest.approx(1000)


def test_ten_thousand_episodes_stay_within_bounds():
    recorder = EpisodeRecorder(Plan("r", as_selectors("best"), video=None))
    info = {"data": {"running": dict.fromkeys("abcde", 1.0)}}
    for episode in range(10_000):
        recorder.start(0, f"e{episode}", None, 0.0)
        for _ in range(60):
            recorder.step(0, 1.0, None, info)
        recorder.end(0)
    data = recorder.data()
    assert len(data) == 10_000
    assert sum(len(series) for episode in data for series in episode.series.values()) <= 2_000_000
    assert all(series.count == 60 for episode in data[::500] for series in episode.series.values())
    assert all(episode.record.metrics["a_sum"] == 60 for episode in data)
    batch = EpisodeBatch(tuple(thinned(data, 100_000)))
    assert len(pickle.dumps(batch)) < 60 * 2**20
    text = report_json(Report("t", 1, 1, [Part("train", "r", batch)]), "data-00000001.json")
    assert len(json.loads(text)) == 10_000


def test_too_many_names_cost_one_warning(caplog):
    recorder = EpisodeRecorder(Plan("r", as_selectors("best"), video=None, collect=lambda step: {f"n{step.step}": 1}))
    recorder.start(0, "e", None, 0.0)
    for _ in range(3 * MOST_NAMES):
        recorder.step(0, 1.0)
    recorder.end(0)
    (episode,) = recorder.data()
    assert len(episode.series) == MOST_NAMES
    assert len(caplog.records) == 1


def test_what_cannot_be_stored_costs_one_warning_and_not_its_neighbours(caplog):
    def collect(step):
        return {"bad": lambda: 0, "good": 1.0}

    recorder = EpisodeRecorder(Plan("r", as_selectors("best"), video=None, collect=collect))
    for _ in range(3):
        recorder.start(0, "e", None, 0.0)
        recorder.step(0, 1.0)
        recorder.end(0)
    assert all(episode.record.metrics["good_sum"] == 1 for episode in recorder.data())
    assert len(caplog.records) == 1
    assert "bad is a function" in caplog.text


def test_many_values_are_in_parquet_alone_and_the_json_says_so():
    points = MOST_JSON_POINTS // 100 + 1
    batch = batch_of(*[({}, {"x": np.zeros(points)})] * 100)
    report = Report("t", 1, 7, [Part("train", "r", batch)])
    row = json.loads(report_json(report, "episode_data/data-00000007.json"))[0]
    assert "series" not in row
    assert "data-00000007.parquet" in row["series_note"]
    import io

    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(report_parquet(report)))
    assert len(dict(table["series"][0].as_py())["x"]) == points


def test_json_is_valid_whatever_the_numbers():
    batch = batch_of(({"a": math.nan, "b": math.inf}, {"x": [1.0, math.nan, -math.inf]}))
    (row,) = json.loads(report_json(Report("t", 1, 1, [Part("train", "r", batch)]), "x"), parse_constant=pytest.fail)
    assert row["metrics"] == {"a": None, "b": None}
    assert row["series"] == {"x": [1.0, None, None]}


def test_metrics_leave_nan_out_and_late_episodes():
    batch = batch_of(({"a": math.nan, "b": 1.0}, {}), ({"a": 3.0, "b": 2.0}, {}))
    assert batch.metrics() == {"a_mean": 3, "a_min": 3, "a_max": 3, "b_mean": 1.5, "b_min": 1, "b_max": 2}
    recorder = EpisodeRecorder(Plan("r", as_selectors("all"), video=None, collect=lambda step: {"x": final(1)}))
    recorder.start(0, "e", None, 0.0)
    recorder.step(0, 1.0)
    recorder.end(0)
    recorder.begin_round()
    assert recorder.records() == []
    (episode,) = recorder.data()
    assert episode.is_late
    assert EpisodeBatch((episode,)).metrics() == {}
    assert EpisodeBatch((episode,)).histograms() == {}


def test_data_that_nobody_takes_are_bounded(monkeypatch, caplog):
    monkeypatch.setattr("tune_media.recorder.MOST_EPISODES", 5)
    recorder = EpisodeRecorder(Plan("r", as_selectors("best"), video=None))
    for episode in range(9):
        recorder.start(0, f"e{episode}", None, 0.0)
        recorder.step(0, 1.0)
        recorder.end(0)
    assert [data.record.episode_id for data in recorder.data()] == [f"e{episode}" for episode in range(4, 9)]
    assert len(caplog.records) == 1


def test_an_episode_that_is_not_shown_still_tells():
    recorder = EpisodeRecorder(Plan("r", as_selectors("best"), trigger=lambda index: False))
    recorder.start(0, "e", lambda: {"": np.zeros((8, 8, 3), np.uint8)}, 10)
    recorder.step(0, 2.0, None, {"data": {"running": {"x": 3.0}}})
    assert recorder.end(0) is None
    assert recorder.records() == []
    (episode,) = recorder.data()
    assert (episode.record.episode_return, episode.record.metrics["x_avg"]) == (2.0, 3.0)


def test_arrays_weigh_what_they_are(monkeypatch):
    monkeypatch.setattr("tune_media.recorder.MOST_ROUND_POINTS", 100_000)
    recorder = EpisodeRecorder(Plan("r", as_selectors("best"), video=None))
    info = {"media": {"map": np.zeros((64, 64))}, "data": {"final": {"map": np.zeros((64, 64))}}}
    for episode in range(60):
        recorder.start(0, f"e{episode}", None, 0.0)
        recorder.step(0, 1.0, None, {"media": info["media"]} if episode % 2 else {"data": info["data"]})
        recorder.end(0)
    data = recorder.data()
    assert len(data) == 60
    assert sum(len(pickle.dumps(episode)) for episode in data) < 4 * 2**20
    assert any("left out" in (episode.record.note or "") for episode in data)


def test_what_parquet_cannot_hold_costs_no_json(tmp_path):
    import pyarrow.fs

    from tune_media.entries import Package, Place
    from tune_media.episodes import Trajectory
    from tune_media.store import TrialStore

    batch = batch_of(({"a": 1.0}, {}))
    steps = Trajectory({"step": [0, 1], "reward": [None, 1.0], "observation": [False, 1], "action": [None, "x"]})
    batch = EpisodeBatch(batch.episodes, {batch.episodes[0].record.id: steps})
    store = TrialStore(Place(pyarrow.fs.LocalFileSystem(), str(tmp_path / "s"), tmp_path / "l", "t"))
    store.load()
    _, entry = store.register(batch, "train", "r/data", 1, 1, lambda: store.report_path(1))
    store.write(Package("t", [entry]))
    assert {path.name for path in (tmp_path / "s/episode_data").iterdir()} == {
        "data-00000001.json",
        "data-00000001.parquet",
        "steps-00000001.parquet",
    }
