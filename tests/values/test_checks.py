import numpy as np
import pytest

from tune_media.values.checks import above_0, as_shown, is_number, name_some


def test_a_value_is_shown_on_one_short_line():
    assert as_shown(np.zeros((9, 9, 9))) == " ".join(as_shown(np.zeros((9, 9, 9))).split())
    assert len(as_shown("x" * 500)) <= 80
    assert as_shown(int) == "the class int"


def test_a_value_whose_repr_raises_is_shown_by_its_type():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert as_shown(Broken()) == "<Broken>"


def test_numbers_of_numpy_are_numbers_and_truth_values_are_not():
    assert [is_number(value) for value in (np.float32(1), np.int64(1), 1, True, np.bool_(True), "1", None)] == [
        *[True, True, True],
        *[False, False, False, False],
    ]


def test_a_whole_number_is_finite_and_may_be_a_float():
    for value in (float("inf"), 1.5):
        with pytest.raises(ValueError, match="x takes a whole number above 0, got"):
            above_0(whole=True).check("x", value)
    above_0(whole=True).check("x", 512e6)


def test_many_names_are_cut():
    assert name_some(map(str, range(13))).endswith("'9' and 3 more")
