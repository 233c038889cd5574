import numpy as np
import pytest

from tune_media.recording.argument_checks import as_indices


@pytest.mark.parametrize("given", [2, np.int64(2), [2], iter([2]), {2: "a sub-env"}])
def test_one_index_or_several_of_any_kind_are_a_set(given):
    assert as_indices("env_indices", given) == frozenset({2})


@pytest.mark.parametrize("given", [[], -1, [0, -1], [3], "1", 1.0, [True]])
def test_indices_that_cannot_be_name_the_argument_the_value_and_the_last_one(given):
    with pytest.raises(ValueError, match=r"env_indices= takes indices from 0 to 2, or None for all; got") as failure:
        as_indices("env_indices", given, count=3)
    assert repr(given) in str(failure.value)
