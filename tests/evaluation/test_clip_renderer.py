"""Which clips an evaluation makes."""

import pytest

import tune_media as tm
from tests.support import aim

pytestmark = pytest.mark.any_ray


def test_a_selector_that_raises_costs_its_clips_until_it_is_mended_and_nothing_else(tmp_path):
    """It was a ``ValueError`` after all episodes had been played."""
    policy = aim.saved(tmp_path, 0.5)
    arguments = {"policy": aim.load_policy, "env": aim.make_env, "seeds": 3, "name": "played"}
    found = tm.evaluate(policy, clips=(tm.selection.best(by="nope"), "worst"), **arguments)
    assert (found.best.episodes, [clip["key"] for clip in found.catalog.clips]) == (3, ["episodes/worst"])
    (problem,) = found.problems
    assert problem.startswith("a selector chooses nothing: clips='best' raised ValueError: by='nope' is no number")
    mended = tm.evaluate(policy, clips=("best", "worst"), **arguments)
    assert sorted(clip["key"] for clip in mended.catalog.clips) == ["episodes/best", "episodes/worst"]
    assert not mended.problems
