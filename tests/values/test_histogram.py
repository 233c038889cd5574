import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tune_media as tm
from tests.support.properties import many


@many
@given(st.lists(st.floats(), max_size=5), st.integers(1, 70))
@example([1e16, 1e16 + 2], 64)
@example([1e308, -1e308], 64)
@example([5e-324, 0.0], 64)
def test_a_histogram_takes_what_would_break_others(values, bins):
    histogram = tm.Histogram(values, bins)
    finite = [value for value in values if math.isfinite(value)]
    assert histogram.count == len(finite) == sum(histogram.counts)
    assert histogram.nonfinite == len(values) - len(finite)
    json.loads(histogram.content())


def test_a_histogram_of_counts_equals_that_of_the_values():
    values = np.random.default_rng(0).normal(size=1000)
    counts, edges = np.histogram(values, bins=20)
    counted, direct = tm.Histogram.from_counts(edges, counts), tm.Histogram(values, bins=20)
    assert (counted.edges, counted.counts, counted.count) == (direct.edges, direct.counts, direct.count)
    with pytest.raises(ValueError, match="one more than counts"):
        tm.Histogram.from_counts([0, 1], [1, 2])
