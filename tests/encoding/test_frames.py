import numpy as np
import pytest

from tune_media.encoding.decode import decode_video
from tune_media.encoding.encoder import encode_video
from tune_media.encoding.frames import as_rgb, frames_in_layout, resize, target_size


def test_resizing_averages_over_areas():
    stripes = np.zeros((40, 40, 3), np.uint8)
    stripes[:, ::2] = 200
    small = resize(stripes, height=10, width=20)
    assert small.shape == (10, 20, 3)
    assert abs(small.mean() - 100) < 3


def test_grey_and_transparent_frames_become_rgb():
    for frame in (np.full((16, 16), 90, np.uint8), np.full((16, 16, 1), 90, np.uint8), np.full((16, 16, 4), 90, "u1")):
        decoded = next(iter(decode_video(encode_video([frame], 10).data)))
        assert decoded.shape == (16, 16, 3)
        assert abs(decoded.mean() - 90) < 3


def test_floats_are_scaled_clipped_and_rounded():
    clip = np.array([[[0.0, 0.5, 1.0, 2.0, -1.0, np.nan]]])
    (frame,) = frames_in_layout(clip, "THW", value_range=1.0)
    assert np.asarray(frame).tolist() == [[0, 128, 255, 255, 0, 0]]


def test_whole_numbers_of_0_and_1_are_black_and_white():
    (frame,) = frames_in_layout(np.array([[[0, 1]]], np.uint8), "THW", value_range=1.0)
    assert np.asarray(frame).tolist() == [[0, 255]]


def test_the_remedies_for_floats_work():
    floats = np.linspace(0, 1, 12).reshape(1, 2, 2, 3)
    with pytest.raises(ValueError, match=r"\(255 \* x\)\.astype\('uint8'\).* value_range=1\.0 to Video"):
        as_rgb(floats[0])
    assert as_rgb((255 * floats[0]).astype("uint8")).max() == 255
    assert len(list(map(as_rgb, frames_in_layout(floats, value_range=1.0)))) == 1


@pytest.mark.parametrize(
    ("asked", "size"), [((None, None), (602, 402)), ((96, None), (96, 64)), ((None, 64), (96, 64)), ((9, 5), (10, 6))]
)
def test_sizes_keep_the_proportions_and_are_even(asked, size):
    assert target_size(601, 401, *asked) == size
