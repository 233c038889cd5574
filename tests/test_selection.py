import pickle

import pytest

from tune_media import selection
from tune_media.recording.choosing import chosen_by, survivors
from tune_media.selection import as_selectors
from tune_media.values.episode_record import EpisodeRecord


def episode(id, value, finished_at=0.0, length=10):
    return EpisodeRecord(f"episode {id}", float(value), length, finished_at=finished_at, id=str(id))


RETURNS = [3, 1, 4, 1, 5, 9, 2, 6]
EPISODES = [episode(i, value, finished_at=i) for i, value in enumerate(RETURNS)]


def fail(selector, error):
    raise error


def winners(records, selectors):
    return chosen_by(selectors, records, fail)


def ids(records):
    return [record.id for record in records]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ("best", ["5"]),
        ("worst", ["3"]),  # of the two ones, the later
        ("median", ["0"]),
        ("first", ["0"]),
        ("last", ["7"]),
        ("all", list("01234567")),
        (selection.best(3), ["5", "7", "4"]),
        (selection.worst(2), ["3", "1"]),
        (selection.where(lambda record: record.episode_return > 4, name="good"), ["4", "5", "7"]),
    ],
)
def test_what_selectors_choose(keep, expected):
    (selector,) = as_selectors(keep)
    assert ids(winners(EPISODES, [selector])[selector.name]) == expected


@pytest.mark.parametrize("keep", ["best", "worst", "median", "first", "last", "all", selection.best(3)])
@pytest.mark.parametrize("runners", [1, 2, 3, 8])
def test_the_choice_over_all_env_runners_needs_only_the_survivors_of_each(keep, runners):
    selectors = as_selectors(keep)
    held = []
    for runner in range(runners):
        candidates: list[EpisodeRecord] = []
        for record in EPISODES[runner::runners]:  # as they end, the losers go
            candidates.append(record)
            alive = survivors(candidates, selectors, fail)
            candidates = [candidate for candidate in candidates if candidate.id in alive]
        held += candidates
    assert winners(held, selectors) == winners(EPISODES, selectors)


def test_best_and_worst_of_equals_differ():
    chosen = winners([episode(i, 7, finished_at=i) for i in range(3)], as_selectors(("best", "worst")))
    assert ids(chosen["best"]) != ids(chosen["worst"])


def test_a_return_that_is_not_a_number_is_neither_best_nor_worst():
    records = [episode(0, float("nan")), episode(1, 1), episode(2, 2)]
    chosen = winners(records, as_selectors(("best", "worst")))
    assert (ids(chosen["best"]), ids(chosen["worst"])) == (["2"], ["1"])


def test_by_another_number_of_the_episode():
    records = [episode(0, 9, length=5), episode(1, 1, length=50)]
    assert ids(winners(records, [selection.best(by="episode_length")])["best"]) == ["1"]


def test_failures():
    (selector,) = as_selectors(selection.failures(below=2))
    assert ids(winners(EPISODES, [selector])["failures"]) == ["1", "3"]


@pytest.mark.parametrize(
    ("keep", "error", "words"),
    [
        ("bets", ValueError, "no selector"),
        ((), ValueError, "empty"),
        (("best", "best"), ValueError, "twice"),
        (("best", selection.best(3)), ValueError, "twice"),
        (3, TypeError, "keep= takes a selector's name .* got 3"),
        ([3], TypeError, "several of these, got"),
    ],
)
def test_bad_selectors_fail_at_once(keep, error, words):
    with pytest.raises(error, match=words):
        as_selectors(keep)


def test_a_number_that_no_episode_has_is_told_with_what_was_meant():
    episodes = [EpisodeRecord("e", 1.0, 3, metrics={"speed_avg": 2.0})]
    with pytest.raises(ValueError, match=r"by='sped_avg' is no number of any .*; did you mean 'speed_avg'\?"):
        selection.best(by="sped_avg").choose(episodes)
    with pytest.raises(ValueError, match=r"their numbers are 'episode_return', 'episode_length', 'speed_avg'\."):
        selection.worst(by="x").choose(episodes)


def test_bad_numbers_fail_at_once():
    for make in (selection.best, selection.worst, selection.first, selection.last):
        with pytest.raises(ValueError, match="k >= 1"):
            make(0)
    with pytest.raises(ValueError, match="n >= 1"):
        selection.every(0)
    with pytest.raises(ValueError, match="probability"):
        selection.sometimes(2)
    with pytest.raises(ValueError, match="share"):
        selection.RenderBudget(0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: selection.best("3"), r"best\(k\) takes a whole number .* got '3'"),
        (lambda: selection.last(2.5), r"last\(k\) takes a whole number .* got 2.5"),
        (lambda: selection.every(None), r"every\(n\) takes a whole number .* got None"),
        (lambda: selection.sometimes("often"), r"sometimes\(probability\) takes a number .* got 'often'"),
        (lambda: selection.RenderBudget(None), r"RenderBudget\(share\) takes a number .* got None"),
    ],
)
def test_arguments_that_are_no_numbers_are_named(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_failures_have_what_is_not_a_number():
    (selector,) = as_selectors(selection.failures(below=2))
    assert ids(selector.choose([episode(0, float("nan")), episode(1, 5)])) == ["0"]


def test_selectors_and_triggers_can_be_pickled():
    for selector in as_selectors(("best", "worst", "median", "first", "last", "all", selection.failures(below=1))):
        copy = pickle.loads(pickle.dumps(selector))
        assert copy.choose(EPISODES) == selector.choose(EPISODES)


def test_chance_differs_between_processes_unless_it_is_seeded():
    def draws(trigger):
        return [pickle.loads(pickle.dumps(trigger))(0) for _ in range(40)]

    assert len(set(draws(selection.sometimes(0.5)))) == 2
    assert len(set(draws(selection.sometimes(0.5, seed=1)))) == 1
