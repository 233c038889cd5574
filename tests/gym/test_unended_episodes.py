"""Episodes that are reset in mid-episode: a time limit outside the recorder, or a loop that breaks."""

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.loops import play, stepped


def long_envs(count):
    """Return an env, or a vector env of several, whose episodes have nine steps."""

    def make():
        return CountingEnv({"length": 9})

    return make() if count == 1 else gym.vector.SyncVectorEnv([make] * count)


@pytest.mark.parametrize("count", [1, 3])
def test_a_loop_that_breaks_is_told_once_with_the_remedy(count, caplog):
    env = tm.gym.RecordEpisodes(long_envs(count), keep="best")
    stepped(env, 5)
    stepped(env, 5)
    assert not caplog.messages  # the first one may be a reset between two parts of a script
    assert env.take() == {"num_abandoned": count}
    for _ in range(3):
        stepped(env, 5)
    taken = env.take()
    (problem,) = taken.pop("problems")
    assert taken == {"num_abandoned": 3 * count}
    assert f"reset before the end of {count + 1} episodes in a row, the last time after step 5." in problem.text
    assert "RecordEpisodes(TimeLimit(env, 5)), or pass max_episode_steps=5 to gymnasium.make()" in problem.text
    assert [problem.text in message for message in caplog.messages] == [True]


def test_a_limit_outside_leaves_no_data_in_the_folder_and_the_remedy_does(tmp_path, caplog):
    env = gym.wrappers.TimeLimit(tm.gym.RecordEpisodes(CountingEnv({"length": 9}), tmp_path / "outside"), 4)
    for _ in range(4):
        stepped(env, 4)
    env.close()
    assert len(tm.load(tmp_path / "outside").episodes()) == 0
    assert len(caplog.messages) == 1
    inside = tm.gym.RecordEpisodes(gym.wrappers.TimeLimit(CountingEnv({"length": 9}), 4), tmp_path / "inside")
    play(inside, 4)
    inside.close()
    episodes = tm.load(tmp_path / "inside").episodes()
    assert list(episodes["episode_length"]) == [4] * 4
    assert len(caplog.messages) == 1


def test_resets_between_the_parts_of_a_script_and_a_close_are_no_news(caplog):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 9}), keep="best")
    for _ in range(3):
        play(env, 1)
        stepped(env, 5)  # say, the rest of a rollout
    play(env, 1)
    stepped(env, 5)
    env.close()
    assert env.take()["num_abandoned"] == 3
    other = tm.gym.RecordEpisodes(CountingEnv({"length": 9}), keep="best")
    stepped(other, 5)
    other.reset()
    other.reset()
    other.step(0)
    other.close()
    assert other.take() == {"num_abandoned": 1}
    assert not caplog.messages


def test_sub_envs_that_end_at_different_times_are_no_news(caplog):
    """An evaluation of a few episodes resets the other sub-envs in the middle of theirs."""
    envs = gym.vector.SyncVectorEnv([lambda length=length: CountingEnv({"length": length}) for length in (3, 9, 9)])
    env = tm.gym.RecordEpisodes(envs, keep="best")
    for _ in range(4):
        env.reset()
        while not np.any(env.step(np.zeros(3, int))[2]):
            pass
    env.close()
    assert env.take()["num_abandoned"] == 2 * 3
    assert not caplog.messages
