import numpy as np
import pytest

import tune_media as tm
from tune_media.reader import raw_layout, replace_media


def clip(seed=0, frames=4, layout="TCHW"):
    array = np.random.default_rng(seed).integers(0, 255, (1, frames, 3, 16, 24), np.uint8)
    return array if layout == "TCHW" else array.transpose(0, 1, 3, 4, 2)


def read(result):
    """Replace the media of a result by numbered paths, and return what was found."""
    found = []

    def place(item):
        found.append(item)
        return f"path{len(found) - 1}"

    replace_media(result, place)
    return found


def places(found):
    return [(item.section, item.key) for item in found]


def test_values_at_any_depth_bare_and_in_lists(frames):
    def video():
        return tm.Video(frames(2))

    result = {
        "score": 1.0,
        "rollout": video(),
        "nested": {"deep": [{"clip": video()}, {"clips": [video(), video()]}], "numbers": [1, 2, 3]},
        "several": (video(), [video(), [video()]]),
        "evaluation": {"env_runners": {"episodes": {"best": video()}}, "mine": tm.Histogram([1, 2])},
        "env_runners": {"episodes": {"best": [video()]}},
    }
    found = read(result)
    assert places(found) == [
        ("train", "rollout"),
        ("train", "nested/deep/0/clip"),
        ("train", "nested/deep/1/clips"),
        ("train", "nested/deep/1/clips"),
        ("train", "several"),
        ("train", "several"),
        ("train", "several"),
        ("evaluation", "episodes/best"),
        ("evaluation", "mine"),
        ("train", "episodes/best"),
    ]
    assert result == {
        "score": 1.0,
        "rollout": "path0",
        "nested": {"deep": [{"clip": "path1"}, {"clips": ("path2", "path3")}], "numbers": [1, 2, 3]},
        "several": ("path4", "path5", "path6"),
        "evaluation": {"env_runners": {"episodes": {"best": "path7"}}, "mine": "path8"},
        "env_runners": {"episodes": {"best": ("path9",)}},
    }


@pytest.mark.parametrize(
    "value",
    [
        clip(),
        [clip()],
        [clip(0), clip(1)],
        [[clip(0), clip(1)], [clip(2)]],
        [clip(0, frames=3), clip(1, frames=5)],  # ragged
        np.concatenate([clip(0), clip(1)]),
        clip(layout="THWC"),
        clip() / 255.0,
        clip().astype(np.int64),
        clip().astype(np.float32),
        np.array([clip(), None], dtype=object)[:1],
    ],
)
def test_raw_clips_as_people_send_them(value):
    result = {"evaluation": {"env_runners": {"videos_best": value}}}
    found = read(result)
    assert set(places(found)) == {("evaluation", "videos_best")}
    standing = result["evaluation"]["env_runners"]["videos_best"]
    assert standing == "path0" or standing == tuple(f"path{i}" for i in range(len(found)))
    for item in found:
        facts = item.medium.facts()
        assert (facts["width"], facts["height"]) == (24, 16)
        assert item.medium.content()[4:8] == b"ftyp"


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(5),
        np.zeros((3, 16, 16), np.uint8),
        np.zeros((2, 3, 16, 16), np.uint8),
        np.zeros((1, 4, 7, 16, 16), np.uint8),  # seven channels
        np.zeros((2, 2, 3, 2, 2), np.uint8),  # too small to be a picture
        np.random.default_rng(0).normal(size=(1, 4, 3, 16, 16)),  # weights, not light
        np.full((1, 4, 3, 16, 16), -1, np.int64),
        np.full((1, 4, 3, 16, 16), 256.0),
        np.zeros((1, 4, 3, 16, 16), bool),
        np.zeros((0, 4, 3, 16, 16), np.uint8),
        [1.0, 2.0],
        ["a", "b"],
        [np.zeros(3), np.zeros(4)],
        [[]],
        [],
        None,
    ],
)
def test_numbers_are_left_alone(value):
    result = {"env_runners": {"x": value}}
    assert read(result) == []
    assert result["env_runners"]["x"] is value
    assert raw_layout(value) is None


def evaluated(value, iteration=2, new=True):
    """Make a result as RLlib does: what is new brings health counts, what repeats does not."""
    section = {"env_runners": {"videos_best": value}} | ({"num_healthy_workers": 1} if new else {})
    return {"training_iteration": iteration, "evaluation": section}


def media(result):
    return [item.medium for item in read(result)]


def test_a_repeated_evaluation_is_recognised_whatever_its_shape():
    (fresh,) = media(evaluated([clip()]))
    assert fresh.may_repeat is None
    for shape in (clip(), [clip()], [[clip()]]):
        (repeat,) = media(evaluated(shape, iteration=3, new=False))
        assert fresh.id.startswith(repeat.may_repeat)


def test_a_later_evaluation_that_looks_the_same_is_another_one():
    first, second = media(evaluated(clip())) + media(evaluated(clip(), iteration=4))
    assert first.id != second.id
    assert second.may_repeat is None


def test_equal_clips_of_one_report_are_two_and_their_order_does_not_matter():
    first = {medium.id for medium in media(evaluated([clip(0), clip(0), clip(1)]))}
    assert len(first) == 3
    assert {medium.id for medium in media(evaluated([clip(1), clip(0), clip(0)]))} == first


def test_training_sections_are_told_apart_by_their_counters():
    def trained(steps):
        return media({"env_runners": {"videos": clip(), "num_env_steps_sampled_lifetime": steps}})[0]

    assert trained(100).id == trained(100).id != trained(200).id


def test_without_counters_the_content_decides():
    (first,), (again,), (other,) = media({"x": clip(0)}), media({"x": clip(0), "epoch": 2}), media({"x": clip(1)})
    assert first.id.startswith(again.may_repeat)
    assert not first.id.startswith(other.may_repeat)


def test_results_that_refer_to_themselves_end(frames):
    result = {"rollout": tm.Video(frames(2))}
    result["self"] = result
    result["list"] = [result]
    shared = [tm.Video(frames(2))]
    result["a"], result["b"] = shared, shared
    found = read(result)
    assert len(found) == 2
    assert result["a"] == result["b"] == ("path1",)


def test_the_config_is_not_searched(frames):
    video = tm.Video(frames(2))
    result = {"config": {"env_config": {"clip": video}}}
    assert read(result) == []
    assert result["config"]["env_config"]["clip"] is video


def test_deep_nesting_ends_and_media_after_it_are_found(frames):
    deep: list = []
    for _ in range(3000):
        deep = [deep]
    result = {"deep": deep, "rollout": tm.Video(frames(2))}
    assert places(read(result)) == [("train", "rollout")]


def test_a_large_array_that_is_no_clip_is_named_with_the_remedy():
    told = []
    array = np.zeros((1000, 1000))
    replace_media({"weights": {"all": array}}, lambda found: "", unread=lambda key, reason: told.append((key, reason)))
    ((key, reason),) = told
    assert key == "weights/all"
    assert "8 MB" in reason
    assert "Histogram" in reason
