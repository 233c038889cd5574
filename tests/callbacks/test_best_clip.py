"""Which clip of a trial is the best."""

import pytest

from tune_media.callbacks.best_clip import BestClip, better


def clip(episode_return, section="evaluation"):
    facts = {"episode_return": episode_return, "episode_length": 3}
    return BestClip.of(facts, section=section, step=1, file="a.mp4")


def test_the_highest_return_is_the_best_and_the_first_of_equals_stays():
    low, high = clip(-2.0), clip(1.0)
    assert better(low, high) is better(high, low) is high
    assert better(high, clip(1.0)) is high
    assert better(None, low) is better(low, None) is low


def test_an_evaluation_is_better_than_training():
    assert better(clip(9.0, "train"), clip(1.0)).section == "evaluation"


@pytest.mark.parametrize("unknown", [None, float("nan"), float("inf"), "7", [1.0, 2.0]])
def test_a_clip_without_a_return_that_compares_is_no_candidate(unknown):
    assert clip(unknown) is None
