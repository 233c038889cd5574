"""Which frames of an episode are rendered while it runs, and which episodes are proofs: by counts and medians."""

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from tune_media.recording.own_frames import NEVER, FramePlan, OwnFrames
from tune_media.recording.pictures import ALONE, SPARSE, WHOLE, Pictures

STEP = 0.001  # seconds
LENGTH = 200


def picture():
    return {"": np.zeros((8, 8, 3), np.uint8)}


def plan_of(frame_seconds, *, every=1, most=None, length=LENGTH):
    """Return the plan of a recorder that has sampled some episodes."""
    clock = SimpleNamespace(sampling=0.0, rendering=0.0, tick=lambda: None)
    plan = FramePlan(clock, every, most)
    plan._random = random.Random(1)
    plan.begin(length)
    for _ in range(20):
        plan.took(frame_seconds)
        ended(plan, length)
    return plan


def ended(plan, length=LENGTH):
    plan._clock.sampling += length * STEP
    plan.ended(length)


def steps_of(own, length=LENGTH):
    """Return the steps whose frames an episode of this length renders, as a recorder asks for them."""
    taken = [step for step in range(length + 1) if step >= own.next and (own.take(step, picture) or True)]
    assert sorted(own.pictures.places(1, length)) == taken
    return taken


def many(plan, count=1000, length=LENGTH, **how):
    return [steps_of(plan.own_frames(ALONE, **how), length) for _ in range(count)]


def test_if_frames_are_cheap_each_tape_has_the_resets_one_at_a_uniform_place_and_some_more():
    found = many(plan_of(STEP))
    assert all(steps[0] == 0 for steps in found)
    assert all(len(steps) > 1 for steps in found)
    assert max(map(max, found)) == LENGTH
    few = many(plan_of(5 * STEP))  # with less than one more
    assert sum(map(len, found)) > sum(map(len, few))
    quarters = Counter((steps[-1] - 1) * 4 // LENGTH for steps in few if len(steps) == 2)
    assert all(quarters[quarter] > 30 for quarter in range(4))


def test_if_frames_are_dear_some_tapes_have_the_resets():
    found = many(plan_of(LENGTH * STEP))  # each takes as long as an episode
    assert 50 < sum(bool(steps) for steps in found) < 200  # one of ten
    found = many(plan_of(0.05 * LENGTH * STEP))
    assert 400 < sum(0 in steps for steps in found) < 600  # one of two


def test_each_tape_has_a_frame_if_its_env_does_not_show_its_last_one():
    found = many(plan_of(LENGTH * STEP), has_last=False)
    assert all(steps[0] == 0 for steps in found)
    assert 50 < sum(len(steps) > 1 for steps in found) < 200


def test_the_last_frame_of_a_clip_that_ends_before_its_episode_is_always_rendered():
    most = LENGTH // 2
    assert all(most - 1 in steps for steps in many(plan_of(LENGTH * STEP, most=most)))
    assert not all(many(plan_of(LENGTH * STEP)))


def test_frames_are_those_that_a_clip_has():
    found = {step for steps in many(plan_of(STEP, every=4, most=10)) for step in steps}
    assert found <= set(range(0, 40, 4))
    assert {0, 4, 36} <= found


def test_one_slow_frame_changes_nothing():
    plan, slow = plan_of(STEP), plan_of(STEP)
    slow.took(100.0)
    slow._clock.sampling += 100.0
    slow._clock.rendering += 100.0
    assert many(slow) == many(plan)


def test_a_slow_first_frame_keeps_no_tape_from_having_frames():
    plan = plan_of(STEP / 1000, length=24)
    plan._frames.clear()
    plan.took(0.05)  # the process waited for its turn
    for _ in range(100):
        steps = steps_of(plan.own_frames(SPARSE), 24)
        assert steps[0] == 0
        for _ in steps:
            plan.took(STEP / 1000)


def test_frames_that_mostly_wait_for_the_processor_are_not_dear():
    plan = plan_of(STEP / 5, length=24)
    plan._frames.clear()
    for _ in range(500):  # seven of ten take longer than an episode: a quick one in between says what they cost
        steps = steps_of(plan.own_frames(SPARSE), 24)
        assert steps[0] == 0
        for _ in steps:
            plan.took(STEP / 5 if plan._random.random() < 0.3 else 30 * STEP)


def test_before_an_episode_has_ended_the_reset_and_the_first_step_are_rendered():
    plan = FramePlan(SimpleNamespace(sampling=0.0, rendering=0.0, tick=lambda: None))
    assert steps_of(plan.own_frames(SPARSE)) == [0, 1]


def test_an_episode_that_ends_before_its_place_wants_its_last_frame_instead():
    own = OwnFrames([0, 9], Pictures(ALONE))
    assert steps_of(own, 5) == [0]
    assert own.want_last
    own.take(5, picture)
    own.take(5, lambda: 1 / 0)  # it is not rendered twice
    assert own.pictures.places(1, 5) == {0, 5}
    own.take(9, picture)
    assert (own.next, own.want_last) == (NEVER, False)


def test_the_rest_of_an_episode_has_at_most_one_more_frame():
    plan = plan_of(STEP, every=3, most=20)
    for step in (0, 1, 5, 6, 30):
        for _ in range(50):
            own = plan.rest(step, Pictures(WHOLE))
            assert own.pictures.how == SPARSE
            assert own.next == NEVER or (step < own.next <= 57 and own.next % 3 == 0)
    assert plan.rest(200, Pictures(WHOLE)).next == NEVER


def proofs(plan, episodes):
    """Return which of the next episodes are proofs, from 1."""
    found = []
    for number in range(1, episodes + 1):
        if plan.is_proof():
            found.append(number)
        ended(plan)
    return found


def begun(frame_seconds, **how):
    plan = plan_of(frame_seconds, **how)
    plan.begin(LENGTH)
    return plan


def test_proofs_are_ever_rarer():
    assert proofs(begun(STEP / 1000), 400) == [4, 12, 28, 60, 124, 224, 324]


@pytest.mark.parametrize("frame_seconds", [STEP / 10, STEP, 20 * STEP])
@pytest.mark.parametrize("every", [1, 5])
def test_proofs_take_no_more_than_three_percent_of_the_time(frame_seconds, every):
    found = proofs(begun(frame_seconds, every=every), 4000)
    assert found
    for count, number in enumerate(found, start=1):
        frames = count * LENGTH / every
        assert 2 * frames * frame_seconds <= 0.03 * number * LENGTH * STEP


def test_no_episode_is_a_proof_before_the_env_is_known_to_repeat_them():
    plan = FramePlan(SimpleNamespace(sampling=0.0, rendering=0.0, tick=lambda: None))
    assert not any(plan.is_proof() for _ in range(9))
