import json
import math

import numpy as np
import pytest

import tune_media as tm


@pytest.mark.parametrize(
    "values",
    [
        [],
        [math.nan],
        [1.0, 1.0],
        [1, 2, math.inf, -math.inf, math.nan],
        [5],
        [0.3, 0.1 + 0.2],
        [1e16, 1e16 + 2],
        [1e308, -1e308],
        [5e-324, 0],
    ],
)
def test_a_histogram_takes_what_would_break_others(values):
    histogram = tm.Histogram(values)
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
