import io

import numpy as np
import PIL.Image
import pytest

from tune_media.encoding.decode import decode_video
from tune_media.encoding.picture_files import jpeg_from_frame, png_from_frame


def test_a_png_comes_back_as_the_picture_it_was_made_of(frames):
    picture = frames()[2]
    assert np.array_equal(next(decode_video(png_from_frame(picture))), picture)


def opened(jpeg):
    return PIL.Image.open(io.BytesIO(jpeg))


@pytest.mark.parametrize(
    ("shape", "size"),
    [((48, 64, 3), (64, 48)), ((960, 1280, 3), (480, 360)), ((2000, 1000), (480, 960)), ((5, 7, 1), (8, 4))],
)
def test_a_poster_is_at_most_480_pixels_wide_and_keeps_its_proportions(shape, size):
    picture = opened(jpeg_from_frame(np.zeros(shape, np.uint8)))
    assert (picture.format, picture.size) == ("JPEG", size)


def test_a_poster_shows_the_colours_of_its_frame():
    frame = np.zeros((64, 64, 3), np.uint8)
    frame[:, :32], frame[:, 32:] = [200, 40, 40], [30, 30, 220]
    shown = np.asarray(opened(jpeg_from_frame(frame)).convert("RGB")).astype(int)
    assert np.abs(shown[32, 16] - [200, 40, 40]).max() < 15
    assert np.abs(shown[32, 48] - [30, 30, 220]).max() < 15


def test_a_frame_may_be_a_view_of_a_larger_array():
    array = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    view = array[::2, ::-2]
    assert jpeg_from_frame(view) == jpeg_from_frame(view.copy())
