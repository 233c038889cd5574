import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorEpisodeStatistics

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.envs.batch import Batch
from tests.support.loops import play, stepped
from tune_media.gym.episode_statistics import as_reward


def test_statistics_are_gymnasiums_own():
    ours = tm.gym.RecordEpisodes(CountingEnv(), video=None, buffer_length=2)
    theirs = RecordEpisodeStatistics(CountingEnv(), buffer_length=2)
    assert play(ours, 4, seed=5) == play(theirs, 4, seed=5)
    assert list(ours.return_queue) == pytest.approx(list(theirs.return_queue))
    assert list(ours.length_queue) == list(theirs.length_queue)
    assert len(ours.time_queue) == 2
    assert all(duration > 0 for duration in ours.time_queue)


def test_vector_statistics_are_gymnasiums_own():
    def run(wrapper):
        env = wrapper(gym.vector.SyncVectorEnv([CountingEnv] * 2))
        env.reset(seed=3)
        seen = []
        for _ in range(40):
            *_, infos = env.step(np.zeros(2, int))
            if "episode" in infos:
                mask = infos["_episode"]
                seen.append((mask.tolist(), infos["episode"]["r"][mask].tolist(), infos["episode"]["l"][mask].tolist()))
        return seen

    ours = run(lambda env: tm.gym.RecordEpisodes(env, video=None))
    theirs = run(RecordVectorEpisodeStatistics)
    assert [(m, pytest.approx(r), list(length)) for m, r, length in ours] == theirs


class Objectives(CountingEnv):
    """An env with a vector reward, as those of MO-Gymnasium have."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward, 1.0], np.float32), *rest


def test_vector_rewards_are_summed_up_by_objective(tmp_path):
    env = tm.gym.RecordEpisodes(Objectives({"length": 5}), tmp_path, keep=tm.selection.best(by="return/1"))
    env.reset()
    rewards = []
    for _ in range(5):
        _, reward, *_, info = env.step(0)
        rewards.append(reward)
    expected = np.sum(np.float64(rewards), axis=0)
    assert info["episode"]["r"] == pytest.approx(expected)
    assert env.return_queue[0] == pytest.approx(expected)
    record = env.take()["best"].episode
    assert record.episode_return == pytest.approx(expected.sum())
    assert [record.metrics["return/0"], record.metrics["return/1"]] == pytest.approx(expected.tolist())


def test_vector_rewards_of_a_vector_env():
    class Objective(Batch):
        def step(self, actions):
            observations, rewards, *rest = super().step(actions)
            return observations, np.stack([rewards, np.ones(self.num_envs)], axis=1), *rest

    env = tm.gym.RecordEpisodes(Objective(2, {"length": 3}), video=None, keep="all")
    *_, infos = stepped(env, 3)
    assert infos["episode"]["r"].shape == (2, 2)
    assert infos["episode"]["r"][:, 1].tolist() == [3, 3]
    assert [record.metrics["return/1"] for record in env.take()["all"]] == [3, 3]


def test_a_reward_array_that_the_env_uses_again_is_not_counted_twice():
    class Same(CountingEnv):
        rewards = np.zeros(2)

        def step(self, action):
            observation, _, *rest = super().step(action)
            self.rewards += 1
            return observation, self.rewards, *rest

    env = tm.gym.RecordEpisodes(Same({"length": 3}), video=None)
    *_, info = stepped(env, 3)
    assert info["episode"]["r"].tolist() == [6, 6]


@pytest.mark.parametrize("reward", [2, 2.0, np.float32(2), np.array(2), np.array([2]), [2.0], True + True])
def test_a_reward_of_one_number_is_a_float(reward):
    assert type(as_reward(reward)) is float
    assert as_reward(reward) == 2


@pytest.mark.parametrize("kind", [gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv])
def test_gymnasiums_statistics_can_stand_outside_of_a_vector_env(kind):
    def make():
        return tm.gym.RecordEpisodes(CountingEnv({"length": 5}), video=None, statistics=False)

    env = RecordVectorEpisodeStatistics(kind([make] * 2))
    try:
        stepped(env, 12)
        assert list(env.length_queue) == [5] * 4
    finally:
        env.close()


class OddReward(gym.Wrapper):
    """The second reward of each episode is no number."""

    def __init__(self, env, odd):
        super().__init__(env)
        self.odd, self.steps = odd, 0

    def reset(self, **options):
        self.steps = 0
        return super().reset(**options)

    def step(self, action):
        observation, reward, *rest = super().step(action)
        self.steps += 1
        return observation, self.odd if self.steps == 2 else reward, *rest


@pytest.mark.parametrize("odd", [None, {"left": 1.0}, "many", [1.0, [2.0]]], ids=["none", "dict", "text", "ragged"])
def test_a_reward_that_is_no_number_costs_the_return_and_not_the_loop(odd, caplog):
    env = tm.gym.RecordEpisodes(OddReward(gym.make("CartPole-v1"), odd), video=None, keep="all")
    for _ in range(2):
        env.reset(seed=0)
        over, rewards = False, []
        while not over:
            _, reward, over, _, info = env.step(0)
            rewards.append(reward)
        assert rewards[1] is odd
        assert math.isnan(info["episode"]["r"])
        assert info["episode"]["l"] == len(rewards)
    assert all(math.isnan(episode.record.episode_return) for episode in env.take()["data"].episodes)
    (warning,) = (text for text in caplog.messages if "reward" in text)
    assert "which is not a number" in warning
    strict = tm.gym.RecordEpisodes(OddReward(gym.make("CartPole-v1"), odd), video=None, strict=True)
    strict.reset(seed=0)
    strict.step(0)
    with pytest.raises((TypeError, ValueError)):
        strict.step(0)


@pytest.mark.parametrize("odd", [[1.0, None], [1.0, {}], {"a": 1.0}], ids=["none", "dict", "all"])
def test_a_reward_of_a_vector_env_that_is_no_number_is_named(odd, caplog):
    class Odd(gym.vector.VectorWrapper):
        def step(self, actions):
            observations, _, *rest = super().step(actions)
            return observations, odd, *rest

    env = tm.gym.RecordVectorEpisodes(Odd(gym.make_vec("CartPole-v1", num_envs=2)), video=None)
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.zeros(2, int))
    assert np.isnan(env.episode_returns).tolist() == ([True, True] if isinstance(odd, dict) else [False, True])
    assert sum("which is not a number" in text for text in caplog.messages) == 1
