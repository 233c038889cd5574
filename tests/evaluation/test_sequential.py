import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import few
from tune_media.evaluation import sequential
from tune_media.evaluation.request import in_order
from tune_media.evaluation.sequential import (
    ASSUMED,
    GATE,
    HISTORY,
    PASS,
    UNDECIDED,
    WORSE,
    WORST,
    Lowest,
    Margin,
    fewest_seeds,
    floor_standing,
    standing,
)

pytestmark = pytest.mark.any_ray

SHARE = Margin(0.05, is_share=True)
GATES = 100
BOUNDS = [None, (0.0, 200.0)]


def verdicts(base, candidate, margin, bounds=None, **known):
    """The share of gates, one in each row, that pass, and that say worse."""
    said, _ = sequential.verdicts(base, candidate, margin, bounds, **known)
    return said.count(PASS) / len(said), said.count(WORSE) / len(said)


def test_a_policy_passes_against_itself_with_any_returns():
    same = np.random.default_rng(0).normal(200, 5, 200)
    found = standing(same, same, SHARE)
    assert found.verdict == PASS and found.difference == 0
    assert found.low <= 0 <= found.high


@pytest.mark.parametrize("returns", [np.full(200, 500.0), np.full(200, -130.0)])
def test_equal_constant_returns_pass_only_when_a_rare_failure_would_have_shown(returns):
    found = standing(returns, returns, SHARE)
    # a policy that fails on one seed in twenty loses 5 %: it shows no failure on 59 seeds in one of twenty gates
    assert found.verdict == PASS and 59 <= found.seeds <= 100


def test_a_collapse_is_stopped_within_a_few_seeds_and_a_share_is_of_the_size_of_the_mean():
    assert standing(np.full(200, 500.0), np.full(200, 100.0), SHARE).seeds < 20
    base, candidate = np.random.default_rng(5).normal([[5000.0], [4700.0]], 100, (2, 200))  # 6 % worse
    assert standing(base, candidate, SHARE).verdict == WORSE
    assert standing(-base, -candidate, SHARE).margin == pytest.approx(250, rel=0.1)


@few
@given(st.integers(0, 2**32), st.floats(-20, 10), st.sampled_from(BOUNDS), st.floats(1e-3, 1e6), st.floats(-1e4, 1e4))
def test_a_verdict_is_what_its_interval_says_whatever_the_unit_and_however_many_seeds_follow(
    seed, shift, bounds, scale, offset
):
    random = np.random.default_rng(seed)
    base, candidate = np.clip(random.normal([[100.0], [100.0 + shift]], 6, (2, 80)), 0, 200)
    found = standing(base, candidate, Margin(5.0), bounds)
    assert (found.verdict == PASS) == (found.low > -found.margin)
    assert (found.verdict == WORSE) == (found.high < -found.margin + 1e-9)
    assert found.low <= found.difference <= found.high
    early, before = (standing(base[:n], candidate[:n], Margin(5.0), bounds) for n in (found.seeds, found.seeds - 1))
    later = standing(base, candidate, Margin(5.0), bounds, after=found.seeds - 1)
    assert repr(early) == repr(later) == repr(found)  # from Python 3.13 on, NaN equals NaN as text alone
    assert before.verdict == UNDECIDED
    wider = standing(base, candidate, Margin(9.0), bounds)
    assert wider.verdict != WORSE or found.verdict == WORSE
    assert found.verdict != PASS or (wider.verdict == PASS and wider.seeds <= found.seeds)
    if bounds is None:
        moved = standing(base * scale + offset, candidate * scale + offset, Margin(5.0 * scale))
        large = standing(base * scale, candidate * scale, SHARE)
        small = standing(base, candidate, SHARE)
        assert (large.verdict, large.seeds) == (small.verdict, small.seeds)
        assert large.low == pytest.approx(small.low * scale, rel=1e-6)
        assert moved.verdict == WORSE or found.verdict != WORSE  # an offset hides no loss


def test_a_floor_is_reached_missed_or_open():
    random = np.random.default_rng(9)
    assert floor_standing(random.normal(480, 30, 200), 450).verdict == PASS
    assert floor_standing(random.normal(430, 50, 200), 450).verdict == WORSE
    assert floor_standing(random.normal(450, 50, 200), 450).verdict == UNDECIDED
    perfect = floor_standing(np.ones(100), 0.9, (0.0, 1.0))
    assert (perfect.verdict, perfect.seeds) == (PASS, fewest_seeds(0.9, (0.0, 1.0)))
    assert floor_standing(random.random(200) < 0.7, 0.9, (0.0, 1.0)).verdict == WORSE


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_one_of_twenty_floors_errs_at_most(rate):
    scores = (np.random.default_rng(int(rate * 10)).random((GATES, 200)) < rate).astype(float)
    passed, worse = verdicts(np.full_like(scores, rate), scores, None, (0.0, 1.0))
    assert passed <= 0.08 and worse <= 0.08


def test_a_candidate_that_fails_on_later_seeds_does_not_pass_by_the_earlier_ones():
    random, seeds = np.random.default_rng(4), np.arange(200)
    base, candidate = 100 + random.normal(0, 10, (2, GATES, 200))
    candidate -= np.where(seeds >= 150, 40, 0)  # 10 on average, twice the margin
    by_number, by_hash = (
        verdicts(base[:, order], candidate[:, order], SHARE) for order in (seeds, np.array(in_order(seeds.tolist())))
    )
    assert by_number[0] > 0.9  # wrong
    assert by_hash[0] == 0 and by_hash[1] > 0.85


def test_nothing_is_known_of_no_seed_and_of_one():
    assert standing(np.array([]), np.array([]), SHARE).verdict == UNDECIDED
    one = standing(np.array([5.0]), np.array([7.0]), SHARE)
    assert one.verdict == UNDECIDED and one.low == -np.inf and one.high == np.inf


@pytest.mark.parametrize("rate", [0.06, 0.5, 0.95, 1.0])
def test_one_of_twenty_gates_of_rates_errs_at_most(rate):
    random = np.random.default_rng(int(rate * 100))
    base = (random.random((GATES, 200)) < rate).astype(float)
    candidate = (random.random((GATES, 200)) < rate - 0.05).astype(float)  # worse by the margin
    passed, worse = verdicts(base, candidate, Margin(0.05), (0.0, 1.0))
    assert passed <= 0.08 and worse <= 0.08  # 5 % and two standard errors


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "skewed", "rare failures"])
def test_one_of_twenty_gates_of_returns_errs_at_most(kind):
    random = np.random.default_rng(len(kind))
    shape = (GATES, 200)
    if kind == "rare failures":
        base, candidate = np.full(shape, 500.0), np.where(random.random(shape) < 0.05, 0.0, 500.0)
    else:
        draw = {
            "normal": lambda: random.normal(0, 20, shape),
            "heavy tails": lambda: 10 * random.standard_t(3, shape),
            "skewed": lambda: -20 * random.lognormal(0, 0.8, shape),
        }[kind]
        base = 100 + draw()
        candidate = 100 + draw() - 0.05 * np.mean(base)
    passed, worse = verdicts(base, candidate, SHARE)
    assert passed <= 0.08 and worse <= 0.08


def test_a_margin_that_is_small_beside_the_returns_leaves_an_interval_all_the_same():
    random = np.random.default_rng(4)
    base, candidate = random.normal(2, 150, 200), random.normal(-20, 150, 200)
    found = standing(base, candidate, SHARE)
    assert found.margin < 2
    half = 2 * 150 * (2 / 200) ** 0.5  # of an interval for one look
    assert half < found.high - found.difference < 4 * half and half < found.difference - found.low < 4 * half


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("highest", [-1.0, 1.0])
def test_one_of_twenty_gates_of_bounded_returns_errs_at_most_with_a_large_share(share, highest):
    """The worst gain of a seed depends on its base if the margin is a share; below zero it is larger."""
    random, low, high = np.random.default_rng(11), min(0.0, highest), max(0.0, highest)
    base = highest * (random.random((GATES, 200)) < 0.5)
    mean = np.mean(base) - share * abs(np.mean(base))  # worse by the margin
    candidate = np.where(random.random(base.shape) < (mean - low) / (high - low), high, low)
    passed, worse = verdicts(base, candidate, Margin(share, is_share=True), (low, high))
    assert passed <= 0.08 and worse <= 0.08


@pytest.mark.parametrize(("at_least", "bounds"), [(0.9, (0.0, 1.0)), (450.0, (0.0, 500.0)), (0.5, (0.0, 1.0))])
def test_the_fewest_seeds_are_the_first_that_pass(at_least, bounds):
    fewest = fewest_seeds(at_least, bounds)
    perfect = np.full(fewest, bounds[1])
    assert floor_standing(perfect, at_least, bounds).verdict == PASS
    assert floor_standing(perfect[:-1], at_least, bounds).verdict == UNDECIDED


def test_the_fewest_seeds_of_a_floor_next_to_the_highest_return_are_many():
    assert fewest_seeds(1 - 1e-7, (0.0, 1.0)) > 1e6
    assert fewest_seeds(1.0, (0.0, 1.0)) is None


RARE = {  # mean, deviation, and the return of a failure; the margin as a share
    "Acrobot": (-80, 15, -500, 0.2),
    "reach": (-5, 1, -50, 0.2),
    "steady": (100, 1, -100, 0.05),
}


@pytest.mark.parametrize("name", RARE)
@pytest.mark.parametrize("is_floor", [False, True])
def test_rare_deep_failures_pass_in_one_of_twenty_gates_if_their_depth_is_known(name, is_floor):
    mean, deviation, failure, share = RARE[name]
    random, shape = np.random.default_rng(12), (GATES, 200)
    rate = share * abs(mean) / (mean - failure)  # worse by the margin

    def fails(count):
        failed = random.random((GATES, count)) < rate
        return np.where(failed, failure, random.normal(mean, deviation, (GATES, count)))

    candidate, earlier = fails(200), fails(300)
    base = np.full(shape, mean - share * abs(mean)) if is_floor else random.normal(mean, deviation, shape)
    margin = None if is_floor else Margin(share, is_share=True)
    assert verdicts(base, candidate, margin)[0] > 0.15
    for lowest in (failure, np.min(earlier, axis=1)):
        assert verdicts(base, candidate, margin, lowest=lowest)[0] <= 0.08
    equal = random.normal(mean, deviation, shape)
    assert verdicts(base, equal, margin, lowest=failure)[0] > 0.7


def test_the_depth_is_the_deepest_that_is_known_and_says_where_from():
    same = np.full(200, -80.0)
    fallen = np.where(np.arange(200) == 20, -300.0, same)
    share = Margin(0.2, is_share=True)
    plain, worst = (standing(same, same, share, lowest=Lowest(low, WORST)) for low in (-90.0, -500.0))
    seen, passed = (standing(same, fallen, share, lowest=Lowest(low, HISTORY)) for low in (-280.0, -500.0))
    of_floor = floor_standing(same, -100.0, lowest=Lowest(-500.0, HISTORY))
    assert (plain.depth, plain.depth_from) == (80, ASSUMED) and plain.seeds == standing(same, same, share).seeds
    assert (worst.depth, worst.depth_from) == (420, WORST) and worst.seeds > 80
    assert (passed.depth, passed.depth_from) == (of_floor.depth, of_floor.depth_from) == (420, HISTORY)
    assert seen.depth_from == (GATE if seen.depth == 220 else ASSUMED)
    bounded = standing(same, same, Margin(5.0), (-500.0, 0.0), lowest=Lowest(-500.0, WORST))
    assert bounded.depth_from is None and np.isnan(bounded.depth)


@pytest.mark.parametrize(
    ("usual", "spread", "failure", "rate", "margin"),
    [(10, 0, 9, 0.03, Margin(1.0)), (500, 0, 250, 0.02, SHARE), (500, 0, 450, 0.1, SHARE), (300, 5, -100, 0.02, SHARE)],
)
def test_the_low_end_holds_for_ties_and_rare_falls(usual, spread, failure, rate, margin):
    """It held in 61 to 74 of 100 gates."""
    random, shape = np.random.default_rng(4), (50, 200)
    base, candidate = random.normal(usual, spread, (2, *shape))
    candidate = np.where(random.random(shape) < rate, failure, candidate)
    lows = np.array([standing(*both, margin).low for both in zip(base, candidate, strict=True)])
    assert np.mean(lows <= rate * (failure - usual)) >= 0.94


@pytest.mark.parametrize("spread", [0.0, 5.0])
def test_the_low_end_is_the_smallest_margin_that_passes(spread):
    base, candidate = np.random.default_rng(13).normal(100, spread, (2, 60))
    found = standing(base, candidate, Margin(1.0))
    assert found.verdict == UNDECIDED and found.low < -1
    said = [standing(base, candidate, Margin(-found.low * by), after=59).verdict for by in (0.999, 1.001)]
    assert said == [UNDECIDED, PASS]


def test_two_that_did_the_same_are_told_apart_from_two_that_are_equal_on_average():
    same, turned = np.array([1.0, 2.0] * 10), np.array([2.0, 1.0] * 10)
    assert standing(same, same, SHARE).is_same and not standing(same, turned, SHARE).is_same
    assert not floor_standing(np.full(20, 5.0), 5.0).is_same
