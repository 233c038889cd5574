"""The statistics beside the mean and their intervals are those of SciPy, and those that rliable computes."""

import numpy as np
import pytest

from tune_media.viewing.statistics import STATISTICS, bootstrapped, interquartile_mean

scipy_stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 11])
def test_the_interquartile_mean_is_scipys_trimmed_mean(count):
    scores = np.random.default_rng(count).normal(size=(3, count))
    assert interquartile_mean(scores) == pytest.approx(scipy_stats.trim_mean(scores, 0.25, axis=1))


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
