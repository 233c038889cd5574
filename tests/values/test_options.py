import pytest

import tune_media as tm


def test_options_scale_and_bad_options_fail_where_they_are_given(frames):
    assert tm.Video(frames(2, 400, 600), options=tm.VideoOptions(height=64, width=96)).width == 96
    for bad in ({"fps": 0}, {"fps": float("nan")}, {"height": -1}, {"crf": 99}, {"preset": "warp"}, {"max_frames": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            tm.VideoOptions(**bad)
    with pytest.raises(ValueError, match="gif_width"):
        tm.MediaOptions(gif_width=0)
