from types import SimpleNamespace

import ale_py
import gymnasium as gym
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.env_context import EnvContext

from tests.support.envs import CountingEnv
from tune_media.rllib.second_env import env_maker


def env_runner(env, **config):
    config = PPOConfig().environment(env, env_config=config)
    return SimpleNamespace(config=config, worker_index=2)


def test_another_env_is_made_with_the_same_arguments():
    assert env_maker(env_runner(CountingEnv, length=9))().counter.config["length"] == 9
    made = env_maker(env_runner("CartPole-v1", render_mode="rgb_array"))()
    assert (made.spec.id, made.render_mode) == ("CartPole-v1", "rgb_array")


def test_the_old_api_stack_tells_each_sub_env_its_index():
    seen = []
    context = EnvContext({"length": 3}, worker_index=1, vector_index=0)
    worker = SimpleNamespace(
        env_creator=lambda config: seen.append((config.vector_index, dict(config))) or CountingEnv(),
        env_context=context,
        config=PPOConfig(),
    )
    env_maker(worker, 2)()
    assert seen == [(2, {"length": 3})]


def test_the_old_api_stack_wraps_atari_games_as_its_rollout_workers_do():
    gym.register_envs(ale_py)

    def made(**options):
        worker = SimpleNamespace(
            env_creator=lambda context: gym.make("ALE/Pong-v5"),
            env_context=EnvContext({}, worker_index=1),
            config=PPOConfig().env_runners(**options),
        )
        return env_maker(worker)()

    assert made().observation_space.shape == (84, 84, 4)
    assert made(preprocessor_pref=None).observation_space.shape == (210, 160, 3)


def test_a_batch_of_envs_has_no_maker_of_one():
    runner = env_runner(CountingEnv)
    runner.config.env_runners(gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT)
    assert env_maker(runner) is None
