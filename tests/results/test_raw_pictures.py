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


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((20, 30), np.uint8),
        np.zeros((20, 30, 5), np.uint8),  # five channels
        np.zeros((2, 20, 30), np.uint8),
        np.zeros((3, 3, 3), np.uint8),  # too small
        np.zeros((0, 20, 3), np.uint8),
        np.zeros((20, 30, 3), np.int64),  # counts
        np.zeros((20, 30, 3), bool),
        np.zeros((8, 8, 3)),  # a small table
        np.random.default_rng(0).normal(size=(3, 20, 30)),  # weights
        np.full((20, 30, 3), np.nan),
        np.full((20, 30, 3), 300.0),
        np.full((20, 30, 3), 1.5),
        np.random.default_rng(0).dirichlet(np.ones(30), (4, 20)),  # attention
        np.random.default_rng(0).dirichlet(np.ones(3), (20, 30)).astype(np.float32),  # probabilities of three actions
        [[1, 2], [3, 4]],
        "text",
        None,
    ],
)
def test_numbers_are_no_picture(value):
    assert raw_pixels(value) is None
