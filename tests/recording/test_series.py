import tracemalloc

import numpy as np
import pytest

from tests.support.recorders import make_recorder
from tune_media.recording.collector import Collector
from tune_media.recording.episode import EpisodeStart
from tune_media.recording.series import MAX_NAMES, MAX_POINTS, EpisodeValues, merged_metrics
from tune_media.steps import Named, Rule, StepFacts, final, running


def values(*infos, collect=None):
    held = EpisodeValues()
    problems = []
    for step, info in enumerate(infos):
        problems += map(str, Collector(collect).collect(StepFacts(step, 0.0, 0.0, info=info), held))
    return held, problems


def convention(**media_or_data):
    return {"media": media_or_data.pop("media", {}), "data": media_or_data}


def test_a_final_uint8_table_is_a_picture():
    held, _ = values(convention(final={"heat": np.zeros((8, 8), np.uint8)}))
    assert (held.media()["heat"].width, held.media()["heat"].height) == (8, 8)


def test_an_array_of_one_is_a_number_unless_it_is_in_a_series():
    one = np.array([1.5])
    held, _ = values(convention(media={"seen": one}, final={"goals": one}, running={"near": one}))
    assert held.series()["seen"].values == [[1.5]]
    assert (held.metrics()["goals"], held.metrics()["near_avg"]) == (1.5, 1.5)


LARGE = 2**62 + 1


@pytest.mark.parametrize("number", [LARGE, -LARGE, np.int64(LARGE), np.uint64(LARGE), np.array(LARGE)])
def test_integers_that_no_float_equals_are_kept(number):
    held, _ = values(convention(media={"id": number}, final={"code": number}, running={"time_ns": number}))
    assert held.series()["id"].values == held.series()["time_ns"].values == [int(number)]
    assert held.values()["code"] == int(number)
    assert held.metrics()["code"] == held.metrics()["time_ns_max"] == float(number)


@pytest.mark.parametrize("collect", [[final("speed_avg"), running("speed")], [running("speed"), final("speed_avg")]])
def test_a_final_value_does_not_replace_a_statistic(collect):
    held, problems = values(*[{"speed": float(step), "speed_avg": 99.0} for step in range(3)], collect=collect)
    assert held.metrics()["speed_avg"] == 1.0
    assert held.metrics()["speed_avg_final"] == 99.0
    assert set(problems) == {
        "the final value 'speed_avg' has the name of a statistic of the running value 'speed'; it is stored as "
        "'speed_avg_final'"
    }


def test_a_final_value_with_the_name_of_no_metric_is_itself():
    collect = [running("speed", statistics="max"), final("speed_avg")]
    held, problems = values({"speed": 1.0, "speed_avg": 99.0}, collect=collect)
    assert held.metrics() == {"speed_max": 1.0, "speed_avg": 99.0}
    assert not problems


def test_a_hooks_number_replaces_no_statistic_and_an_equal_one_is_not_repeated():
    metrics = {"speed_avg": 2.0, "goals": 1.0}
    assert merged_metrics(metrics, ["speed"], {"speed_avg": 2.0 + 1e-9, "goals": 2.0}) == {**metrics, "goals": 2.0}
    assert merged_metrics(metrics, ["speed"], {"speed_avg": 3.0})["speed_avg_final"] == 3.0


def test_many_steps_are_thinned_and_their_statistics_exact():
    held = EpisodeValues()
    rule = Rule("x")
    ours = [tracemalloc.Filter(True, "*/tune_media/*")]  # other threads of the process allocate, too
    tracemalloc.start()
    for step in range(50_000):
        held.add(Named("x", float(step), rule))
        if step % 10_000 == 9_999:
            traces = tracemalloc.take_snapshot().filter_traces(ours).statistics("filename")
            assert sum(trace.size for trace in traces) < 2**20
    tracemalloc.stop()
    series = held.series()["x"]
    assert MAX_POINTS / 2 <= len(series) <= MAX_POINTS
    assert series.count == 50_000
    assert list(series.values[:3]) == [0, series.stride, 2 * series.stride]
    assert held.metrics() == {
        "x_avg": 24_999.5,
        "x_sum": 1_249_975_000,
        "x_min": 0,
        "x_max": 49_999,
        "x_last": 49_999,
    }


def test_long_things_count_for_what_they_are():
    held = EpisodeValues()
    for step in range(1000):
        held.add(Named("scan", [float(step)] * 1000, Rule("scan")))
    assert sum(len(value) for value in held.series()["scan"].values) < 2 * MAX_POINTS


def test_too_many_names_cost_one_warning(caplog):
    recorder = make_recorder(video=None, collect=lambda step: {f"n{step.step}": 1})
    recorder.start(0, EpisodeStart("e"))
    for _ in range(3 * MAX_NAMES):
        recorder.step(0, 1.0)
    recorder.end(0)
    (episode,) = recorder.candidates.data()
    assert len(episode.series) == MAX_NAMES
    assert len(caplog.records) == 1


def test_names_that_are_left_out_raise_once_an_episode():
    """Each of them raised at each step, and was formatted: 2.9 ms a step for 400 names."""
    info = {"media": {f"n{n}": float(n) for n in range(2 * MAX_NAMES)}, "data": {"running": {"v": np.arange(3.0)}}}
    collector, held = Collector(None), EpisodeValues()
    errors = [error for step in range(5) for error in collector.collect(StepFacts(step, 0.0, 0.0, info=info), held)]
    assert len(errors) == 1
    assert "more than 200 names" in str(errors[0])
    assert len(held.series()) == MAX_NAMES
    assert {series.count for series in held.series().values()} == {5}


@pytest.mark.parametrize("rule", ["media", "running"])
def test_a_map_whose_turn_it_is_not_is_not_converted(rule):
    """``tolist()`` ran at each step: 3.8 ms for a map."""

    class Map(np.ndarray):
        converted = 0

        def tolist(self):
            Map.converted += 1
            return super().tolist()

    def info(step):
        one = np.full((64, 64), step, np.int32).view(Map)
        return {"media": {"map": one}} if rule == "media" else {"data": {"running": {"map": one}}}

    held, _ = values(*map(info, range(200)))
    series = held.series()["map"]
    assert Map.converted < 20
    assert series.count == 200
    assert [one[0][0] for one in series.values] == list(range(0, 200, series.stride))
