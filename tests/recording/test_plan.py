import pytest

from tune_media import VideoOptions, selection
from tune_media.recording.choosing import RESERVED
from tune_media.recording.plan import Plan
from tune_media.selection import as_selectors


def plan(**options):
    return Plan("episodes", as_selectors("best"), **options)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_selector_cannot_have_a_name_that_the_result_needs(name):
    with pytest.raises(ValueError, match=f"a selector cannot be named '{name}'"):
        Plan("episodes", (selection.best(name=name),))


def test_what_cannot_be_collected_or_drawn_fails_when_the_plan_is_made():
    with pytest.raises(TypeError, match="collect="):
        plan(collect=3)
    with pytest.raises(ValueError, match="'stpe'"):
        plan(video=VideoOptions(overlay="stpe"))
