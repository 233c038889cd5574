import pickle

import pytest

from tune_media import triggers


def test_every_and_the_first_episodes():
    assert [index for index in range(10) if triggers.every(4, start=2)(index)] == [2, 6]
    assert [index for index in range(5) if triggers.first_episodes(2)(index)] == [0, 1]


def test_a_random_trigger_with_a_seed_is_the_same_in_every_process():
    trigger = triggers.sometimes(0.5, seed=3)
    copies = [pickle.loads(pickle.dumps(trigger)) for _ in range(2)]
    assert [copies[0](index) for index in range(50)] == [copies[1](index) for index in range(50)]


def test_a_budget_allows_the_first_episode_and_then_its_share():
    budget = triggers.RenderBudget(0.1)
    assert budget.allows(0.0, 0.0)
    assert budget.allows(0.9, 10.0)
    assert not budget.allows(1.1, 10.0)


def test_functions_that_cannot_take_an_episode_are_told_apart():
    assert triggers.takes_one(lambda index: True)
    assert triggers.takes_one(print)
    assert not triggers.takes_one(lambda: True)
    with pytest.raises(ValueError, match=r"every\(n\) needs n >= 1, got 0"):
        triggers.every(0)
