import io

import numpy as np
import pytest

from tune_media import Image


def test_a_heatmap_is_dark_where_there_is_least():
    import PIL.Image

    heat = Image.heatmap([[0.0, 1.0], [np.nan, 4.0]], scale=5)
    pixels = np.asarray(PIL.Image.open(io.BytesIO(heat.data)).convert("L"), float)
    assert pixels.shape == (10, 10)
    assert pixels[0, 0] < pixels[0, 9] < pixels[9, 9]
    assert pixels[9, 0] == 0
    assert Image.heatmap([[1, 1]]).width == 2
    with pytest.raises(ValueError, match="two axes"):
        Image.heatmap([1, 2])
    with pytest.raises(ValueError, match="PNG"):
        Image.from_png(b"GIF89a")
