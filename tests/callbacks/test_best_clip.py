"""Which clip of a trial is the best, and which one is after the trial has gone back."""

import pytest

from tune_media.callbacks.best_clip import BestClip, BestClips


def clip(episode_return, iteration=1, section="evaluation"):
    facts = {"episode_return": episode_return, "episode_length": 3}
    return BestClip.of(facts, section=section, step=1, file="a.mp4", training_iteration=iteration)


def best_of(*clips):
    found = BestClips()
    for one in clips:
        found.add(one)
    return found.best


def test_the_highest_return_is_the_best_and_the_first_of_equals_stays():
    low, high = clip(-2.0), clip(1.0)
    assert best_of(low, high) is best_of(high, low) is high
    assert best_of(high, clip(1.0), clip(1.0, 2), None) is high
    assert best_of(None) is None


def test_an_evaluation_is_better_than_training():
    assert best_of(clip(9.0, section="train"), clip(1.0)).section == "evaluation"


@pytest.mark.parametrize("unknown", [None, float("nan"), float("inf"), "7", [1.0, 2.0]])
def test_a_clip_without_a_return_that_compares_is_no_candidate(unknown):
    assert clip(unknown) is None


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5), (3, 1, 5, 4, 2)], ids=["in order", "late clips"])
def test_a_trial_that_goes_back_has_the_best_clip_of_before(order):
    returns = {1: 3.0, 2: 1.0, 3: 7.0, 4: 7.0, 5: 9.0}
    clips = BestClips()
    for iteration in order:
        clips.add(clip(returns[iteration], iteration))
    found = []
    for iteration in (6, 5, 4, 3, 2, 1):
        clips = BestClips(clips.as_dicts())  # as another process knows them
        changed = clips.go_back(iteration)
        found.append((changed, clips.best and clips.best.episode_return))
    assert found == [(False, 9.0), (True, 7.0), (False, 7.0), (True, 3.0), (False, 3.0), (True, None)]


def test_what_is_remembered_is_bounded():
    clips = BestClips()
    for iteration in range(1000):
        clips.add(clip(float(iteration), iteration))
    assert len(clips.as_dicts()) == 12
    assert clips.best.episode_return == 999.0
