"""The interval of a mean, beside SciPy's."""

import numpy as np
import pytest

from tune_media.evaluation.interval import mean_interval


def test_it_is_scipys_percentile_bootstrap():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(5).exponential(100.0, 40)
    found = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=1).confidence_interval
    assert mean_interval(values) == pytest.approx((found.low, found.high), rel=0.02)


def test_it_is_the_same_each_time_and_bounded_for_many_values():
    values = np.random.default_rng(5).normal(3.0, 1.0, 100_000)
    low, high = mean_interval(values)
    assert (low, high) == mean_interval(values)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(len(values)), rel=0.15)
