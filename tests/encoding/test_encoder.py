import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from tune_media.encoding.decode import decode_video, probe_video
from tune_media.encoding.encoder import VideoEncoder, encode_video


def test_every_frame_comes_back_in_order(frames):
    clip = frames(9)
    decoded = list(decode_video(encode_video(clip, fps=12).data))
    assert len(decoded) == 9
    for original, frame in zip(clip, decoded, strict=True):
        assert np.abs(original.astype(int) - frame.astype(int)).mean() < 12  # yuv420p blurs the one edge


def test_the_index_is_in_front_so_that_browsers_start_at_once(frames):
    data = encode_video(frames(), fps=12).data
    assert 0 < data.find(b"moov") < data.find(b"mdat")


@pytest.mark.parametrize(("height", "width"), [(33, 47), (32, 47), (33, 48), (1, 1), (16, 17)])
def test_odd_sizes_are_padded_not_resized(height, width):
    frame = np.zeros((height, width, 3), np.uint8)
    frame[:, -1] = 255
    video = encode_video([frame] * 2, fps=10)
    assert (video.width, video.height) == (width + width % 2, height + height % 2)
    decoded = next(iter(decode_video(video.data)))
    assert decoded[0, width - 1].mean() > 150 or width == 1


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


@pytest.mark.parametrize(
    ("fps", "error", "words"),
    [
        *((fps, TypeError, f"fps= takes a number of frames per second, .*got {fps!r}") for fps in (None, "30", True)),
        *((fps, ValueError, "fps must be positive") for fps in (-1, float("inf"), float("nan"))),
    ],
)
def test_a_speed_is_a_positive_and_finite_number(fps, error, words):
    with pytest.raises(error, match=words):
        VideoEncoder(fps)


@pytest.mark.parametrize("end", ["del encoder; gc.collect()", "sys.kept = encoder"])
def test_an_encoder_that_is_left_in_the_middle_of_a_clip_lets_python_go_on_and_end(end):
    """With PyAV 13.0 to 17.0, both crashed, or never ended; only .ci/lower-bounds has such a release."""
    code = (
        "import gc, sys, numpy; from tune_media.encoding import encoder as encoding; gc.disable(); "
        f"encoder = encoding.VideoEncoder(30, is_lean=True); encoder.feed(numpy.zeros((48, 64, 3), numpy.uint8)); {end}"
    )
    environment = {**os.environ, "PYTHONMALLOC": "debug"}  # memory that was freed is overwritten
    ended = subprocess.run([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL, timeout=120)
    assert ended.returncode == 0


def test_an_encoder_says_why_it_cannot_be_pickled(frames):
    encoder = VideoEncoder(10)
    encoder.feed(frames()[0])
    with pytest.raises(TypeError, match=r"cannot be pickled or copied.*open, 1 frames.*finish\(\)"):
        pickle.dumps(encoder)
    encoder.cancel()


@pytest.mark.parametrize(("count", "kept"), [(8, [0, 3, 6, 7]), (7, [0, 3, 6]), (1, [0])])
def test_every_nth_frame_and_the_last_one_are_encoded(count, kept):
    shades = [np.full((16, 16, 3), 30 * number, np.uint8) for number in range(count)]
    clip = encode_video(iter(shades), fps=30, every=3)
    assert [round(frame.mean() / 30) for frame in decode_video(clip.data)] == kept
    assert (clip.frames, clip.fps) == (len(kept), 10)
