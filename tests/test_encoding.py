import io

import av
import numpy as np
import pytest

from tune_media import encoding
from tune_media.encoding import VideoEncoder, decode_video, encode_video, probe_video


def test_every_frame_comes_back_in_order(frames):
    clip = frames(9)
    decoded = list(decode_video(encode_video(clip, fps=12).data))
    assert len(decoded) == 9
    for original, frame in zip(clip, decoded, strict=True):
        assert np.abs(original.astype(int) - frame.astype(int)).mean() < 12  # yuv420p blurs the one edge


def test_the_index_is_in_front_so_that_browsers_start_at_once(frames):
    data = encode_video(frames(), fps=12).data
    assert 0 < data.find(b"moov") < data.find(b"mdat")


def test_speed_and_length_are_those_asked_for(frames):
    for fps in (4, 12.5, 50, 29.97):
        video = probe_video(encode_video(frames(7), fps=fps).data)
        assert video.frames == 7
        assert video.fps == pytest.approx(fps, rel=1e-3)


def test_a_single_frame_is_a_clip(frames):
    assert probe_video(encode_video(frames(1), fps=30).data).frames == 1


@pytest.mark.parametrize(("height", "width"), [(33, 47), (32, 47), (33, 48), (1, 1), (16, 17)])
def test_odd_sizes_are_padded_not_resized(height, width):
    frame = np.zeros((height, width, 3), np.uint8)
    frame[:, -1] = 255
    video = encode_video([frame] * 2, fps=10)
    assert (video.width, video.height) == (width + width % 2, height + height % 2)
    decoded = next(iter(decode_video(video.data)))
    assert decoded[0, width - 1].mean() > 150 or width == 1


def test_scaling_keeps_the_proportions_where_one_side_is_open(frames):
    clip = frames(3, height=400, width=600)
    assert (encode_video(clip, 10, height=64, width=96).width, encode_video(clip, 10, width=96).height) == (96, 64)
    assert encode_video(clip, 10, height=64).width == 96


def test_a_buffer_that_the_env_reuses_is_no_still():
    buffer = np.zeros((32, 32, 3), np.uint8)

    def render():
        for level in range(0, 250, 50):
            buffer[:] = level
            yield buffer

    video = encode_video(render(), fps=10)
    assert video.note is None
    assert [round(frame.mean(), -1) for frame in decode_video(video.data)] == [0, 50, 100, 150, 200]


def test_a_still_says_so():
    assert "still" in encode_video([np.zeros((32, 32, 3), np.uint8)] * 4, fps=10).note


def test_a_clip_that_is_cut_says_so(frames):
    video = encode_video(frames(9), fps=10, max_frames=4)
    assert (video.frames, probe_video(video.data).frames) == (4, 4)
    assert "cut after 4 frames" in video.note


def test_a_size_that_changes_is_scaled_and_noted(frames):
    video = encode_video([*frames(2), *frames(2, height=64, width=96)], fps=10)
    assert (video.width, video.height, video.frames) == (48, 32, 4)
    assert "size changed" in video.note


def test_grey_and_transparent_frames_become_rgb():
    for frame in (np.full((16, 16), 90, np.uint8), np.full((16, 16, 1), 90, np.uint8), np.full((16, 16, 4), 90, "u1")):
        decoded = next(iter(decode_video(encode_video([frame], 10).data)))
        assert decoded.shape == (16, 16, 3)
        assert abs(decoded.mean() - 90) < 3


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (np.zeros((16, 16, 3), np.float32), "value_range=1.0"),
        (np.zeros((3, 16, 16), np.uint8), "layout='TCHW'"),
        (np.zeros((16,), np.uint8), "height x width x channels"),
        (np.zeros((0, 16, 3), np.uint8), "height x width x channels"),
        (None, "uint8"),
    ],
)
def test_what_is_no_frame_is_refused_with_the_remedy(frame, words):
    with pytest.raises(ValueError, match=words):
        VideoEncoder(10).feed(frame)


def test_the_encoder_is_a_state_machine(frames):
    encoder = VideoEncoder(10)
    with pytest.raises(ValueError, match="at least one frame"):
        encoder.finish()
    encoder.feed(frames()[0])
    encoder.finish()
    with pytest.raises(RuntimeError, match="finished"):
        encoder.feed(frames()[0])
    with pytest.raises(RuntimeError, match="finished"):
        encoder.finish()
    cancelled = VideoEncoder(10)
    cancelled.feed(frames()[0])
    cancelled.cancel()
    cancelled.cancel()
    with pytest.raises(RuntimeError, match="cancelled"):
        cancelled.feed(frames()[0])


def test_an_unknown_speed_is_refused():
    with pytest.raises(ValueError, match="fps"):
        VideoEncoder(0)


@pytest.mark.parametrize("codec", ["libvpx-vp9", "mpeg4"])
def test_without_h264_another_codec_is_used_with_one_warning(frames, monkeypatch, caplog, codec):
    real = encoding._try_codec

    def broken(name):
        if list(encoding._CODECS).index(name) < list(encoding._CODECS).index(codec):
            raise RuntimeError("this build cannot open it")
        real(name)

    monkeypatch.setattr(encoding, "_try_codec", broken)
    encoding.working_codec.cache_clear()
    try:
        videos = [encode_video(frames(5), fps=10) for _ in range(2)]
    finally:
        encoding.working_codec.cache_clear()
    assert {video.codec for video in videos} == {codec}
    assert len([r for r in caplog.records if "H.264 cannot be encoded" in r.message]) == 1
    assert len(list(decode_video(videos[0].data))) == 5


def test_bytes_that_are_no_video_are_refused():
    with pytest.raises(ValueError, match="no video"):
        probe_video(b"this is not an mp4")


def test_png_is_lossless(frames):
    picture = frames()[2]
    with av.open(io.BytesIO(encoding.png_from_frame(picture)), format="png_pipe") as container:
        decoded = next(container.decode(video=0)).to_ndarray(format="rgb24")
    assert np.array_equal(picture, decoded)


def test_resizing_averages_over_areas():
    stripes = np.zeros((40, 40, 3), np.uint8)
    stripes[:, ::2] = 200
    small = encoding.resize(stripes, height=10, width=20)
    assert small.shape == (10, 20, 3)
    assert abs(small.mean() - 100) < 3
