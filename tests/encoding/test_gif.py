import io
import math

import av
import PIL.Image
import PIL.ImageSequence
import pytest

from tune_media.encoding.encoder import encode_video
from tune_media.encoding.gif import gif_from_video


def gif_times(gif: bytes) -> list[float]:
    with av.open(io.BytesIO(gif)) as container:
        return [round(float(frame.time), 2) for frame in container.decode(video=0)]


def delays(gif: bytes) -> list[int]:
    """Return the time for which each frame is shown, milliseconds."""
    return [frame.info["duration"] for frame in PIL.ImageSequence.Iterator(PIL.Image.open(io.BytesIO(gif)))]


@pytest.mark.parametrize(
    ("fps", "expected"),
    [(4, [250] * 4), (1, [1000] * 4), (10, [100] * 4), (0.001, [655350] * 4), (4, [250])],
)
def test_the_last_frame_of_a_gif_is_shown_as_long_as_the_others(frames, fps, expected):
    assert delays(gif_from_video(encode_video(frames(len(expected)), fps=fps).data)) == expected


@pytest.mark.parametrize("fps", [12, 30, 40, 50, 60, 67, 90, 100, 240])
def test_every_delay_of_a_gif_is_one_that_browsers_keep_and_the_whole_lasts_as_long_as_the_clip(frames, fps):
    clip = encode_video((frame for _ in range(10) for frame in frames(6)), fps=fps)
    for max_fps in (None, 15, 50, 100, math.inf):
        found = delays(gif_from_video(clip.data) if max_fps is None else gif_from_video(clip.data, max_fps=max_fps))
        assert min(found) >= 20, max_fps  # browsers show 10 ms as 100
        assert sum(found) == pytest.approx(60_000 / fps, abs=11), max_fps
        assert len(found) == pytest.approx(60 / fps * min(fps, max_fps or 15, 50), abs=1), max_fps


def test_a_gif_is_scaled_down_but_never_up(frames):
    for width, expected in ((600, 320), (48, 48)):
        gif = gif_from_video(encode_video(frames(3, height=40, width=width), fps=10).data)
        assert int.from_bytes(gif[6:8], "little") == expected


def test_a_gif_of_a_very_long_clip_stays_small_and_at_speed(frames):
    clip = encode_video((frame for _ in range(300) for frame in frames(4)), fps=20)
    times = gif_times(gif_from_video(clip.data, max_frames=50))
    assert len(times) <= 50
    assert times[-1] == pytest.approx(60, abs=3)
