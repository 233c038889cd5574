import numpy as np
import pytest

import tune_media as tm
from tune_media.encoding.decode import decode_video
from tune_media.encoding.encoder import encode_video
from tune_media.encoding.gif import gif_from_video


def test_a_video_is_made_of_any_named_layout(frames):
    clip = np.stack(frames(4))
    grey = clip[..., 0]
    cases = {
        "THWC": tm.Video(clip, fps=10),
        "generator": tm.Video((frame for frame in clip), fps=10),
        "TCHW": tm.Video(clip.transpose(0, 3, 1, 2), fps=10, layout="TCHW"),
        "float": tm.Video(clip / 255.0, fps=10, value_range=1.0),
        "float TCHW": tm.Video(clip.transpose(0, 3, 1, 2) / 255.0, fps=10, layout="TCHW", value_range=1.0),
    }
    pictures = {name: np.stack(list(decode_video(video.data))).astype(int) for name, video in cases.items()}
    for name, decoded in pictures.items():  # two encodings of the same frames may differ in a few bits
        assert np.abs(decoded - pictures["THWC"]).mean() < 1, name
    assert tm.Video(grey, layout="THW").frames == 4
    assert tm.Video(np.concatenate([clip, clip[..., :1]], axis=-1)).frames == 4  # RGBA


def test_a_video_says_what_is_wrong_with_its_frames(frames):
    with pytest.raises(ValueError, match="layout must be one of"):
        tm.Video(frames(), layout="CTHW")
    with pytest.raises(ValueError, match="value_range"):
        tm.Video(frames(), value_range=2)
    with pytest.raises(ValueError, match="at least one frame"):
        tm.Video([])
    with pytest.raises(ValueError, match="two axes"):
        tm.Video(frames(), layout="THW")


def test_a_video_comes_from_a_file(frames, tmp_path):
    path = tmp_path / "clip.mp4"
    path.write_bytes(encode_video(frames(5), fps=25).data)
    video = tm.Video.from_file(path)
    assert (video.frames, video.fps, video.width, video.height) == (5, 25, 48, 32)
    assert video.content() == path.read_bytes()
    (tmp_path / "broken.mp4").write_bytes(b"0123")
    with pytest.raises(ValueError, match="no video"):
        tm.Video.from_file(tmp_path / "broken.mp4")
    (tmp_path / "clip.gif").write_bytes(gif_from_video(video.data))
    with pytest.raises(ValueError, match="no mp4"):
        tm.Video.from_file(tmp_path / "clip.gif")


def test_a_video_of_every_nth_frame_lasts_as_long(frames):
    clip = tm.Video(frames(10, 16, 16), fps=30, options=tm.VideoOptions(every=3))
    assert (clip.frames, clip.fps) == (4, 10)
    assert "frame_stride" not in clip.facts()  # whoever made the frames knows, and did not say
