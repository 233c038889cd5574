"""The statistics are those of SciPy, and those that rliable computes."""

import numpy as np
import pytest

from tune_media.viewing.statistics import (
    Estimate,
    Runs,
    differences,
    estimate,
    interquartile,
    interquartile_mean,
    paired_rates,
)


def compared(*tables):
    return differences([Runs(np.asarray(table, float)) for table in tables])


def on_seeds(*mappings):
    """Return the differences of policies, one run each, given by their returns on evaluation seeds."""
    return differences([Runs(np.array([np.mean([*own.values()])]), [own]) for own in mappings])


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
    (found,) = on_seeds(dict(enumerate(first)), dict(enumerate(second)))
    assert (found.low, found.high) == pytest.approx((pairs.low, pairs.high))


HAS_INTERVALS = pytest.mark.skipif(
    not hasattr(scipy_stats.ttest_ind([1, 2], [3, 5]), "confidence_interval"), reason="SciPy 1.11"
)


@HAS_INTERVALS
def test_two_equally_spread_configurations_have_students_interval():
    """They have one variance in common: that is the t test with equal variances."""
    first = np.array([1.0, 2.0, 3.0, 6.0])
    second = first[::-1] - 4
    (found,) = compared(first, second)
    expected = scipy_stats.ttest_ind(first, second, equal_var=True).confidence_interval()
    assert (found.value, found.low, found.high) == pytest.approx((4.0, expected.low, expected.high))


@HAS_INTERVALS
def test_two_runs_each_have_welchs_interval():
    """They borrow nothing: of two noisy configurations among steady ones, 11 to 14 % were «surely the best»."""
    first, second = np.array([1.0, 2.5]), np.array([-4.0, -4.2])
    found, _ = compared(first, second, [-5.0, -5.1])
    expected = scipy_stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    assert found.low <= expected.low * (1 + 1e-9) and found.high >= expected.high * (1 - 1e-9)


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_the_interval_of_a_mean_covers_the_true_one_in_95_of_100_cases(runs):
    scores = np.random.default_rng(runs).normal(size=(2000, runs))
    assert 0.93 < np.mean([estimate(own).has_zero for own in scores]) < 0.97


def surely_best(*tables):
    """Return whether the configuration with the highest mean is called surely the best."""
    return all(one.low > 0 for one in compared(*sorted(tables, key=np.mean, reverse=True)))


@pytest.mark.parametrize(("runs", "spread"), [(2, 1), (3, 1), (5, 1), (10, 1), (2, 3), (3, 3), (5, 3)])
def test_equal_configurations_are_told_apart_in_one_of_twenty_sweeps(runs, spread):
    """The worst case is two equal ones far ahead of others, and these are steadier."""
    scores = np.random.default_rng(runs).normal(size=(1000, 4, runs))
    scores[:, :2] *= spread
    scores[:, 2:] -= 1000
    assert np.mean([surely_best(*tables) for tables in scores]) < 0.07


def test_a_configuration_that_is_two_deviations_ahead_is_found_twice_as_often_as_by_welchs_test():
    scores = np.random.default_rng(1).normal(size=(500, 4, 3))
    scores[:, 0] += 2
    assert np.mean([surely_best(*tables) for tables in scores]) > 0.22  # 0.12 with Welch's


@pytest.mark.parametrize(("count", "seeds"), [(2, 10), (4, 10), (8, 10), (8, 40), (30, 10)])
def test_of_equal_policies_none_is_surely_worse_in_19_of_20_evaluations(count, seeds):
    random, errors = np.random.default_rng(count), 0
    for _ in range(300):
        returns = 2 * random.standard_normal(seeds) + random.standard_normal((count, seeds))
        returns = returns[np.argsort(-returns.mean(axis=1))]
        errors += any(one.low > 0 for one in on_seeds(*(dict(enumerate(own)) for own in returns)))
    assert errors < 300 * 0.08


def test_runs_and_seeds_are_both_samples():
    """Runs alike, a configuration that is good on some seeds by chance: over runs alone it would be surely better."""
    random, sure, over_runs = np.random.default_rng(3), 0, 0
    for _ in range(400):
        luck = 2 * random.standard_normal(10)
        tables = [
            luck + 0.1 * random.standard_normal((5, 1)) + random.standard_normal(10) + random.standard_normal((5, 10))
            for _ in range(2)
        ]
        tables.sort(key=np.mean, reverse=True)
        runs = [Runs(own.mean(axis=1), [dict(enumerate(row)) for row in own]) for own in tables]
        sure += differences(runs)[0].low > 0
        over_runs += compared(*(own.mean(axis=1) for own in tables))[0].low > 0
    assert sure < 400 * 0.08 and over_runs > 400 * 0.15


def test_seeds_that_a_run_lacks_are_left_out_and_one_seed_tells_nothing():
    first = [{1: 5.0, 2: 6.0, 3: 7.5}, {1: 5.5, 2: 6.0, 3: 7.0, 9: 0.0}, {1: 5.0, 2: 6.5, 3: 7.0}]
    second = [{1: 4.0, 2: 5.0, 3: 6.5}, {1: 4.5, 2: 5.0, 3: 6.0}, {1: 4.5, 2: 5.5, 3: 6.5}]
    scores = [np.array([np.mean([run[seed] for seed in (1, 2, 3)]) for run in own]) for own in (first, second)]
    runs = [Runs(own, returns) for own, returns in zip(scores, (first, second), strict=True)]
    whole, over_runs = differences(runs)[0], compared(*scores)[0]
    assert whole.value == over_runs.value and whole.high - whole.low != over_runs.high - over_runs.low
    alone = [Runs(own, [{1: run[1]} for run in returns]) for own, returns in zip(scores, (first, second), strict=True)]
    assert differences(alone)[0] == over_runs
    assert differences([runs[0], Runs(scores[1], [{}, {}, {}])])[0] == over_runs


def test_two_or_three_equal_runs_have_no_interval_and_four_have():
    assert np.isnan(compared([3.0, 3.0], [1.0, 1.0])[0].low)
    assert np.isnan(compared([3.0] * 3, [1.0] * 4)[0].low)
    assert compared([3.0] * 4, [1.0] * 4) == [Estimate(2.0, 2.0, 2.0)]


def test_one_outlier_elsewhere_changes_little():
    plain = [np.array(own) for own in ([5.0, 5.5, 6.0], [2.0, 2.5, 3.0], [1.0, 1.5, 2.0], [0.0, 0.5, 1.0])]
    with_outlier = [*plain[:3], np.array([-90.0, 0.5, 1.0])]
    first, other = compared(*plain)[0], compared(*with_outlier)[0]
    assert not first.has_zero and (other.high - other.low) < 2 * (first.high - first.low)


def test_rounding_noise_is_nothing():
    noisy = np.array([-12.25, -12.25 + 2e-15, -12.25, -12.25])
    found = estimate(noisy)
    assert found.low == found.value == found.high
    assert compared(noisy, np.full(4, -12.25 - 2e-15)) == [Estimate(0.0, 0.0, 0.0)]
    assert on_seeds({1: 0.1 + 0.2, 2: 5.0}, {1: 0.3, 2: 5.0}) == [Estimate(0.0, 0.0, 0.0)]


def test_tasks_of_different_height_do_not_widen_the_interval_of_a_difference():
    first = np.random.default_rng(1).normal(size=(8, 3)) + np.array([0, 100, 1000])
    (found,) = compared(first, first[:5] - 2)
    assert found.value == pytest.approx(first.mean() - first[:5].mean() + 2)
    assert found.high - found.low < 2


def test_equal_seeds_are_compared_in_pairs():
    """The seeds differ by a hundred, the policies by two: only pairs show it."""
    rng = np.random.default_rng(6)
    heights = rng.normal(0.0, 100.0, 40)
    first = dict(enumerate(heights + 2 + rng.normal(0, 1, 40)))
    second = dict(enumerate(heights)) | {99: 1e9}
    (found,) = on_seeds(first, second)
    assert found.value == pytest.approx(2, abs=0.5)
    assert 0 < found.low < found.high < 4
    assert compared(list(first.values()), heights)[0].has_zero


def test_an_interval_over_many_values_is_bounded_in_memory():
    values = np.random.default_rng(5).normal(3.0, 1.0, 40_000)
    found = interquartile(values)
    assert found == interquartile(values)
    assert found.low < scipy_stats.trim_mean(values, 0.25) < found.high
    assert found.high - found.low < 0.05


@pytest.mark.parametrize("score", [1e160, 1e200, 1.7e308, -1.7e308])
def test_a_score_near_the_largest_number_costs_its_own_interval_only(score):
    first, second, diverged = np.array([5.0, 6.0, 7.0]), np.array([1.0, 2.0, 3.0]), np.array([score, 1.0, 2.0])
    assert not compared(first, second)[0].has_zero
    assert not compared(first, second, diverged)[0].has_zero
    assert compared(first, second, diverged)[1].has_zero
    assert np.isnan(estimate(diverged).low)


@pytest.mark.parametrize("size", [1e-120, 1e120])
def test_the_size_of_scores_and_seeds_changes_no_verdict(size):
    random = np.random.default_rng(4)
    tables = [mean + random.standard_normal((3, 6)) for mean in (9.0, 5.0)]
    found = [
        differences([Runs(by * own.mean(axis=1), [dict(enumerate(by * row)) for row in own]) for own in tables])[0]
        for by in (1.0, size)
    ]
    assert found[1].low / size == pytest.approx(found[0].low, rel=1e-6)
    assert found[0].low > 0


def test_one_run_has_no_interval():
    assert np.isnan(estimate(np.array([3.0])).low)
    assert np.isnan(on_seeds({1: 3.0}, {1: 2.0})[0].low)
    assert compared([3.0], [1.0, 2.0])[0].has_zero


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
