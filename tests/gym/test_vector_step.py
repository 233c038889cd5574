import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.envs.batch import Batch
from tests.support.loops import stepped
from tune_media.gym.vector_step import VectorStep


@pytest.mark.parametrize("infos", [{"fps": 60.0, "speed": np.array([1.0, 2.0])}, {0: 3, "speed": np.array([1.0, 2.0])}])
def test_odd_infos_of_a_vector_env_do_no_harm(infos):
    class Odd(Batch):
        def step(self, actions):
            *rest, _ = super().step(actions)
            return *rest, dict(infos)

    env = tm.gym.RecordEpisodes(Odd(2, {}), collect=["speed"], keep="all", video=None)
    stepped(env, 25)
    assert {episode.record.metrics["speed_avg"] for episode in env.take()["data"].episodes} == {1.0, 2.0}


def test_the_last_observation_of_a_vector_env_that_resets_at_once():
    class Counts(CountingEnv):
        def step(self, action):
            _, *rest = super().step(action)
            return np.full(2, self.counter.step_count / 100, np.float32), *rest

    mode = gym.vector.AutoresetMode.SAME_STEP
    env = gym.vector.SyncVectorEnv([Counts] * 2, autoreset_mode=mode)
    env = tm.gym.RecordEpisodes(env, keep="all", video=None, trajectories=True)
    stepped(env, 25)
    batch = env.take()["data"]
    for episode in batch.episodes:
        seen = batch.trajectories[episode.record.id].columns["observation"]
        assert [round(100 * float(each[0])) for each in seen] == list(range(episode.record.episode_length + 1))


def test_the_last_info_of_an_episode_is_the_final_one():
    infos = {"speed": np.array([1.0, 2.0]), "final_info": {"speed": np.array([3.0, 4.0])}}
    now = VectorStep(Batch(2), None, infos, None)
    assert now.final_info(1) == {"speed": 4.0}
    assert now.info(1)["speed"] == 2.0
    assert now.final_observation(1) is None
