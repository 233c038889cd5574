"""Values of other libraries, as people have them."""

import io

import numpy as np
import pandas as pd
import pytest

from tune_media import Artifact, Image
from tune_media.values.convert import converted, is_picture
from tune_media.values.strict_json import as_plain


def figure():
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(3, 2), dpi=100)
    drawn.subplots().plot([1, 2, 3])
    return drawn


def test_a_figure_becomes_a_picture_of_its_size():
    image = converted(figure())
    assert isinstance(image, Image)
    assert (image.width, image.height) == (300, 200)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1"])
def test_a_pil_image_of_any_mode(mode):
    import PIL.Image

    image = converted(PIL.Image.new(mode, (12, 8)))
    assert (image.width, image.height) == (12, 8)


def test_tensors_become_arrays():
    torch = pytest.importorskip("torch")

    for tensor in (
        torch.ones(2, 3, requires_grad=True),
        torch.ones(2, 3, dtype=torch.bfloat16),
        torch.nn.Parameter(torch.ones(2, 3)),
    ):
        array = converted(tensor)
        assert isinstance(array, np.ndarray)
        assert array.tolist() == [[1, 1, 1]] * 2
    assert as_plain({"x": torch.arange(2)}, "x") == {"x": [0, 1]}


def test_a_frame_becomes_a_file_that_pandas_reads():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    artifact = converted(frame)
    assert isinstance(artifact, Artifact)
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(artifact.data)), frame, check_dtype=False)
    mixed = converted(pd.DataFrame({"a": [1, "x", object()]}))
    assert mixed.name == "table.csv"


def test_tables_of_types_that_parquet_cannot_hold_become_csv():
    table = converted(pd.DataFrame({"wave": [1 + 2j]}))
    assert (table.name, table.data) == ("table.csv", b",wave\n0,(1+2j)\n")


@pytest.mark.parametrize("value", [1, "x", None, [1], {"a": 1}, np.zeros(3), object(), lambda: 0])
def test_everything_else_is_left_alone(value):
    assert converted(value) is value


def test_what_is_a_picture():
    assert is_picture(np.zeros((8, 8), np.uint8))
    assert is_picture(np.zeros((8, 9, 3), np.uint8))
    assert not is_picture(np.zeros((8, 8, 3)))
    assert not is_picture(np.zeros((8, 8, 5), np.uint8))
    assert not is_picture(np.zeros(8, np.uint8))
