import pickle

import cloudpickle
import pytest

from tune_media import rllib, selection, steps
from tune_media.recording.choosing import chosen_by, survivors
from tune_media.selection import as_selectors
from tune_media.values.episode_record import EpisodeRecord


def episode(id, value, finished_at=0.0, length=10):
    return EpisodeRecord(f"episode {id}", float(value), length, finished_at=finished_at, id=str(id))


RETURNS = [3, 1, 4, 1, 5, 9, 2, 6]
EPISODES = [episode(i, value, finished_at=i) for i, value in enumerate(RETURNS)]


def winners(records, selectors):
    return chosen_by(selectors, records, strict=True)[0]


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
        (selection.best(by="finished_at"), ["7"]),
        (selection.failures(below=2), ["1", "3"]),
    ],
)
def test_each_selector_chooses_the_episodes_that_it_is_for(keep, expected):
    (selector,) = as_selectors(keep)
    assert ids(winners(EPISODES, [selector])[selector.name]) == expected


@pytest.mark.parametrize("keep", [*selection._NAMED, selection.best(3)])
@pytest.mark.parametrize("runners", [1, 2, 3, 8])
def test_the_choice_over_all_env_runners_needs_only_the_survivors_of_each(keep, runners):
    selectors = as_selectors(keep)
    held = []
    for runner in range(runners):
        candidates: list[EpisodeRecord] = []
        for record in EPISODES[runner::runners]:  # as they end, the losers go
            candidates.append(record)
            alive, raised = survivors(candidates, selectors)
            assert not raised
            candidates = [candidate for candidate in candidates if candidate.id in alive]
        held += candidates
    assert winners(held, selectors) == winners(EPISODES, selectors)


def test_best_and_worst_of_equals_differ():
    chosen = winners([episode(i, 7, finished_at=i) for i in range(3)], as_selectors(("best", "worst")))
    assert ids(chosen["best"]) != ids(chosen["worst"])


def test_a_return_that_is_not_a_number_is_neither_best_nor_worst_but_a_failure():
    records = [episode(0, float("nan")), episode(1, 1), episode(2, 2)]
    chosen = winners(records, as_selectors(("best", "worst", selection.failures(below=1))))
    assert (ids(chosen["best"]), ids(chosen["worst"]), ids(chosen["failures"])) == (["2"], ["1"], ["0"])


def test_a_number_that_no_episode_has_is_told_with_what_was_meant():
    episodes = [EpisodeRecord("e", 1.0, 3, metrics={"speed_avg": 2.0})]
    with pytest.raises(ValueError, match=r"by='sped_avg' is no number of any .*; did you mean 'speed_avg'\?"):
        selection.best(by="sped_avg").choose(episodes)
    with pytest.raises(ValueError, match=r"their numbers are 'episode_return', 'episode_length', 'speed_avg'\."):
        selection.worst(by="x").choose(episodes)


def test_selectors_and_triggers_can_be_pickled():
    for selector in as_selectors((*selection._NAMED, selection.failures(below=1))):
        copy = pickle.loads(pickle.dumps(selector))
        assert copy.choose(EPISODES) == selector.choose(EPISODES)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: as_selectors(()), ValueError, "empty"),
        (lambda: as_selectors(("best", selection.best(3))), ValueError, "twice"),
        (lambda: as_selectors([3]), TypeError, "several of these, got"),
        (lambda: selection.best(0), ValueError, "whole number of episodes from 1"),
        (lambda: selection.every(0), ValueError, r"every\(n\) takes a whole number .* got 0"),
        (lambda: selection.sometimes(2), ValueError, "probability"),
        (lambda: selection.RenderBudget(0), ValueError, "share"),
        (lambda: selection.best("3"), TypeError, r"best\(k\) takes a whole number .* got '3'"),
        (lambda: selection.sometimes("often"), TypeError, r"sometimes\(probability\) takes a number .* got 'often'"),
        (lambda: steps.running("speed", statistics=("avg", "median")), ValueError, "median"),
    ],
)
def test_a_mistake_is_refused_at_once(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_triggers_take_every_nth_the_first_or_some_episodes():
    assert [index for index in range(10) if selection.every(4, start=2)(index)] == [2, 6]
    assert [index for index in range(5) if selection.first_episodes(2)(index)] == [0, 1]


def test_chance_differs_between_processes_unless_it_is_seeded():
    def draws(trigger):
        copies = [pickle.loads(pickle.dumps(trigger)) for _ in range(2)]
        return [[copy(index) for index in range(40)] for copy in copies]

    one, other = draws(selection.sometimes(0.5))
    assert one != other
    one, other = draws(selection.sometimes(0.5, seed=1))
    assert one == other
    assert set(one) == {True, False}


def test_a_budget_allows_the_first_episode_and_then_its_share():
    budget = selection.RenderBudget(0.1)
    assert budget.allows(0.0, 0.0)
    assert budget.allows(0.9, 10.0)
    assert not budget.allows(1.1, 10.0)


def is_late(record):
    return record.seed is None


CALLS = [
    "best()",
    "worst(2, by='speed', name='slow')",
    "failures(below=0)",
    "where(is_late, name='late')",
    "Selector('late', is_late, limit=None, local=True)",
    "every(4, start=1)",
    "first_episodes(2)",
    "sometimes(0.5, seed=3)",
    "RenderBudget(share=0.05)",
    "record_episodes(keep=['best', where(is_late, name='late')], trigger=every(3), seeds=range(0, 2))",
]


@pytest.mark.parametrize("call", CALLS)
def test_the_repr_of_a_choice_and_of_a_recorder_is_the_call_that_made_it(call):
    names = {name: getattr(selection, name) for name in selection.__all__}
    names |= {"is_late": is_late, "record_episodes": rllib.record_episodes}
    made = eval(call, names)
    assert repr(made) == repr(cloudpickle.loads(cloudpickle.dumps(made))) == call
