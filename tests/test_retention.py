"""Which media go, where not all are kept."""

from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest
from ray import tune

import tune_media as tm
from tests.faults import ITERATIONS, assert_trained, clip
from tests.helpers import image_steps
from tests.lifecycle.common import index_lines, stored_files
from tune_media.callbacks.keeping import Keeper
from tune_media.encoding import probe_video
from tune_media.entries import Package, Place
from tune_media.retention import Kept, Retention, kept_of_line, surplus_of_experiment, surplus_of_trial
from tune_media.store import TrialStore

KEY = ("evaluation", "episodes/best")


def files(*values, key=KEY, nbytes=10, trial="t", **others):
    return [
        Kept(f"{trial}{key[1]}{index}", trial, nbytes, (index, index), value, keys={key}, **others)
        for index, value in enumerate(values)
    ]


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
    both = Kept("both", "t", 10, (-1, -1), 9.0, keys={KEY, ("train", "x")})
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


@pytest.mark.parametrize("bad", [{"last": 0}, {"best": -1}, {"trial_bytes": 1.5}, {"mode": "most"}])
def test_bad_values_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Retention(**bad)


def test_a_line_says_how_good_a_file_is():
    line = {"id": "i", "section": "train", "key": "k", "path": "media/x", "trial_id": "t", "bytes": 7, "time": 2.0}
    assert kept_of_line({**line, "episode_return": 3}, "episode_return").value == 3.0
    assert kept_of_line({**line, "metrics": {"speed": 4.0}}, "speed").value == 4.0
    assert kept_of_line({**line, "metrics": "none", "episode_return": float("nan")}, "episode_return").value is None


RETURNS = dict(zip(ITERATIONS, [3, 9, 1, 4, 5, 2, 6, 0], strict=True))


def played(config):
    """Trial 1 is the best from its first result on; the first two clips are reported under two keys."""
    for iteration in ITERATIONS:
        episode = tm.EpisodeRecord(f"{config['trial']}-{iteration}", float(RETURNS[iteration]), 3)
        video = clip(iteration, 48, episode=episode)
        result = {"twin": video} if iteration < 3 else {}
        result |= {"rollout": video, "weights": tm.Histogram(np.arange(10.0)), "level": float(iteration)}
        tune.report({**result, "score": 10 * config["trial"]})


def swept(folder, **policy):
    """Return the index lines of each trial of a sweep that keeps what a policy says; the second callback is told it."""
    options = tm.MediaOptions(retention=Retention(**policy), strict=True)
    results = tune.Tuner(
        played,
        param_space={"trial": tune.grid_search([0, 1])},
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=str(folder),
            verbose=0,
            callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback(options)],
        ),
    ).fit()
    assert_trained(results)
    trials = {}
    for result in results:
        lines = index_lines(result.path)
        assert len({(line["id"], line["key"]) for line in lines}) == len(lines) == 2 * len(ITERATIONS) + 2
        assert {line["status"] for line in lines} <= {"stored", "deleted"}
        stored = [line for line in lines if line["status"] == "stored"]
        assert stored_files(result.path) == sorted({line["path"] for line in stored})
        for line in stored:
            content = (Path(result.path) / line["path"]).read_bytes()
            assert len(content) == line["bytes"]
            assert line["kind"] != "video" or probe_video(content).frames == 3
        assert image_steps(result.path)["train/rollout"] == ITERATIONS  # what was shown stays
        assert sorted({row["path"] for row in tm.load(result.path) if Path(row["file"]).exists()}) == stored_files(
            result.path
        )
        trials[result.config["trial"]] = lines
    return trials


def stored_at(lines, key):
    return sorted(line["training_iteration"] for line in lines if (line["key"], line["status"]) == (key, "stored"))


def bytes_of(lines):
    return sum({line["path"]: line["bytes"] for line in lines if line["status"] == "stored"}.values())


def test_a_sweep_keeps_the_last_the_best_and_all_of_the_best_trial(ray_session, tmp_path):
    trials = swept(tmp_path, last=2, best=1, best_trial="score")
    assert stored_at(trials[1], "rollout") == stored_at(trials[1], "weights") == ITERATIONS
    assert stored_at(trials[0], "weights") == [7, 8]
    assert stored_at(trials[0], "twin") == [1, 2]
    assert stored_at(trials[0], "rollout") == [1, 2, 7, 8]  # the first is there for its twin, the second is the best


@pytest.fixture
def recorded(tmp_path):
    """Return a function that records one more clip in a trial, with a driver that has just been started."""

    def record(trial, step):
        place = Place(pyarrow.fs.LocalFileSystem(), str(tmp_path / "sweep" / trial), tmp_path / "driver" / trial, trial)
        store = TrialStore(place, Retention())
        store.load()
        _, entry = store.register(clip(step, 48), "train", "rollout", step, step)
        store.write(Package(trial, [entry]))
        store.finish()
        return store

    return record


def test_a_policy_that_comes_after_the_index_was_read_knows_what_is_listed(recorded):
    late = TrialStore(recorded("trial", 1).place)
    late.load()
    assert not late.files
    late.retention = Retention(last=1)
    late.know_files()
    assert [file.keys for file in late.files.values()] == [{("train", "rollout")}]


@pytest.mark.parametrize("tidies", ["what is too much", "the former best"])
def test_trials_that_were_over_before_a_restore_are_tidied_too(recorded, tmp_path, tidies):
    for step in ITERATIONS:
        recorded("over", step)
    going_on = recorded("going_on", 1)
    if tidies == "the former best":
        keeper = Keeper(Retention(last=2, best_trial="score"))
        keeper.best = ("over", 5.0)
        keeper.tidy(going_on)
        assert keeper.saw("going_on", {"score": 4.0}) is None
        assert keeper.saw("going_on", {"score": 6.0}) == "over"
        keeper.tidy_former_best("over")
        left = 2
    else:
        size = max(file.nbytes for file in going_on.files.values())
        Keeper(Retention(experiment_bytes=4 * size + size // 2)).tidy(going_on)
        left = 3
    listed = index_lines(tmp_path / "sweep" / "over")
    assert stored_at(listed, "rollout") == ITERATIONS[-left:]
    assert len(stored_files(tmp_path / "sweep" / "over")) == left
    assert len(stored_files(tmp_path / "sweep" / "going_on")) == 1


def test_a_sweep_keeps_so_many_bytes(ray_session, tmp_path):
    largest = max(len(clip(iteration, 48).data) for iteration in ITERATIONS)
    trials = swept(tmp_path / "a", trial_bytes=3 * largest)
    for lines in trials.values():
        assert largest < bytes_of(lines) <= 3 * largest
        assert stored_at(lines, "rollout")[-1] == 8
    all_of_one = bytes_of(swept(tmp_path / "b", best_trial="score")[1])
    assert all_of_one > 3 * largest
    trials = swept(tmp_path / "c", experiment_bytes=all_of_one + 2 * largest, best_trial="score")
    assert stored_at(trials[1], "rollout") == ITERATIONS
    assert bytes_of(trials[0]) + bytes_of(trials[1]) <= all_of_one + 2 * largest
    left = stored_at(trials[0], "rollout")
    assert left == ITERATIONS[-len(left) :]  # the newest
    assert 1 <= len(left) < len(ITERATIONS)
