import pytest

from tune_media import VideoOptions, selection
from tune_media.recording.choosing import RESERVED
from tune_media.recording.plan import Plan
from tune_media.selection import as_selectors


def plan(**options):
    return Plan("episodes", as_selectors("best"), **options)


@pytest.mark.parametrize(
    ("options", "info", "steps"),
    [
        ({}, True, False),  # the convention of info needs no option
        ({"collect": False}, False, False),
        ({"collect": "data/speed"}, True, False),
        ({"collect": lambda step: {"x": step.reward}}, True, True),
        ({"collect": False, "trajectories": True}, True, True),
        ({"collect": False, "video": VideoOptions(overlay="step")}, True, True),
        ({"collect": False, "video": None}, False, False),
    ],
)
def test_only_the_parts_of_a_step_that_are_needed_are_looked_at(options, info, steps):
    assert (plan(**options).looks_at_info, plan(**options).looks_at_steps) == (info, steps)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_selector_cannot_have_a_name_that_the_result_needs(name):
    with pytest.raises(ValueError, match=f"a selector cannot be named '{name}'"):
        Plan("episodes", (selection.best(name=name),))


def test_what_cannot_be_collected_or_drawn_fails_when_the_plan_is_made():
    with pytest.raises(TypeError, match="collect="):
        plan(collect=3)
    with pytest.raises(ValueError, match="'stpe'"):
        plan(video=VideoOptions(overlay="stpe"))
