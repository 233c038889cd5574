"""Which of the episodes that have tapes are wanted."""

import pytest

import tune_media as tm
from tests.support.recorded import make_trial
from tests.support.stores import StoredTrial
from tune_media.values.episodes import EpisodeBatch, EpisodeData
from tune_media.viewing.taped_episodes import TapedEpisode, choose, ids_matching


def episode(id, score, iteration, section="evaluation", *, rolled_back=False):
    row = {"episode_id": id, "episode_return": score, "training_iteration": iteration, "section": section}
    return TapedEpisode(None, "", row | {"finished_at": 0.0, "rolled_back": rolled_back, "metrics": {}})


@pytest.mark.parametrize(("which", "id"), [("best", "b"), ("worst", "a"), ("last", "b")])
def test_episodes_that_the_trial_left_behind_are_chosen_only_if_there_are_no_others(which, id):
    left = [episode("x", 9.0, 8, rolled_back=True), episode("y", -9.0, 9, rolled_back=True)]
    kept = [episode("a", 1.0, 1), episode("b", 2.0, 2), episode("t", 99.0, 99, "train")]
    assert [one.id for one in choose([[*left, *kept]], which)] == [id]
    assert {one.id for one in choose([left], which)} <= {"x", "y"}
    assert [one.id for one in choose([[*left, *kept]], "return > 5")] == ["x", "t"]
    assert [one.id for one in choose([[*left, *kept]], "(return=1..2 or section=train) not iteration=2")] == ["a", "t"]


def test_a_metric_that_one_trial_lacks_and_an_id_are_looked_for_in_all_trials():
    one, other = episode("a", 1.0, 1), episode("b", 2.0, 2)
    other.row["metrics"]["distance"] = 3.0
    assert choose([[one], [], [other]], "distance > 1") == choose([[one], [other]], "b") == [other]
    assert choose([[one], [], [other]], "best") == [one, other]
    with pytest.raises(ValueError, match="did you mean 'distance'"):
        choose([[one], [other]], "distnace > 1")


def test_datasets_of_steps_are_of_episodes_without_tapes_too(tmp_path):
    store = StoredTrial.in_folder(make_trial(tmp_path / "exp" / "a", {}, {}))
    records = [tm.EpisodeRecord("e1", 1.0, 2, metrics={"distance": 4.0}), tm.EpisodeRecord("e2", 2.0, 2, task="far")]
    store.add(EpisodeBatch(tuple(EpisodeData(one, {}) for one in records)), "train", "x/data", 10)
    store.finish()
    rows = tm.load(tmp_path / "exp").episodes().to_dict("records")
    expected = {"return > 1": {"e2"}, "distance > 1": {"e1"}, "task=None": {"e1"}, "return>0 far": {"e2"}}
    for where, ids in expected.items():
        assert ids_matching(rows, where) == ids, where
