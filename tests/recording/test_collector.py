import numpy as np
import pytest

from tests.support.recorders import make_recorder
from tune_media import Artifact, Image
from tune_media.recording.collector import Collector
from tune_media.recording.episode import EpisodeStart
from tune_media.recording.series import EpisodeValues
from tune_media.steps import StepFacts, final, running

INFO = {
    "speed": 2.0,
    "joints": {"hip": 1, "knee": np.float32(3)},
    "agents": {"a": {"x": 1}, "b": {"x": 2}},
    "goal": np.array([4.0, 5.0]),
}


class Taken(list):
    """Takes the place of an ``EpisodeValues``."""

    add = list.append


def taken(collect, info=INFO, **facts):
    found = Taken()
    for error in Collector(collect).collect(StepFacts(3, 1.0, 6.0, info=info, **facts), found):
        raise error
    return {named.name: (named.value, named.rule.kind) for named in found}


def values(collect, *infos):
    held = EpisodeValues()
    for index, info in enumerate(infos):
        for error in Collector(collect).collect(StepFacts(index, 0.0, 0.0, info=info), held):
            raise error
    return held


@pytest.mark.parametrize(
    ("collect", "names"),
    [
        ("speed", {"speed": 2.0}),
        ("joints", {"joints/hip": 1, "joints/knee": 3}),
        ("joints/*", {"joints/hip": 1, "joints/knee": 3}),
        ("agents/*/x", {"agents/a/x": 1, "agents/b/x": 2}),
        (["speed", "missing"], {"speed": 2.0}),
        ({"x": "agents/*/x"}, {"x/a": 1, "x/b": 2}),
        ({"v": running("missing", default=0.5), "w": final("speed")}, {"v": 0.5, "w": 2.0}),
        (running("missing/*", default=7), {}),
        (lambda step: {"r": step.reward, "deep": {"l": step.step}}, {"r": 1.0, "deep/l": 3}),
        ({"r": lambda step: step.episode_return}, {"r": 6.0}),
        (lambda step: {"nothing": None}, {}),
    ],
)
def test_where_values_come_from(collect, names):
    assert {name: value for name, (value, _) in taken(collect).items()} == names


def test_a_rule_says_what_becomes_of_a_value():
    kinds = taken(lambda step: {"a": 1, "b": final(2), "c": running(3, statistics="max")})
    assert {name: kind for name, (_, kind) in kinds.items()} == {"a": "running", "b": "final", "c": "running"}
    held = values(
        lambda step: {"a": step.step, "b": final(step.step), "c": running(step.step, statistics="max")}, {}, {}, {}
    )
    assert held.metrics() == {
        **{"a_avg": 1, "a_sum": 3, "a_min": 0, "a_max": 2, "a_last": 2},
        "c_max": 2,
        "b": 2,
    }
    assert {name: list(series.values) for name, series in held.series().items()} == {"a": [0, 1, 2], "c": [0, 1, 2]}


def test_the_convention_of_info_needs_no_option():
    info = {"data": {"running": {"speed": 1.0}, "final": {"goals": 3}}, "media": {"track": [1, 2]}}
    expected = {"speed": (1.0, "running"), "goals": (3, "final"), "track": ([1, 2], "series")}
    assert taken(None, info) == taken("missing", info) == expected
    assert taken(False, info) == {}
    several = taken(None, {"left": info, "right": {"data": {"final": {"goals": 1}}}})
    assert set(several) == {"left/speed", "left/goals", "left/track", "right/goals"}


@pytest.mark.parametrize(
    "info", [{"data": 3, "media": np.zeros(4)}, {"data": None}, {"data": {"running": 1}}, {"x": {}}, None]
)
def test_other_uses_of_these_words_do_no_harm(info):
    assert taken(None, info) == {}


@pytest.mark.parametrize(
    ("info", "place"),
    [
        ({"data": {"gap": 1.0, "final": {"goals": 1}}}, "info['data']['gap']"),
        ({"data": {"running": 1.0, "final": {"goals": 1}}}, "info['data']['running']"),
        (
            {"left": {"data": {"final": {"goals": 1}}}, "__common__": {"data": {"gap": 1.0}}},
            "info['__common__']['data']",
        ),
    ],
)
def test_what_is_beside_the_convention_is_named_once_and_the_rest_is_taken(info, place):
    recorder = make_recorder(video=None, strict=True)  # no value of an episode is wrong
    recorder.start(0, EpisodeStart("one", dict))
    for _ in range(3):
        recorder.step(0, 1.0, None, info)
    (problem,) = recorder.problems
    assert place in problem.text and problem.text.startswith("a value of a step is not stored: ")
    assert [*recorder.end(0).metrics.values()] == [1]


@pytest.mark.parametrize("reads", [{"success": "data/solved"}, {"collect": "data/solved"}, {"trajectories": True}])
def test_what_something_else_may_read_or_store_is_not_said_to_be_lost(reads):
    recorder = make_recorder(video=None, **reads)
    recorder.start(0, EpisodeStart("one", dict))
    recorder.step(0, 1.0, None, {"data": {"solved": True}})
    assert not list(recorder.problems)


@pytest.mark.parametrize("collect", [3, [], {}, [3], {"x": 3}, "", [final(lambda step: 1)], running(3)])
def test_what_is_no_collect_is_refused_where_it_is_given(collect):
    with pytest.raises(TypeError, match="collect="):
        Collector(collect)


def test_vectors_are_split_and_long_ones_kept_whole():
    held = values(lambda step: {"goal": [1, step.step], "scan": np.zeros(100)}, {}, {})
    assert held.metrics()["goal/1_avg"] == 0.5
    assert not any(name.startswith("scan") for name in held.metrics())
    assert held.series()["scan"].values == [[0.0] * 100] * 2


def test_text_is_kept_and_its_last_value_is_final():
    held = values("phase", {"phase": "grasp"}, {"phase": "lift"})
    assert held.values() == {"phase": "lift"}
    assert held.series()["phase"].values == ["grasp", "lift"]
    assert held.metrics() == {}


def test_pictures_and_files_are_kept_once_an_episode():
    buffer = np.zeros((8, 8, 3), np.uint8)

    def collect(step):
        buffer[:] = step.step  # as envs do
        return {"seen": buffer, "own": Image(np.zeros((4, 6), np.uint8)), "file": Artifact(b"x", name="x.bin")}

    held = values(collect, {}, {}, {})
    media = held.media()
    assert {name: type(medium) for name, medium in media.items()} == {"seen": Image, "own": Image, "file": Artifact}
    assert media["seen"].width == 8
    assert not held.series()
    assert not held.metrics()


def test_what_is_not_a_number_spoils_only_its_own_statistics():
    held = values("x", {"x": 1.0}, {"x": float("nan")}, {"x": float("inf")})
    metrics = held.metrics()
    assert np.isnan(metrics["x_avg"])
    assert metrics["x_last"] == np.inf


ENDLESS = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("collect", "words"),
    [
        *(({"thing": lambda step, one=one: one}, "thing") for one in (lambda: 0, object(), {1: lambda: 0}, [open])),
        ({"thing": lambda step: ENDLESS}, "contains itself"),
        (lambda step: [step.reward], "the function returned list, and no dict of values by name"),
    ],
)
def test_what_cannot_be_stored_is_named(collect, words):
    with pytest.raises(TypeError, match=words):
        values(collect, {})


def test_what_raises_costs_itself_and_what_is_there_twice_counts_once(caplog):
    def fails(step):
        raise ZeroDivisionError

    collect = {"a": fails, "b": lambda step: 1.0, "speed": "speed", "c": lambda step: 10**5000}
    recorder = make_recorder(video=None, collect=collect)
    recorder.start(0, EpisodeStart("e"))
    for _ in range(3):
        recorder.step(0, 1.0, None, {"speed": 2.0, "data": {"running": {"speed": 2.0}, "final": {"\ud800": 1}}})
    recorder.end(0)
    (episode,) = recorder.candidates.data()
    assert episode.record.metrics["b_sum"] == 3
    assert episode.record.metrics["speed_sum"] == 6
    assert episode.record.metrics["?"] == 1
    assert len(caplog.records) == 3  # of a, of c, and of the second speed


def test_a_number_that_turns_text_keeps_its_statistics():
    held = values("x", {"x": 1.0}, {"x": "lost"}, {"x": 3.0})
    assert held.metrics()["x_avg"] == 2.0
    assert held.series()["x"].values == [1.0, "lost", 3.0]


def test_infos_about_all_agents_have_no_agent_in_their_names():
    own = {"data": {"final": {"goals": 1}}}
    assert set(taken(None, {"left": own, "__common__": own})) == {"left/goals", "goals"}


def test_paths_that_no_info_has_are_told_with_the_names_that_infos_have():
    collector = Collector(["spped", "goal", running("rare", default=0)])
    step = StepFacts(0, 0.0, 0.0, info={"speed": 1.0, "goal": 2, "data": {"x": 1}})
    assert not list(collector.collect(step, EpisodeValues()))
    assert collector.never_matched() == (frozenset({"spped"}), ("speed", "goal", "data/x"))
