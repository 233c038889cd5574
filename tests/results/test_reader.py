from collections import deque

import numpy as np
import pytest

import tune_media as tm
from tests.support.results import evaluated, media, places, read


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


def test_the_config_is_not_searched(frames):
    video = tm.Video(frames(2))
    result = {"config": {"env_config": {"clip": video}}}
    assert read(result) == []
    assert result["config"]["env_config"]["clip"] is video


def heatmap(seed=0, dtype=np.uint8):
    return np.random.default_rng(seed).integers(0, 255, (80, 100, 3)).astype(dtype)


@pytest.mark.parametrize(
    "value",
    [
        heatmap(),
        [heatmap()],
        [heatmap(0), heatmap(1)],
        [[heatmap(0)], [heatmap(1)]],
        deque([heatmap(0), heatmap(1)], maxlen=10),
        heatmap(0) / 255.0,
    ],
)
def test_pictures_as_the_metrics_logger_reports_them_become_images(value):
    result = {"env_runners": {"pacman_heatmap": value}}
    found = read(result)
    assert set(places(found)) == {("train", "pacman_heatmap")}
    assert all(isinstance(item.medium, tm.Image) for item in found)
    assert (found[0].medium.width, found[0].medium.height) == (100, 80)
    standing = result["env_runners"]["pacman_heatmap"]
    assert standing == "path0" or standing == tuple(f"path{i}" for i in range(len(found)))


def test_a_picture_that_a_window_repeats_is_recognised():
    def trained(steps, *pictures):
        return media({"env_runners": {"map": list(pictures), "num_env_steps_sampled_lifetime": steps}})

    (first,), (again, second) = trained(100, heatmap(0)), trained(200, heatmap(0), heatmap(1))
    assert first.id.startswith(again.may_repeat)
    assert not first.id.startswith(second.may_repeat)


def test_equal_pictures_of_two_evaluations_are_two():
    first, second = media(evaluated(heatmap())) + media(evaluated(heatmap(), iteration=4))
    (repeat,) = media(evaluated([heatmap()], iteration=5, new=False))
    assert first.id != second.id
    assert second.id.startswith(repeat.may_repeat)
