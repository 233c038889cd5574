from types import SimpleNamespace

import ale_py
import gymnasium as gym
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.env_context import EnvContext

from tests.support.envs import CountingEnv
from tune_media.replay.recipe import LoadedRecipe
from tune_media.rllib.recipes import env_runner_recipe


def env_runner(env, **config):
    config = PPOConfig().environment(env, env_config=config)
    return SimpleNamespace(config=config, worker_index=2)


def made_again(env_runner, index=0):
    return LoadedRecipe.of(env_runner_recipe(env_runner, None).content).make(2, index)


def test_another_env_is_made_with_the_same_arguments():
    assert made_again(env_runner(CountingEnv, length=9)).counter.config["length"] == 9
    made = made_again(env_runner("CartPole-v1", render_mode="rgb_array"))
    assert (made.spec.id, made.render_mode) == ("CartPole-v1", "rgb_array")


class Told(CountingEnv):
    def __init__(self, config):
        super().__init__(config)
        self.told = config.vector_index, dict(config)


def test_the_old_api_stack_tells_each_sub_env_its_index():
    context = EnvContext({"length": 3}, worker_index=1, vector_index=0)
    worker = SimpleNamespace(env_creator=Told, env_context=context, config=PPOConfig())
    assert made_again(worker, 2).told == (2, {"length": 3})


def make_pong(context):
    gym.register_envs(ale_py)
    return gym.make("ALE/Pong-v5")


def test_the_old_api_stack_wraps_atari_games_as_its_rollout_workers_do():
    def made(**options):
        context, config = EnvContext({}, worker_index=1), PPOConfig().env_runners(**options)
        return made_again(SimpleNamespace(env_creator=make_pong, env_context=context, config=config))

    assert made().observation_space.shape == (84, 84, 4)
    assert made(preprocessor_pref=None).observation_space.shape == (210, 160, 3)


def test_a_batch_of_envs_has_no_recipe_of_one():
    runner = env_runner(CountingEnv)
    runner.config.env_runners(gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT)
    assert env_runner_recipe(runner, None) is None
