"""Which media go, where not all are kept."""

import pytest

from tune_media.storage.retention import KeptFiles, StoredFile, file_of_line, take_surplus_of_experiment
from tune_media.values.options import Retention

KEY = ("evaluation", "episodes/best")


def files(*values, key=KEY, nbytes=10, trial="t", **others):
    return [
        StoredFile(f"{trial}{key[1]}{index}", trial, nbytes, (index, index), value, keys={key}, **others)
        for index, value in enumerate(values)
    ]


def of_trial(all_files, policy):
    held = KeptFiles(policy)
    for file in all_files:
        held.add(file)
    return held


def surplus_of_trial(all_files, policy, *, is_best):
    return of_trial(all_files, policy).take_surplus(is_best=is_best)


def surplus_of_experiment(all_files, policy, best_trial):
    trials = {file.trial_id: [other for other in all_files if other.trial_id == file.trial_id] for file in all_files}
    return take_surplus_of_experiment([of_trial(files, policy) for files in trials.values()], policy, best_trial)


def kept(all_files, policy, *, is_best=False):
    gone = {file.path for file in surplus_of_trial(all_files, policy, is_best=is_best)}
    return [file.order[0] for file in all_files if file.path not in gone]


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        (Retention(), [0, 1, 2, 3]),
        (Retention(last=2), [2, 3]),
        (Retention(best=2), [0, 2, 3]),  # what has no value cannot be told good from bad
        (Retention(best=1, mode="min"), [1, 2]),
        (Retention(last=1, best=1), [0, 3]),
        (Retention(trial_bytes=25), [2, 3]),
        (Retention(trial_bytes=25, best=1, last=9), [0, 3]),
        (Retention(trial_bytes=1), []),
    ],
)
def test_what_is_left(policy, left):
    assert kept(files(9.0, 1.0, None, 5.0), policy) == left


def test_keys_are_counted_apart_and_a_file_of_two_keys_stays_for_either():
    best, worst = files(1.0, 2.0), files(3.0, 4.0, key=("evaluation", "episodes/worst"))
    both = StoredFile("both", "t", 10, (-1, -1), 9.0, keys={KEY, ("train", "x")})
    gone = {file.path for file in surplus_of_trial([*best, *worst, both], Retention(last=1), is_best=False)}
    assert gone == {best[0].path, worst[0].path}


def test_of_the_best_trial_everything_is_kept_but_what_is_too_large():
    four = files(1.0, 2.0, 3.0, 4.0)
    assert kept(four, Retention(last=1), is_best=True) == [0, 1, 2, 3]
    assert kept(four, Retention(last=1, trial_bytes=20), is_best=True) == [2, 3]


def test_what_is_rolled_back_goes_first_and_is_none_of_the_best():
    three = [*files(9.0, rolled_back=True, trial="u"), *files(1.0, 2.0)]
    assert [file.path for file in surplus_of_trial(three, Retention(trial_bytes=20), is_best=False)] == [three[0].path]
    assert three[0].path in {file.path for file in surplus_of_trial(three, Retention(best=1), is_best=False)}


def test_an_experiment_loses_its_oldest_and_the_best_trials_last():
    a, b = files(1.0, 2.0, trial="a"), files(1.0, 2.0, trial="b")
    policy = Retention(experiment_bytes=20)
    assert {file.path for file in surplus_of_experiment(a + b, policy, "a")} == {file.path for file in b}
    assert {file.order[0] for file in surplus_of_experiment(a + b, policy, None)} == {0}
    assert surplus_of_experiment(a + b, Retention(last=1), None) == []


def test_an_experiment_loses_the_best_of_each_key_after_all_others():
    a, b = files(9.0, 1.0, 2.0, trial="a"), files(8.0, 3.0, 4.0, trial="b")
    for limit, left in ((40, {0, 2}), (20, {0}), (10, {0})):
        policy = Retention(best=1, experiment_bytes=limit)
        gone = {file.path for file in surplus_of_experiment(a + b, policy, None)}
        assert {file.order[0] for file in a + b if file.path not in gone} == left
    rolled_back = files(7.0, trial="a", key=("train", "x"), rolled_back=True)
    assert surplus_of_experiment([*a, *b, *rolled_back], Retention(best=1, experiment_bytes=60), "a") == rolled_back


@pytest.mark.parametrize("bad", [{"last": 0}, {"best": -1}, {"trial_bytes": 1.5}, {"mode": "most"}])
def test_bad_values_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Retention(**bad)


def test_a_line_says_how_good_a_file_is():
    line = {"id": "i", "section": "train", "key": "k", "path": "media/x", "trial_id": "t", "bytes": 7, "time": 2.0}
    assert file_of_line({**line, "episode_return": 3}, "episode_return").value == 3.0
    assert file_of_line({**line, "metrics": {"speed": 4.0}}, "speed").value == 4.0
    assert file_of_line({**line, "metrics": "none", "episode_return": float("nan")}, "episode_return").value is None


def test_few_of_many_files_are_kept_and_only_a_change_makes_a_new_choice():
    held = KeptFiles(Retention(last=500, best=3))
    for file in files(*map(float, range(1000))):
        held.add(file)
        held.take_surplus(is_best=False)
    assert len(held.values()) == 500  # the best are the last
    held.mark("tepisodes/best700", rolled_back=True)
    assert [file.order[0] for file in held.take_surplus(is_best=False)] == [700]
    assert held.take_surplus(is_best=False) == []


def test_a_trial_that_is_no_longer_the_best_is_tidied_whole():
    held = of_trial(files(1.0, 2.0, 3.0), Retention(last=1))
    assert held.take_surplus(is_best=True) == []
    assert [file.order[0] for file in held.take_surplus(is_best=False)] == [0, 1]


def test_hostile_numbers_of_a_line_are_no_numbers():
    line = {"id": "i", "section": "train", "key": "k", "path": "media/x", "bytes": 10**400, "time": float("nan")}
    file = file_of_line({**line, "episode_return": 10**400, "training_iteration": True}, "episode_return")
    assert (file.nbytes, file.order, file.value) == (0, (1.0, 0.0), None)
