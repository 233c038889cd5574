"""The statistics are those of SciPy, and those that rliable computes."""

import numpy as np
import pytest

from tune_media.viewing.statistics import difference, estimate, interquartile_mean, mean, paired_difference

scipy_stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 11])
def test_the_interquartile_mean_is_scipys_trimmed_mean(count):
    scores = np.random.default_rng(count).normal(size=count)
    assert interquartile_mean(scores) == pytest.approx(scipy_stats.trim_mean(scores, 0.25))


@pytest.mark.parametrize(("statistic", "of_scipy"), [(mean, np.mean), (interquartile_mean, None)])
def test_an_interval_over_runs_is_scipys_percentile_bootstrap(statistic, of_scipy):
    scores = np.random.default_rng(1).gamma(2.0, 10.0, 12)
    found = estimate(scores, statistic)

    def trimmed(values, axis):
        return scipy_stats.trim_mean(values, 0.25, axis=axis)

    expected = scipy_stats.bootstrap(
        (scores,), of_scipy or trimmed, method="percentile", n_resamples=20_000, random_state=2
    ).confidence_interval
    width = expected.high - expected.low
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.05 * width)


def test_an_interval_over_runs_and_tasks_is_stratified():
    """Each task keeps its number of runs, so tasks of different height do not widen the interval."""
    scores = np.random.default_rng(1).normal(size=(8, 3)) + np.array([0, 100, 1000])
    found = estimate(scores, mean)
    draws = np.random.default_rng(3).integers(0, 8, (20_000, 8, 3))
    means = np.take_along_axis(scores[None], draws, axis=1).mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.05 * (high - low))
    assert found.value == pytest.approx(scores.mean())


def test_differences_have_the_t_intervals_of_scipy():
    rng = np.random.default_rng(4)
    first, second = rng.normal(3.0, 1.0, 6), rng.normal(1.0, 2.0, 9)
    found = difference(first, second)
    expected = scipy_stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    assert (found.value, found.low, found.high) == pytest.approx((first.mean() - second.mean(), *expected))
    pairs = scipy_stats.ttest_1samp(first - second[:6], 0).confidence_interval()
    found, _ = paired_difference(dict(enumerate(first)), dict(enumerate(second)))
    assert (found.low, found.high) == pytest.approx((pairs.low, pairs.high))


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_equal_configurations_are_told_apart_in_one_of_twenty_sweeps(runs):
    """Percentile bootstrap intervals did so in 31, 20, 12 and 7 of 100."""
    scores = np.random.default_rng(runs).normal(size=(1000, 2, runs))
    assert np.mean([not difference(*pair).has_zero for pair in scores]) < 0.07


def test_tasks_of_different_height_do_not_widen_the_interval_of_a_difference():
    first = np.random.default_rng(1).normal(size=(8, 3)) + np.array([0, 100, 1000])
    found = difference(first, first[:5] - 2)
    assert found.value == pytest.approx(first.mean() - first[:5].mean() + 2)
    assert found.high - found.low < 2


def test_equal_seeds_are_compared_in_pairs():
    """The seeds differ by a hundred, the policies by two: only pairs show it."""
    rng = np.random.default_rng(6)
    heights = rng.normal(0.0, 100.0, 40)
    first = dict(enumerate(heights + 2 + rng.normal(0, 1, 40)))
    second = dict(enumerate(heights)) | {99: 1e9}
    found, count = paired_difference(first, second)
    assert count == 40
    assert found.value == pytest.approx(2, abs=0.5)
    assert 0 < found.low < found.high < 4
    assert difference(np.array(list(first.values())), heights).has_zero


def test_an_interval_over_many_values_is_bounded_in_memory():
    values = np.random.default_rng(5).normal(3.0, 1.0, 100_000)
    found = estimate(values)
    assert found == estimate(values)
    assert found.low < values.mean() < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(len(values)), rel=0.15)


def test_one_run_has_no_interval():
    assert np.isnan(estimate(np.array([3.0])).low)
    assert np.isnan(paired_difference({1: 3.0}, {1: 2.0})[0].low)
    assert difference(np.array([3.0]), np.array([1.0, 2.0])).has_zero
