"""The verdict on scores of which some are missing: what it says is never more than what is known."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import tune_media as tm
from tests.support.batches import episodes_of
from tests.support.stores import StoredTrial
from tests.support.viewing import write_run
from tune_media.viewing.configurations import Configuration, Run, judge
from tune_media.viewing.score_tables import RunScores
from tune_media.viewing.verdict import verdict

pytestmark = pytest.mark.any_ray
RETURNS = [
    {1: 10.0, 2: 90.0, 3: 91.0, 4: 92.0},  # the highest mean, with a seed that the other has not played
    {1: 20.0, 2: 90.5, 3: 91.4, 4: 92.6, 5: 10.0, 6: 10.0},
]


def judged(returns):
    groups = [Configuration({"lr": number}, [number]) for number in range(len(returns))]
    means = [sum(own.values()) / len(own) for own in returns]
    return judge(groups, [Run(mean, episodes=RunScores(own)) for mean, own in zip(means, returns, strict=True)])


said_of = partial(verdict, label="the return")


def test_a_policy_that_is_clearly_ahead_on_the_common_seeds_is_not_clearly_worse():
    shifted = [{seed: value - 0.01 * seed for seed, value in RETURNS[0].items()}, RETURNS[1]]
    shifted[1] = {seed: shifted[0].get(seed, 0.0) + (5 + 0.1 * seed if seed < 5 else 0) for seed in RETURNS[1]}
    ranking = judged(shifted)
    assert ranking[1].ahead.high < 0 and ranking[1].is_not_clearly_worse
    said = said_of(ranking)
    assert said.sentence == (
        "Best so far: the policy of lr 0, on 4 evaluation seeds. Another one may be as good. "
        "One run per configuration is not enough to tell about lr."
    )
    assert said.why[0].endswith(" #2, lr 1, is ahead of it by 5.25 [5.045, 5.455], on 4 evaluation seeds.")


def test_the_same_score_is_one_on_the_seeds_that_both_have_played():
    ranking = judged([{1: 1.0, 2: 5.0}, {1: 1.0, 2: 5.0, 3: 2.0}])
    assert ranking[1].ahead.value == 0 < ranking[0].mean.value - ranking[1].mean.value
    said = said_of(ranking)
    assert said.sentence == (
        "Best so far: the policy of lr 0, on 2 evaluation seeds. Another one has the same score. "
        "One run per configuration is not enough to tell about lr."
    )
    assert said.why[0].endswith(" #2, lr 1, has the same score.")


def test_a_title_in_an_error_has_no_secret():
    with pytest.raises(ValueError, match=r"^api_key \*\*\* has not the same number of runs"):
        judge([Configuration({"api_key": "a1b2"}, [0, 1, 2])], [Run(1.0)] * 3, ["a", "a", "b"])


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([300] * 3 + [100] * 3, "Best so far: lr 0. No other has trained as long."),
        ([300] * 3 + [280] * 3, "Clearly the best: lr 0."),
        ([100] * 3 + [300] * 3, "Clearly the best: lr 0."),  # it is ahead though it has trained less
    ],
)
def test_a_configuration_that_has_trained_less_is_set_apart(steps, said):
    """It was called clearly worse."""
    groups = [Configuration({"lr": 0}, [0, 1, 2]), Configuration({"lr": 1}, [3, 4, 5])]
    ranking = judge(groups, runs_of([9.0, 9.1, 9.2, 3.0, 3.1, 3.2], steps))
    assert said_of(ranking).sentence == said
    assert said_of(ranking).is_clear == said.startswith("Clearly")


def runs_of(scores, steps):
    return [Run(score, step=step) for score, step in zip(scores, steps, strict=True)]


def test_the_best_of_those_that_trained_as_long_is_clear():
    groups = [Configuration({"lr": lr}, [3 * lr, 3 * lr + 1, 3 * lr + 2]) for lr in range(3)]
    ranking = judge(groups, runs_of([9.0, 9.1, 9.2, 3.0, 3.1, 3.2, 5.0, 5.1, 5.2], [480] * 6 + [100] * 3))
    said = said_of(ranking).sentence
    assert said == "Clearly the best of the 2 that trained to step 480: lr 0. 1 stopped earlier."
    assert [entry.ahead and entry.ahead.why for entry in ranking] == [None, None, "unequal_training"]
    ranking[2] = replace(ranking[2], led=True)
    assert said_of(ranking).sentence.endswith("lr 0. 1 stopped earlier; it led there.")


def test_what_is_set_apart_is_said_as_it_is():
    """It said "no other" beside one that trained as long, and a step as 1.2346e+06."""
    groups = [Configuration({"lr": lr}, [3 * lr, 3 * lr + 1, 3 * lr + 2]) for lr in range(3)]
    runs = runs_of([9.0, 9.1, 9.2, 3.0, 3.1, 3.2, 5.0, 5.0, 5.0], [1234567] * 6 + [100] * 3)
    going_on = [*runs[:6], *(replace(run, status="running") for run in runs[6:])]
    assert said_of(judge(groups, going_on)).sentence == (
        "So far clearly the best of the 2 that trained to step 1,234,567: lr 0. 1 is not as far yet."
    )
    ranking = judge(groups, [*runs[:3], runs[3], *[Run(None)] * 2, *runs[6:]])
    assert said_of(ranking).sentence == "Best so far: lr 0. 1 stopped earlier. One run is not enough to tell."
    (early,) = [entry for entry in ranking if entry.set_apart == "unequal_training"]
    assert math.isnan(early.mean.low)  # as of others: equal runs tell nothing


def test_runs_without_a_score_that_go_on_may_change_the_verdict():
    groups = [Configuration({"lr": lr}, [2 * lr, 2 * lr + 1]) for lr in range(3)]
    runs = [Run(9.0), Run(9.1), Run(3.0), Run(3.1), *[Run(None, status="running")] * 2]
    assert said_of(judge(groups, runs)).sentence == "So far clearly the best: lr 0."
    assert "2 runs have not ended and may change it." in said_of(judge(groups, runs)).why


def test_if_all_runs_failed_none_was_ahead():
    ranking = judge([Configuration({"lr": lr}, [lr]) for lr in range(2)], [Run(9.0, status="failed")] * 2)
    assert said_of(ranking).why == []


def test_a_smoothed_mean_beyond_0_and_1_has_no_bounds():
    """Its last episodes had 0 or 1, and its interval was [0, 1]."""
    groups = [Configuration({"lr": 0}, [0, 1]), Configuration({"lr": 1}, [2, 3])]
    last = [(None, 1.0), (None, 0.0)]
    runs = [Run(score, episodes=RunScores.of(last, score)) for score in (5.0, 6.0, 1.0, 2.0)]
    assert all(entry.mean.low < entry.mean.value < entry.mean.high for entry in judge(groups, runs))


def test_configurations_of_one_run_beside_others_are_not_judged():
    groups = [Configuration({"lr": lr}, [2 * lr, 2 * lr + 1]) for lr in range(2)] + [Configuration({"lr": 2}, [4])]
    runs = [Run(9.0), Run(9.1), Run(3.0), Run(3.1), Run(5.0, status="running")]
    assert (
        said_of(judge(groups, runs)).sentence
        == "Clearly the best of the 2 that can be judged: lr 0. 1 cannot: one run."
    )
    close = [Run(9.0), Run(5.1), Run(3.0), Run(7.1), Run(5.0)]
    assert said_of(judge(groups, close)).sentence == (
        "Best so far: lr 0. Another one may be as good. 1 cannot be judged: one run."
    )
    assert said_of(judge([groups[0], groups[2]], runs)).sentence == "Best so far: lr 0. One run is not enough to tell."


def test_failed_runs_that_were_ahead_are_named_with_their_last_score():
    groups = [Configuration({"lr": 0}, [0, 1]), Configuration({"lr": 1}, [2, 3]), Configuration({"lr": 2}, [4])]
    runs = [Run(7.8), Run(7.9), Run(15.5, status="failed"), Run(3.0), Run(1.0, status="failed")]
    ranking = judge(groups, runs)
    assert "1 run of lr 1 failed while ahead: its last the return was 15.5." in said_of(ranking).why
    assert [entry.set_apart for entry in ranking] == ["", "one_run", "failed"]
    assert list(ranking[1].runs.items()) == [(2, runs[2]), (3, runs[3])]


def test_a_clearly_best_policy_has_the_number_of_its_trial_and_the_condition():
    groups = [Configuration({"lr": lr}, [lr]) for lr in range(2)]
    by_seed = [{seed: 9.0 + seed % 3 for seed in range(40)}, {seed: 2.0 + seed % 2 for seed in range(40)}]
    runs = [Run(9.0 - 7 * lr, number=lr + 3, episodes=RunScores(own)) for lr, own in enumerate(by_seed)]
    said = verdict(judge(groups, runs), "the return", condition="wind=0")
    assert said.sentence == (
        "Clearly the best policy: lr 0 (trial 3), on 40 evaluation seeds, with wind=0. "
        "One run per configuration is not enough to tell about lr."
    )


def test_the_best_of_thirty_policies_is_found():
    """From 21 on, none was."""
    groups = [Configuration({"lr": lr}, [lr]) for lr in range(30)]
    luck = np.random.default_rng(0).normal(size=(30, 40))
    luck[7] += 3
    runs = [Run(own.mean(), RunScores.of(list(enumerate(own)), own.mean())) for own in luck]
    assert said_of(judge(groups, runs)).sentence.startswith("Clearly the best policy: lr 7, on 40 evaluation seeds.")


def test_if_the_newest_file_of_episodes_is_not_there_the_one_before_has_the_seeds(tmp_path):
    for lr in range(2):
        best, results = 9.0 * lr, [{"episode_return_mean": 9.0 * lr + step} for step in (1, 2)]
        with StoredTrial.in_folder(write_run(tmp_path / "exp" / str(lr), {"lr": lr}, *results)) as store:
            for step in (1, 2):
                records = [tm.EpisodeRecord(f"{lr}-{step}-{n}", best + n % 3, 5, seed=n) for n in range(20)]
                store.add(episodes_of(*records), "evaluation", "episodes/data", step, step)
    newest = max((tmp_path / "exp" / "0" / "episode_data").glob("*.parquet"))
    newest.unlink()
    assert tm.load(tmp_path / "exp").verdict.sentence.startswith(
        "Clearly the best policy: lr 1, on 20 evaluation seeds."
    )
