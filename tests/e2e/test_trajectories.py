from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter

import tune_media as tm
from tests.support.experiment import fit
from tests.support.rllib_configs import STACK, evaluation, small

LEARN = {"train_batch_size": 200, "minibatch_size": 200, "num_epochs": 1}


class ShortPendulum(gym.Wrapper):
    """Pendulum, its actions scaled by RLlib to [-2, 2]; ends itself after 30 steps, or is cut after 20."""

    def __init__(self, config=None):
        super().__init__(gym.make("Pendulum-v1", render_mode=None).unwrapped)
        self.ends = bool((config or {}).get("ends", True))
        self.steps = 0

    def reset(self, **kwargs):
        self.steps = 0
        return super().reset(**kwargs)

    def step(self, action):
        assert self.action_space.contains(np.asarray(action, np.float32))
        observation, reward, _, _, info = super().step(action)
        self.steps += 1
        return observation, float(reward), self.ends and self.steps == 30, not self.ends and self.steps == 20, info


@pytest.mark.parametrize("stack", ["new", "old"])
def test_a_replay_of_an_exported_episode_gives_its_return(ray_session, tmp_path, stack):
    """They were the policy's actions (-2.9 for a space of [-2, 2]), and ended episodes stood there as truncated.

    On the new API stack, a mean-std filter rewrites the episode: -1.4 stood there for an env's 0.0.
    """
    filtered = {"env_runners": {"env_to_module_connector": lambda *args, **kwargs: MeanStdFilter()}}
    settings = {"evaluation": evaluation(0, 3), **(STACK if stack == "old" else filtered)}
    # a trial whose episodes end themselves, and one whose episodes are cut
    config = small(PPOConfig, LEARN, ShortPendulum, **settings)({"ends": tune.grid_search([True, False])})
    config.callbacks(tm.rllib.record_episodes(keep="all", video=None, trajectories=True, seeds=50, strict=True))
    callbacks = [tm.JsonMediaLoggerCallback(media=tm.MediaOptions(strict=True))]
    results = fit("PPO", tmp_path, callbacks, space=config, stop={"training_iteration": 1})
    assert not results.errors
    facts = tm.load(results.experiment_path).episodes().set_index("episode_id")
    episodes = []
    for result in results:
        ends = result.config["env_config"]["ends"]
        steps = pd.concat(map(pd.read_parquet, sorted(Path(result.path).glob("episode_data/steps-*.parquet"))))
        episodes += [(ends, table.sort_values("episode_step")) for _, table in steps.groupby("episode_id")]
    assert len(episodes) >= 6
    for ends, table in episodes:
        fact = facts.loc[table["episode_id"].iloc[0]]
        env = ShortPendulum({"ends": ends})
        observation, _ = env.reset(seed=int(fact["seed"]))
        observations, rewards = [observation], []
        for action in table["action"].iloc[1:]:
            observation, reward, *_ = env.step(np.asarray(action, np.float32))
            observations.append(observation)
            rewards.append(reward)
        assert sum(rewards) == pytest.approx(fact["episode_return"], abs=1e-3)
        assert np.allclose(np.stack(table["observation"].to_list()), observations, atol=1e-5)
        assert np.allclose(table["reward"].iloc[1:].to_numpy(float), rewards, atol=1e-5)
        assert bool(table["terminated"].iloc[-1]) is ends
        assert bool(table["truncated"].iloc[-1]) is not ends
        assert bool(fact["terminated"]) is ends
