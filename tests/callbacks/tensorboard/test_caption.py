import io
import sys

import av
import numpy as np

from tune_media.callbacks.shown_values import caption_of
from tune_media.callbacks.tensorboard.caption import caption_strip
from tune_media.encoding.encoder import encode_video
from tune_media.encoding.gif import gif_from_video


def test_a_caption_says_return_length_and_step():
    assert caption_of({"episode_return": -0.5, "episode_length": 7}, "step 10") == "return -0.5, length 7, step 10"
    assert caption_of({"frames": 3, "episode_return": 12345.6}, None) == "return 12345.6"


def test_the_caption_is_above_every_frame_of_the_gif(frames):
    clip = encode_video(frames(5, height=40, width=200), fps=10)
    gif = gif_from_video(clip.data, header=lambda width: caption_strip("return 5, step 3", width))
    with av.open(io.BytesIO(gif)) as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert [picture.shape for picture in pictures] == [(56, 200, 3)] * 5
    for picture, frame in zip(pictures, frames(5, height=40, width=200), strict=True):
        strip = picture[:16].astype(int)
        assert (strip > 200).all(axis=2).mean() > 0.6  # paper
        assert 20 < (strip < 120).all(axis=2).sum() < 600  # ink
        assert np.abs(picture[16:].astype(int) - frame).mean() < 12


def test_without_pillow_there_is_no_caption(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert caption_strip("return 5", 200) is None


def test_a_caption_leaves_the_colours_of_a_gif_to_the_clip():
    strip = caption_strip("return 231, length 231, step 4000", 300)
    assert len(np.unique(strip.reshape(-1, 3), axis=0)) == 4


def test_a_caption_that_is_wider_than_its_clip_is_not_cut():
    text = "return 231, length 231, step 4000"
    strip = caption_strip(text, 176)
    assert strip.shape == (48, 176, 3)
    assert (strip[:, -3:] == 255).all()  # no line goes on beyond the edge
    assert caption_strip(text, 320).shape == (16, 320, 3)
