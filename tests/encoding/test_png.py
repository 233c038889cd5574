import numpy as np

from tune_media.encoding import decode_video, png_from_frame


def test_a_png_comes_back_as_the_picture_it_was_made_of(frames):
    picture = frames()[2]
    assert np.array_equal(next(decode_video(png_from_frame(picture))), picture)
