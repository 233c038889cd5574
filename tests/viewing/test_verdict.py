"""The verdict on scores of which some are missing: what it says is never more than what is known."""

from functools import partial

import pytest

from tune_media.viewing.configurations import Configuration, judge
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
    return judge(groups, means, runs=[RunScores(own) for own in returns])


said_of = partial(verdict, statuses=[], label="the return")


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
    assert "#2, lr 1, is ahead of it by 5.25 [5.045, 5.455], on 4 evaluation seeds." in said.why


def test_the_same_score_is_one_on_the_seeds_that_both_have_played():
    ranking = judged([{1: 1.0, 2: 5.0}, {1: 1.0, 2: 5.0, 3: 2.0}])
    assert ranking[1].ahead.value == 0 < ranking[0].mean.value - ranking[1].mean.value
    said = said_of(ranking)
    assert said.sentence == (
        "Best so far: the policy of lr 0, on 2 evaluation seeds. Another one has the same score. "
        "One run per configuration is not enough to tell about lr."
    )
    assert "#2, lr 1, has the same score." in said.why


def test_a_title_in_an_error_has_no_secret():
    with pytest.raises(ValueError, match=r"^api_key \*\*\* has not the same number of runs"):
        judge([Configuration({"api_key": "a1b2"}, [0, 1, 2])], [1.0, 2.0, 3.0], ["a", "a", "b"])


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
    ranking = judge(groups, [9.0, 9.1, 9.2, 3.0, 3.1, 3.2], steps=steps)
    assert said_of(ranking).sentence == said
    assert said_of(ranking).is_clear == said.startswith("Clearly")


def test_the_best_of_those_that_trained_as_long_is_clear():
    groups = [Configuration({"lr": lr}, [3 * lr, 3 * lr + 1, 3 * lr + 2]) for lr in range(3)]
    ranking = judge(groups, [9.0, 9.1, 9.2, 3.0, 3.1, 3.2, 5.0, 5.1, 5.2], steps=[480] * 6 + [100] * 3)
    said = said_of(ranking).sentence
    assert said == "Clearly the best of the 2 that trained as long: lr 0. 1 stopped earlier."
    assert [entry.ahead and entry.ahead.why for entry in ranking] == [None, None, "unequal_training"]
