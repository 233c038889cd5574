import pytest

from tune_media.encoding import encode_video, probe_video


def test_speed_and_length_are_those_asked_for(frames):
    for fps in (4, 12.5, 50, 29.97):
        video = probe_video(encode_video(frames(7), fps=fps).data)
        assert video.frames == 7
        assert video.fps == pytest.approx(fps, rel=1e-3)


def test_the_frames_of_a_clip_are_counted_without_decoding_them(frames):
    video = encode_video(frames(7), fps=10)
    probed = probe_video(video.data)
    assert (probed.frames, probed.width, probed.height, probed.data) == (7, video.width, video.height, video.data)
