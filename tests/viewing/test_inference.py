"""The inference errs as rarely as it says, and its intervals are those of SciPy where SciPy has them."""

import numpy as np
import pytest

from tune_media.viewing.inference import Estimate, Sample, estimate, infer

scipy_stats = pytest.importorskip("scipy.stats")
pytestmark = pytest.mark.any_ray
HAS_INTERVALS = pytest.mark.skipif(
    not hasattr(scipy_stats.ttest_ind([1, 2], [3, 5]), "confidence_interval"), reason="SciPy 1.11"
)
SWEEPS = 2000


def leads_of(*tables, best_one=None):
    """Return the leads of configurations, each given by the scores of its runs (runs,) or (runs, tasks)."""
    tables = [np.asarray(table, float) for table in tables]
    samples = [Sample((table[:, None] if table.ndim == 1 else table)[None]) for table in tables]
    return infer(samples, best_one=best_one).of_one_sweep()[1]


def on_seeds(*runs, copies=None):
    """Return the leads of configurations, each given by the scores of its runs on evaluation seeds."""
    seeds = sorted({seed for own in runs for run in own for seed in run})
    tables = [np.array([[run.get(seed, np.nan) for seed in seeds] for run in own], float)[None] for own in runs]
    return infer([Sample(table, True, 1, copies) for table in tables]).of_one_sweep()[1]


def errors(tables, *, has_seeds=False, bounds=None):
    """Return in how many sweeps of 100 the best of equal configurations is called clearly so."""
    return 100 * np.mean(infer([Sample(table, has_seeds) for table in tables], bounds).is_clear)


@HAS_INTERVALS
def test_intervals_of_means_and_of_pairs_are_those_of_scipy():
    rng = np.random.default_rng(4)
    first, second = rng.normal(3.0, 1.0, 6), rng.normal(1.0, 2.0, 6)
    found, expected = estimate(first), scipy_stats.ttest_1samp(first, 0).confidence_interval()
    assert (found.value, found.low, found.high) == pytest.approx((first.mean(), expected.low, expected.high))
    pairs = scipy_stats.ttest_1samp(first - second, 0).confidence_interval()
    _, lead = on_seeds([dict(enumerate(first))], [dict(enumerate(second))])
    assert (lead.low, lead.high) == pytest.approx((pairs.low, pairs.high)) and not lead.is_clear
    assert (lead.over, lead.seeds, lead.half_runs) == ("seeds", 6, 0)


@HAS_INTERVALS
def test_two_equally_spread_configurations_have_students_interval():
    first = np.array([1.0, 2.0, 3.0, 6.0])
    _, lead = leads_of(first, first[::-1] - 4)
    expected = scipy_stats.ttest_ind(first, first - 4, equal_var=True).confidence_interval()
    assert (lead.value, lead.high) == pytest.approx((4.0, expected.high), rel=0.05)
    assert lead.over == "runs" and lead.half_runs == pytest.approx(lead.high - 4)


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_the_interval_of_a_mean_covers_the_true_one_in_95_of_100_cases(runs):
    scores = np.random.default_rng(runs).normal(size=(2000, runs))
    assert 0.93 < np.mean([found.low < 0 < found.high for found in map(estimate, scores)]) < 0.97


@pytest.mark.parametrize("runs", [[2, 2], [3, 3], [5, 5], [2, 8], [2, 20], [3, 3, 3, 3]])
@pytest.mark.parametrize("spread", [1, 3])
def test_equal_configurations_are_told_apart_in_one_of_twenty_sweeps(runs, spread):
    """Two runs beside 20 were told apart in 12 to 24 %. The worst case: two noisy ones far ahead of others."""
    random = np.random.default_rng(len(runs) * spread + sum(runs))
    tables = [random.standard_normal((SWEEPS, count, 1)) for count in runs]
    tables = [table * spread if number < 2 else table - 1000 for number, table in enumerate(tables)]
    assert errors(tables) < 6.5


@pytest.mark.parametrize("seeds", [1, 2, 3, 10, 40])
@pytest.mark.parametrize("runs", [3, 5])
def test_runs_that_share_the_luck_of_seeds_are_told_apart_as_rarely(runs, seeds):
    """Over runs alone: 22 to 59 %."""
    random = np.random.default_rng(seeds)
    normal = random.standard_normal
    luck = 2 * normal((SWEEPS, 1, seeds))
    tables = [
        luck + 0.3 * normal((SWEEPS, runs, 1)) + normal((SWEEPS, 1, seeds)) + 0.5 * normal((SWEEPS, runs, seeds))
        for _ in range(2)
    ]
    assert errors(tables, has_seeds=True) < 6.5
    assert errors([table.mean(-1, keepdims=True) for table in tables]) > (15 if seeds < 40 else 5)


@pytest.mark.parametrize("rate", [0.5, 0.95, 1.0])
@pytest.mark.parametrize(("runs", "seeds"), [(1, 20), (3, 8), (3, 20), (5, 50)])
def test_equal_success_rates_are_told_apart_as_rarely(rate, runs, seeds):
    random = np.random.default_rng(seeds)
    tables = [(random.random((SWEEPS, runs, seeds)) < rate).astype(float) for _ in range(2)]
    assert errors(tables, has_seeds=True, bounds=(0.0, 1.0)) < 6.5


@pytest.mark.parametrize(("count", "seeds"), [(2, 10), (4, 10), (8, 40), (30, 10)])
def test_of_equal_policies_none_is_clearly_worse_in_19_of_20_evaluations(count, seeds):
    random = np.random.default_rng(count)
    luck = 2 * random.standard_normal((SWEEPS, 1, seeds))
    answer = infer([Sample(luck + random.standard_normal((SWEEPS, 1, seeds)), True) for _ in range(count)])
    assert 100 * np.mean(answer.is_worse.any(-1)) < 6.5
    is_best = np.arange(count) == answer.best[:, None]
    assert 100 * np.mean(((answer.low <= 0) & (answer.high >= 0) | is_best).all(-1)) > 93  # all at once


def test_a_configuration_that_is_two_deviations_ahead_is_found():
    scores = np.random.default_rng(1).normal(size=(SWEEPS, 4, 3, 1))
    scores[:, 0] += 2
    answer = infer([Sample(scores[:, number]) for number in range(4)])
    assert np.mean(answer.is_clear & (answer.best == 0)) > 0.2


def test_seeds_that_a_run_lacks_are_left_out_and_fewer_than_two_tell_nothing():
    first = [{1: 5.0, 2: 6.0, 3: 7.5}, {1: 5.5, 2: 6.0, 3: 7.0, 9: 0.0}, {1: 5.0, 2: 6.5, 3: 7.0}]
    second = [{1: 4.0, 2: 5.0, 3: 6.5}, {1: 4.5, 2: 5.0, 3: 6.0}, {1: 4.5, 2: 5.5, 3: 6.5}]
    leads = {lead.over: lead for lead in on_seeds(first, second) if lead}
    assert leads["both"].seeds == 3
    (lead,) = filter(None, on_seeds(first, [{**run, 2: np.nan, 3: np.nan, 7: 1.0} for run in second]))
    assert lead.why == "few_common_seeds" and not lead.is_clear and lead.high == np.inf
    (lead,) = filter(None, on_seeds([{1: 5.0}] * 3, [{1: 3.0}] * 3))
    assert lead.why == "one_seed"
    (lead,) = filter(None, on_seeds([{1: 5.0}, {2: 6.0}], [{3: 1.0}, {4: 2.0}]))  # no seed is in two runs
    assert lead.over == "runs" and lead.is_clear


def test_copies_of_an_episode_count_once_and_keep_their_weight():
    first, second = [dict(enumerate([5.0, 6.1, 6.1, 6.1, 7.0]))], [dict(enumerate([4.0, 5.2, 5.2, 5.2, 5.5]))]
    _, plain = on_seeds(first, second)
    _, lead = on_seeds(first, second, copies=np.array([[0, 1, 1, 1, 2]]))
    assert lead.value == plain.value and lead.seeds == 3 and lead.remark == "copies"
    assert lead.high - lead.value > plain.high - plain.value
    _, lead = on_seeds(first, second, copies=np.zeros((1, 5), int))
    assert not lead.is_clear and lead.why == "one_seed"


def test_two_or_three_equal_runs_tell_nothing_and_four_do():
    assert leads_of([3.0, 3.0], [1.0, 1.0])[1].why == "few_equal"
    assert leads_of([3.0] * 3, [1.0] * 4)[1].why == "few_equal"
    lead = leads_of([3.0] * 4, [1.0] * 4)[1]
    assert lead.is_clear and (lead.low, lead.value, lead.high) == (2.0, 2.0, 2.0)


def test_one_run_beside_several_and_the_same_score_are_said():
    assert leads_of([3.0], [1.0, 2.0])[1].why == "one_run"
    assert leads_of([3.0], [1.0])[1].why == "one_run"
    assert leads_of([3.0, 4.0, 5.0], [3.0, 4.0, 5.0])[1].why == "equal"


def test_one_outlier_elsewhere_changes_little():
    plain = [np.array(own) for own in ([5.0, 5.5, 6.0], [2.0, 2.5, 3.0], [1.0, 1.5, 2.0], [0.0, 0.5, 1.0])]
    first, other = leads_of(*plain)[1], leads_of(*plain[:3], np.array([-90.0, 0.5, 1.0]))[1]
    assert first.is_clear and other.high - other.value < 2 * (first.high - first.value)


def test_rounding_noise_is_nothing():
    noisy = np.array([-12.25, -12.25 + 2e-15, -12.25, -12.25])
    found = estimate(noisy)
    assert found.low == found.value == found.high
    lead = leads_of(noisy, np.full(4, -12.25 - 2e-15))[1]
    assert (lead.value, lead.why) == (0.0, "equal")


def test_tasks_of_different_height_do_not_widen_the_interval_of_a_difference():
    first = np.random.default_rng(1).normal(size=(8, 3)) + np.array([0, 100, 1000])
    _, lead = leads_of(first, first[:5] - 2)
    assert lead.value == pytest.approx(first.mean() - first[:5].mean() + 2)
    assert lead.high - lead.value < 1.2


@pytest.mark.parametrize("score", [1e160, 1e200, 1.7e308, -1.7e308])
def test_a_score_near_the_largest_number_costs_its_own_interval_only(score):
    first, second, diverged = np.array([5.0, 6.0, 7.0]), np.array([1.0, 2.0, 3.0]), np.array([score, 1.0, 2.0])
    assert leads_of(first, second)[1].is_clear
    _, other, far = leads_of(first, second, diverged, best_one=0)
    assert other.is_clear and not far.is_clear
    assert np.isnan(estimate(diverged).low)


@pytest.mark.parametrize("size", [1e-120, 1e120])
def test_the_size_of_scores_changes_no_verdict(size):
    random = np.random.default_rng(4)
    runs = [[dict(enumerate(row)) for row in mean + random.standard_normal((3, 6))] for mean in (9.0, 5.0)]
    _, plain = on_seeds(*runs)
    _, scaled = on_seeds(*[[{seed: size * value for seed, value in run.items()} for run in own] for own in runs])
    assert plain.is_clear and scaled.is_clear
    assert scaled.high / size == pytest.approx(plain.high, rel=1e-6)


def test_one_run_has_no_interval():
    assert estimate(np.array([3.0])).value == 3.0 and np.isnan(estimate(np.array([3.0])).low)
    means, _ = infer([Sample(np.full((1, 2, 1), 2.0)), Sample(np.full((1, 4, 1), 2.0))]).of_one_sweep()
    assert np.isnan(means[0].low) and means[1] == Estimate(2.0, 2.0, 2.0)
