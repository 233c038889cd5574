"""Which of the episodes that have tapes are wanted."""

import pytest

from tune_media.viewing.taped_episodes import TapedEpisode, choose


def episode(id, score, iteration, section="evaluation", *, rolled_back=False):
    row = {"episode_id": id, "episode_return": score, "training_iteration": iteration, "section": section}
    return TapedEpisode(None, "", row | {"finished_at": 0.0, "rolled_back": rolled_back, "metrics": {}})


@pytest.mark.parametrize(("which", "id"), [("best", "b"), ("worst", "a"), ("last", "b")])
def test_episodes_that_the_trial_left_behind_are_chosen_only_if_there_are_no_others(which, id):
    left = [episode("x", 9.0, 8, rolled_back=True), episode("y", -9.0, 9, rolled_back=True)]
    kept = [episode("a", 1.0, 1), episode("b", 2.0, 2), episode("t", 99.0, 99, "train")]
    assert [one.id for one in choose([*left, *kept], which)] == [id]
    assert {one.id for one in choose(left, which)} <= {"x", "y"}
    assert [one.id for one in choose([*left, *kept], "return > 5")] == ["x", "t"]
    assert [one.id for one in choose([*left, *kept], "(return=1..2 or section=train) not iteration=2")] == ["a", "t"]
