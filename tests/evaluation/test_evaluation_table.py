"""The table of an evaluation: checkpoints are compared on the seeds that they all played."""

import math

import numpy as np
import pytest
from scipy import stats

from tune_media.evaluation.evaluation import EvaluatedCheckpoint, Evaluation, compared
from tune_media.evaluation.evaluation_table import remarks, tables
from tune_media.viewing.inference import estimate

pytestmark = pytest.mark.any_ray

SEEDS = range(40)


def evaluation(*returns, successes=None, condition=""):
    """Return an evaluation of one checkpoint a trial with these returns by seed."""
    lines = []
    for number, own in enumerate(returns):
        mean = estimate(np.array(list(own.values())))
        facts = {}
        if successes:
            facts["success_rate"] = sum(successes[number].values()) / len(successes[number])
            facts |= {"success_low": 0.1, "success_high": 0.9}
        counted = (len(own), mean.value, mean.low, mean.high)
        lines.append(EvaluatedCheckpoint(f"t{number}", condition, "checkpoint_000001", 1, *counted, **facts))
    return Evaluation("name", "folder", None, compared(lines, returns, successes or [{} for _ in returns]))


def planted():
    """Return two policies on the same hard and easy seeds, the first better on each but one."""
    random = np.random.default_rng(0)
    hard = random.normal(100, 40, len(SEEDS))
    first = hard + random.normal(11.5, 4, len(SEEDS))
    return dict(zip(SEEDS, first, strict=True)), dict(zip(SEEDS, hard, strict=True))


def test_a_pair_that_differs_on_the_same_seeds_is_decided():
    first, second = planted()
    found = evaluation(second, first)
    behind, best = found.checkpoints
    assert found.best is best
    assert best.return_low < behind.return_high  # the two intervals of the means overlap
    truth = stats.ttest_rel(list(first.values()), list(second.values()))
    interval = truth.confidence_interval(0.95)
    assert (behind.behind_low, behind.behind_high) == pytest.approx((interval.low, interval.high))
    assert behind.behind == pytest.approx(np.mean(list(first.values())) - np.mean(list(second.values())))
    assert behind.seeds_compared == 40
    assert not behind.is_not_clearly_worse
    assert math.isnan(best.behind)
    assert "on the same seeds, the other one is clearly worse" in remarks(found)[-2]
    header, one, other = tables(found).splitlines()
    assert "ahead by" in header
    assert one.endswith("best")
    assert f"{behind.behind:.5g} [{behind.behind_low:.5g}, {behind.behind_high:.5g}]" in other
    frame = found.to_pandas()
    assert frame["behind"].tolist()[0] == behind.behind
    assert frame["seeds_compared"].tolist() == [40, 0]


def test_what_may_be_as_good_is_not_clearly_worse():
    first, _ = planted()
    close = {seed: value + (1 if seed % 2 else -1.1) for seed, value in first.items()}
    worse = {seed: value - 50 for seed, value in first.items()}
    found = evaluation(first, close, worse)
    assert [one.is_not_clearly_worse for one in found.checkpoints] == [False, True, False]
    assert "1 of the 2 others is not clearly worse" in remarks(found)[-2]
    assert remarks(found)[-1].startswith("The best of 3 was chosen by these seeds: its mean is too high.")
    assert [line.endswith("not clearly worse") for line in tables(found).splitlines()] == [False, False, True, False]


def test_only_common_seeds_are_compared_and_one_seed_decides_nothing():
    first, _ = planted()
    found = evaluation(first, dict.fromkeys((3, 7, 99), -1.0))
    assert found.checkpoints[1].seeds_compared == 2
    found = evaluation({0: 2.0}, {0: 1.0})
    assert found.checkpoints[1].behind == 1.0
    assert found.checkpoints[1].is_not_clearly_worse


def test_a_mean_that_is_not_finite_ranks_nothing():
    first, second = planted()
    found = evaluation(first | {0: math.nan}, second, first | {0: math.inf}, first)
    assert found.best is found.checkpoints[3]
    assert [one.why for one in found.checkpoints] == [None] * 4
    assert remarks(found)[-2].endswith("on the same seeds, the other one is clearly worse.")


def test_success_rates_have_their_interval_and_their_difference():
    first, second = planted()
    known = [dict.fromkeys(SEEDS, True), {seed: seed < 10 for seed in SEEDS}]
    found = evaluation(first, second, successes=known)
    behind = found.checkpoints[1]
    assert behind.success_behind == 0.75
    assert 0.5 < behind.success_behind_low < 0.75 < behind.success_behind_high < 1
    assert "It succeeds in 1 [0.1, 0.9] of its episodes" in remarks(found)[-2]
    assert "the other one clearly succeeds less often" in remarks(found)[-2]
    assert "success" in tables(found).splitlines()[0]
    assert "0.25 [0.1, 0.9]" in tables(found)


def test_several_conditions_are_compared_each_with_its_own_best():
    first, second = planted()
    calm, windy = evaluation(first, second), evaluation(second, first, condition="wind=5")
    both = Evaluation("name", "folder", None, [*calm.checkpoints, *windy.checkpoints])
    assert [one.seeds_compared for one in both.checkpoints] == [0, 40, 40, 0]
    assert "wind=5" in tables(both).splitlines()[0]
    assert "ahead by" not in tables(both)


def test_of_several_conditions_the_first_one_says_which_is_best():
    first, second = planted()
    found = evaluation(first, second, condition="wind=0")
    found.checkpoints += evaluation(second, condition="wind=5").checkpoints
    assert remarks(found)[-2].startswith("With wind=0, the best policy is t0 (checkpoint_000001): ")


def test_without_others_nothing_is_said_of_differences():
    first, _ = planted()
    assert remarks(evaluation(first))[0] == "Intervals: 95 %."


def test_settings_that_are_none_not_finite_or_not_there_stay_apart():
    params = [{"gamma": None}, {"gamma": math.inf}, {"gamma": math.nan}, {}, {"gamma": "NaN"}]
    lines = [EvaluatedCheckpoint(f"t{i}", "", "checkpoint_000001", 1, 1, 1.0, params=p) for i, p in enumerate(params)]
    found = Evaluation("name", "folder", None, lines)
    cells = {line.split()[0]: line.split()[1] for line in tables(found).splitlines()}
    assert [cells[f"t{i}"] for i in range(5)] == ["None", "inf", "nan", "unset", '"NaN"']
    stored = [line.get("config/gamma", "not there") for line in found.facts()["checkpoints"]]
    assert stored == [None, "Infinity", "NaN", "not there", '"NaN"']
