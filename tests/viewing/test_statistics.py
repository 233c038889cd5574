"""The statistics are those of SciPy, and those that rliable computes."""

import numpy as np
import pytest

from tune_media.viewing.statistics import (
    Estimate,
    differences,
    estimate,
    interquartile,
    interquartile_mean,
    paired_difference,
    paired_rates,
    spreads,
)

scipy_stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 11])
def test_the_interquartile_mean_is_scipys_trimmed_mean(count):
    scores = np.random.default_rng(count).normal(size=count)
    assert interquartile_mean(scores) == pytest.approx(scipy_stats.trim_mean(scores, 0.25))


def test_an_interval_of_the_interquartile_mean_is_scipys_percentile_bootstrap():
    scores = np.random.default_rng(1).gamma(2.0, 10.0, 12)
    found = interquartile(scores)

    def trimmed(values, axis):
        return scipy_stats.trim_mean(values, 0.25, axis=axis)

    expected = scipy_stats.bootstrap(
        (scores,), trimmed, method="percentile", n_resamples=20_000, random_state=2
    ).confidence_interval
    width = expected.high - expected.low
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.05 * width)


def test_intervals_of_means_and_of_pairs_are_those_of_scipy():
    rng = np.random.default_rng(4)
    first, second = rng.normal(3.0, 1.0, 6), rng.normal(1.0, 2.0, 9)
    found, expected = estimate(first), scipy_stats.ttest_1samp(first, 0).confidence_interval()
    assert (found.value, found.low, found.high) == pytest.approx((first.mean(), expected.low, expected.high))
    pairs = scipy_stats.ttest_1samp(first - second[:6], 0).confidence_interval()
    found, _ = paired_difference(dict(enumerate(first)), dict(enumerate(second)))
    assert (found.low, found.high) == pytest.approx((pairs.low, pairs.high))


def test_two_equally_spread_configurations_have_students_interval():
    """They have one variance in common: that is the t test with equal variances."""
    first = np.array([1.0, 2.0, 3.0, 6.0])
    second = first[::-1] - 4
    (found,) = differences([first, second])
    expected = scipy_stats.ttest_ind(first, second, equal_var=True).confidence_interval()
    assert (found.value, found.low, found.high) == pytest.approx((4.0, expected.low, expected.high))


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_the_interval_of_a_mean_covers_the_true_one_in_95_of_100_cases(runs):
    scores = np.random.default_rng(runs).normal(size=(2000, runs))
    assert 0.93 < np.mean([estimate(own).has_zero for own in scores]) < 0.97


def surely_best(*tables):
    """Return whether the configuration with the highest mean is called surely the best."""
    ranked = sorted(tables, key=np.mean, reverse=True)
    return not any(one.has_zero for one in differences(ranked))


@pytest.mark.parametrize(("runs", "spread"), [(2, 1), (3, 1), (5, 1), (10, 1), (5, 3)])
def test_equal_configurations_are_told_apart_in_one_of_twenty_sweeps(runs, spread):
    """The worst case is two equal ones far ahead of others, and these are steadier."""
    scores = np.random.default_rng(runs).normal(size=(1000, 4, runs))
    scores[:, :2] *= spread
    scores[:, 2:] -= 1000
    assert np.mean([surely_best(*tables) for tables in scores]) < (0.07 if spread == 1 else 0.09)


def test_a_configuration_that_is_two_deviations_ahead_is_found_twice_as_often_as_by_welchs_test():
    scores = np.random.default_rng(1).normal(size=(500, 4, 3))
    scores[:, 0] += 2
    assert np.mean([surely_best(*tables) for tables in scores]) > 0.22  # 0.12 with Welch's


def test_rounding_noise_is_nothing():
    noisy = np.array([-12.25, -12.25 + 2e-15, -12.25])
    found = estimate(noisy)
    assert found.low == found.value == found.high
    assert differences([noisy, np.full(3, -12.25 - 2e-15)]) == [Estimate(0.0, 0.0, 0.0)]
    assert paired_difference({1: 0.1 + 0.2, 2: 5.0}, {1: 0.3, 2: 5.0})[0] == Estimate(0.0, 0.0, 0.0)


def test_tasks_of_different_height_do_not_widen_the_interval_of_a_difference():
    first = np.random.default_rng(1).normal(size=(8, 3)) + np.array([0, 100, 1000])
    (found,) = differences([first, first[:5] - 2])
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
    assert differences([np.array(list(first.values())), heights])[0].has_zero


def test_an_interval_over_many_values_is_bounded_in_memory():
    values = np.random.default_rng(5).normal(3.0, 1.0, 40_000)
    found = interquartile(values)
    assert found == interquartile(values)
    assert found.low < scipy_stats.trim_mean(values, 0.25) < found.high
    assert found.high - found.low < 0.05


@pytest.mark.parametrize("score", [1e160, 1e200, 1.7e308, -1.7e308])
def test_a_score_near_the_largest_number_costs_its_own_interval_only(score):
    first, second, diverged = np.array([5.0, 6.0, 7.0]), np.array([1.0, 2.0, 3.0]), np.array([score, 1.0, 2.0])
    (behind,) = differences([first, second])
    assert not behind.has_zero
    assert not differences([first, second, diverged])[0].has_zero
    assert differences([first, second, diverged])[1].has_zero
    assert np.isnan(estimate(diverged).low)


def test_large_scores_of_one_configuration_are_no_rounding_of_another():
    assert spreads([np.array([1.0, 2.0, 3.0]), np.full(3, 1e12)], borrowed=0)[0].variance == 1.0


def test_one_run_has_no_interval():
    assert np.isnan(estimate(np.array([3.0])).low)
    assert np.isnan(paired_difference({1: 3.0}, {1: 2.0})[0].low)
    assert differences([np.array([3.0]), np.array([1.0, 2.0])])[0].has_zero


def test_paired_rates_have_newcombes_interval():
    """The example of Fagerland, Lydersen and Laake, "Recommended tests and confidence intervals for paired binomial
    proportions": airway hyper-responsiveness before and after stem cell transplantation.
    """
    pairs = [(True, True)] + [(True, False)] + 7 * [(False, True)] + 12 * [(False, False)]
    first, second = ({seed: pair[which] for seed, pair in enumerate(pairs)} for which in (0, 1))
    found, seeds = paired_rates(first, second)
    assert seeds == 21
    assert [round(one, 3) for one in (found.value, found.low, found.high)] == [-0.286, -0.507, -0.026]
    swapped, _ = paired_rates(second, first)
    assert (swapped.low, swapped.high) == pytest.approx((-found.high, -found.low))
    assert paired_rates({}, first)[1] == 0
    same, _ = paired_rates(dict.fromkeys(range(40), True), dict.fromkeys(range(40), True))
    assert same.low < 0 < same.high
