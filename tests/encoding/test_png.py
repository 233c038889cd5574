import io

import av
import numpy as np

from tune_media.encoding import frame_from_png, png_from_frame


def test_png_is_lossless(frames):
    picture = frames()[2]
    with av.open(io.BytesIO(png_from_frame(picture)), format="png_pipe") as container:
        decoded = next(container.decode(video=0)).to_ndarray(format="rgb24")
    assert np.array_equal(picture, decoded)


def test_a_png_comes_back_as_the_picture_it_was_made_of(frames):
    picture = frames()[2]
    assert np.array_equal(frame_from_png(png_from_frame(picture)), picture)
