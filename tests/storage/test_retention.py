"""Which media go, where not all are kept."""

import pytest

from tune_media.storage.retention import StoredFile, files_of, misspelt, surplus_of_experiment, surplus_of_trial
from tune_media.values.options import Retention

KEY = ("evaluation", "episodes/best")


def files(*values, key=KEY, nbytes=10, **others):
    return [
        StoredFile(f"{key[1]}{index}", nbytes, (index, index), value, keys={key}, **others)
        for index, value in enumerate(values)
    ]


def kept(all_files, policy):
    gone = {file.path for file in surplus_of_trial(all_files, policy)}
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
    both = StoredFile("both", 10, (-1, -1), 9.0, keys={KEY, ("train", "x")})
    gone = {file.path for file in surplus_of_trial([*best, *worst, both], Retention(last=1))}
    assert gone == {best[0].path, worst[0].path}


def test_what_is_rolled_back_goes_first_and_is_none_of_the_best():
    three = [*files(9.0, rolled_back=True, key=("train", "x")), *files(1.0, 2.0)]
    assert [file.path for file in surplus_of_trial(three, Retention(trial_bytes=20))] == [three[0].path]
    assert three[0].path in {file.path for file in surplus_of_trial(three, Retention(best=1))}


def test_an_experiment_loses_its_oldest_and_the_best_of_each_key_after_all_others():
    trials = {"a": files(1.0, 2.0), "b": files(1.0, 2.0)}
    gone = surplus_of_experiment(trials, Retention(experiment_bytes=20))
    assert [(trial, file.order[0]) for trial, file in gone] == [("a", 0), ("b", 0)]
    assert surplus_of_experiment(trials, Retention(last=1)) == []
    trials = {"a": files(9.0, 1.0, 2.0), "b": files(8.0, 3.0, 4.0)}
    for limit, left in ((40, {0, 2}), (20, {0}), (10, {0})):
        gone = surplus_of_experiment(trials, Retention(best=1, experiment_bytes=limit))
        lost = {(trial, file.order[0]) for trial, file in gone}
        assert {number for trial in trials for number in range(3) if (trial, number) not in lost} == left
    rolled_back = files(7.0, key=("train", "x"), rolled_back=True)
    trials["a"] += rolled_back
    assert surplus_of_experiment(trials, Retention(best=1, experiment_bytes=60)) == [("a", rolled_back[0])]


@pytest.mark.parametrize("bad", [{"last": 0}, {"best": -1}, {"trial_bytes": 1.5}, {"mode": "most"}])
def test_bad_values_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Retention(**bad)


def line(number=1, **more):
    path = f"media/train/k/step_00000000{number}-0123456789ab.mp4"
    fixed = {"id": f"{number}", "section": "train", "key": "k", "path": path, "trial_id": "t", "status": "stored"}
    return {**fixed, "bytes": 7, "time": 2.0, "training_iteration": number, **more}


def test_lines_say_how_good_a_file_is_and_those_that_are_no_stored_media_are_left_out():
    lines = [line(1, episode_return=3), line(2, metrics={"speed": 4.0}), line(3, status="deleted")]
    lines += [line(1, key="other", rolled_back=True), line(4, path="episode_data/data-00000004.json")]
    found = files_of(lines, "speed")
    assert [(file.order[0], file.value, file.rolled_back, len(file.keys)) for file in found] == [
        (1, None, False, 2),
        (2, 4.0, False, 1),
    ]
    assert files_of(lines, "episode_return")[0].value == 3.0


def test_hostile_numbers_of_a_line_are_no_numbers():
    hostile = {"bytes": 10**400, "time": float("nan"), "episode_return": 10**400, "training_iteration": True}
    (file,) = files_of([line(**hostile)], "episode_return")
    assert (file.nbytes, file.order, file.value) == (0, (1.0, 0.0), None)


@pytest.mark.parametrize(
    ("policy", "clips", "told"),
    [
        ({"best": 2, "by": "typo"}, [{"speed": 1.0}] * 9, "They have: speed, episode_return, episode_length"),
        ({"best": 2, "by": "typo"}, [{"speed": 1.0}] * 3, ""),
        ({"best": 2, "by": "goals"}, [{}] * 8 + [{"goals": 1.0}], ""),
        ({"best": 2}, [{}] * 9, ""),
        ({"last": 2, "by": "typo"}, [{}] * 9, ""),  # nothing is compared
    ],
)
def test_a_misspelt_value_or_metric_is_named_with_those_that_there_are(policy, clips, told):
    lines = [{"episode_return": 1.0, "episode_length": 3, "metrics": metrics} for metrics in clips]
    text = misspelt(lines, Retention(**policy))
    assert bool(text) == bool(told)
    assert told in text
