"""What a tape whose episode cannot be played again costs, and what is known of its recipe."""

import json

import pytest

from tests.support.taped import taped_clip
from tune_media.ray_compat import share_value
from tune_media.replay.player import RenderError
from tune_media.replay.verdicts import ReplayVerdict, decide, take_refused, verdict_on


@pytest.mark.parametrize("is_known", [False, True])
def test_a_refused_clip_is_one_lost_clip_however_often_it_is_read(is_known, tmp_path):
    clip = taped_clip(drawn=True, salt=str(tmp_path))
    if is_known:
        decide(clip.recipe.hash, ReplayVerdict(False, "at noon, the replay has another observation"))
    for _ in range(3):
        for name in ("frames", "data", "height"):
            with pytest.raises(RenderError, match="the replay has another observation"):
                getattr(clip, name)
    assert take_refused(clip.recipe.hash) == 1


def test_fields_of_a_verdict_of_another_version_are_passed_over():
    facts = {"repeats": True, "length": 8, "of_another_version": 1}
    share_value("verdict later", json.dumps(facts), may_replace=True)
    assert verdict_on("later") == ReplayVerdict.of(facts) == ReplayVerdict(True, length=8)
