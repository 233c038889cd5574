import io

import numpy as np
import PIL.Image
import pytest

from tune_media import Image
from tune_media.results.raw_pictures import raw_pixels

PICTURE = np.random.default_rng(0).integers(0, 255, (20, 30, 3), np.uint8)


@pytest.mark.parametrize(
    "value",
    [
        PICTURE,
        PICTURE.transpose(2, 0, 1),
        PICTURE / 255.0,
        (PICTURE / 255.0).astype(np.float32).transpose(2, 0, 1),
        PICTURE.astype(np.float32),
        PICTURE.astype(np.float16),
        np.asfortranarray(PICTURE),
    ],
)
def test_a_picture_of_either_layout_has_its_pixels(value):
    image = Image(raw_pixels(value))
    shown = np.asarray(PIL.Image.open(io.BytesIO(image.data)).convert("RGB"))
    assert np.array_equal(shown, PICTURE)


@pytest.mark.parametrize("shape", [(20, 30, 1), (1, 20, 30), (20, 30, 4), (4, 4, 3), (3, 16, 16)])
def test_one_three_and_four_channels_are_pictures(shape):
    assert raw_pixels(np.zeros(shape, np.uint8)).shape[2] in (1, 3, 4)
