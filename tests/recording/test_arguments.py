import numpy as np
import pytest

from tune_media import VideoOptions
from tune_media.recording.arguments import as_indices, check_recording


@pytest.mark.parametrize("given", [2, np.int64(2), [2], iter([2]), {2: "a sub-env"}])
def test_one_index_or_several_of_any_kind_are_a_set(given):
    assert as_indices("env_indices", given) == frozenset({2})


@pytest.mark.parametrize("given", [[], -1, [0, -1], [3], "1", 1.0, [True]])
def test_indices_that_cannot_be_name_the_argument_the_value_and_the_last_one(given):
    with pytest.raises(ValueError, match=r"env_indices= takes indices from 0 to 2, or None for all; got") as failure:
        as_indices("env_indices", given, count=3)
    assert repr(given) in str(failure.value)


@pytest.mark.parametrize(
    ("trigger", "video", "frame", "error", "words"),
    [
        (
            3,
            VideoOptions(),
            None,
            TypeError,
            r"a trigger is a callable or a RenderBudget, for example .*; got 3",
        ),
        (lambda a, b: True, VideoOptions(), None, TypeError, "called with one argument, the index of an episode"),
        (None, 30, None, TypeError, r"video= takes a tune_media.VideoOptions\(.*\) or None, got 30"),
        (None, None, "render", ValueError, "leave one of them out"),
        (None, VideoOptions(), {}, ValueError, "name at least one view"),
        (None, VideoOptions(), {"left": 3}, TypeError, "frame= takes a callable, .* got 3"),
        (None, VideoOptions(), {"left": lambda: 0}, TypeError, "called with one argument, the env"),
    ],
)
def test_arguments_that_cannot_work_name_the_value_and_the_remedy(trigger, video, frame, error, words):
    with pytest.raises(error, match=words):
        check_recording(trigger, video, frame)
