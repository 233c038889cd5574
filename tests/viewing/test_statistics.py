"""The statistics beside the mean and their intervals are those of SciPy, and those that rliable computes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import many
from tune_media.viewing.statistics import STATISTICS, bootstrapped, interquartile_mean

scipy_stats = pytest.importorskip("scipy.stats")


@many
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_interquartile_mean_is_scipys_trimmed_mean_in_any_order(scores, random):
    rows = np.array([scores, random.sample(scores, len(scores))])
    assert interquartile_mean(rows) == pytest.approx(scipy_stats.trim_mean(rows, 0.25, axis=1), abs=1e-6)


@pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS)
def test_an_interval_is_scipys_percentile_bootstrap(statistic):
    scores = np.random.default_rng(1).gamma(2.0, 10.0, 12)
    found = bootstrapped(scores, statistic)
    expected = scipy_stats.bootstrap(
        (scores,), lambda values, axis: statistic(values), method="percentile", n_resamples=20_000, random_state=2
    ).confidence_interval
    width = expected.high - expected.low
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.05 * width)


def test_an_interval_over_many_values_is_bounded_in_memory():
    values = np.random.default_rng(5).normal(3.0, 1.0, 40_000)
    found = bootstrapped(values, interquartile_mean)
    assert found == bootstrapped(values, interquartile_mean)
    assert found.low < scipy_stats.trim_mean(values, 0.25) < found.high
    assert found.high - found.low < 0.05
