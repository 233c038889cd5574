"""The functions of examples/policy_loaders.py, on models that the other libraries have saved."""

import runpy
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm

pytestmark = pytest.mark.any_ray

PENDULUM = "Pendulum-v1"  # its actions are floats, which show each state of a policy


def make_env(config):
    return gym.make("CartPole-v1", render_mode="rgb_array")


@pytest.fixture
def loaders():
    """Return the functions of the example by name."""
    pytest.importorskip("stable_baselines3")
    return runpy.run_path(str(Path(__file__).parents[2] / "examples" / "policy_loaders.py"))


def trained(folder, wrap=lambda envs: envs, steps=(64, 128)):
    """Train a model of SB3 for a few steps, with a checkpoint at each of two; return the model."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import CheckpointCallback
    from stable_baselines3.common.env_util import make_vec_env

    envs = wrap(make_vec_env("CartPole-v1", 1, seed=0))
    model = PPO("MlpPolicy", envs, n_steps=32, batch_size=32, device="cpu", seed=0)
    model.learn(steps[-1], CheckpointCallback(steps[0], str(folder), save_vecnormalize=True))
    return model, envs


def test_models_of_sb3_are_played_as_they_predict(loaders, tmp_path):
    from stable_baselines3 import PPO

    trained(tmp_path)
    model = PPO.load(tmp_path / "rl_model_128_steps.zip", device="cpu")
    given = {"policy": loaders["load"], "env": make_env, "clips": None, "seeds": 3}
    found = tm.evaluate(str(tmp_path / "*.zip"), checkpoint="all", **given)
    assert [row.training_iteration for row in found.checkpoints] == [64, 128]
    returns = []
    for seed in range(3):
        env, total, over = make_env({}), 0.0, False
        observation, _ = env.reset(seed=seed)
        while not over:
            observation, reward, terminated, truncated, _ = env.step(model.predict(observation, deterministic=True)[0])
            total, over = total + reward, terminated or truncated
        returns.append(total)
    last = found.catalog.episodes().query("step == 128").sort_values("seed")
    assert last["episode_return"].tolist() == returns
    alone = tm.evaluate(tmp_path / "rl_model_128_steps.zip", **given)
    assert alone.checkpoints[0].return_mean == pytest.approx(found.checkpoints[1].return_mean)
    assert not alone.problems and alone.checkpoints[0].error is None


def test_statistics_of_vecnormalize_are_loaded_and_a_model_without_them_is_refused(loaders, tmp_path):
    from stable_baselines3.common.vec_env import VecNormalize

    tmp_path /= "rl_model_runs_128_steps"  # only the file's name counts
    model, envs = trained(tmp_path, lambda envs: VecNormalize(envs, norm_reward=False))
    policy, observation = loaders["load"](str(tmp_path / "rl_model_128_steps.zip")), make_env({}).reset(seed=3)[0]
    assert policy(observation) == model.predict(envs.normalize_obs(observation), deterministic=True)[0]
    given = {"policy": loaders["load"], "env": make_env, "clips": None, "seeds": 2}
    found = tm.evaluate(str(tmp_path / "*.zip"), **given)
    assert found.checkpoints[0].episodes == 2
    (tmp_path / "rl_model_vecnormalize_128_steps.pkl").unlink()
    found = tm.evaluate(tmp_path / "rl_model_128_steps.zip", **given)
    assert "was trained with VecNormalize, and there is no rl_model_vecnorm" in found.checkpoints[0].error


def test_a_model_of_stacked_frames_is_refused_in_an_env_that_does_not_stack(loaders, tmp_path):
    from stable_baselines3.common.vec_env import VecFrameStack

    trained(tmp_path, lambda envs: VecFrameStack(envs, 4))
    given = {"policy": loaders["load"], "clips": None, "seeds": 2}
    found = tm.evaluate(tmp_path / "rl_model_128_steps.zip", env=make_env, **given)
    assert "Unexpected observation shape (4,)" in found.checkpoints[0].error


def test_a_torch_module_is_played(loaders, tmp_path):
    import torch

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    torch.save(network.state_dict(), tmp_path / "policy_10.pt")
    found = tm.evaluate(
        str(tmp_path / "*.pt"), policy=loaders["load_torch"], env=make_env, seeds=3, clips=None, checkpoint="all"
    )
    assert (found.checkpoints[0].training_iteration, found.checkpoints[0].episodes) == (10, 3)


def test_a_recurrent_model_of_sb3_contrib_remembers_the_steps_of_one_episode(loaders, tmp_path):
    contrib = pytest.importorskip("sb3_contrib")
    model = contrib.RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=16, batch_size=16, device="cpu", seed=0)
    model.learn(64).save(tmp_path / "rl_model_64_steps.zip")
    found = tm.evaluate(
        tmp_path / "rl_model_64_steps.zip", policy=loaders["load_recurrent"], env=make_env, seeds=4, clips=None
    )
    returns = []
    for seed in range(4):
        env, state, starts, total, over = make_env({}), None, np.ones(1), 0.0, False
        observation, _ = env.reset(seed=seed)
        while not over:
            action, state = model.predict(observation, state=state, episode_start=starts, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            starts, total, over = np.zeros(1), total + reward, terminated or truncated
        returns.append(total)
    assert found.catalog.episodes().sort_values("seed")["episode_return"].tolist() == returns
    assert found.checkpoints[0].note == "Predicts.reset() of the policy is called before each episode"


def test_a_recurrent_model_that_is_never_reset_is_loaded_for_each_episode(loaders, tmp_path):
    contrib = pytest.importorskip("sb3_contrib")
    model = contrib.RecurrentPPO("MlpLstmPolicy", PENDULUM, n_steps=16, batch_size=16, device="cpu", seed=0)
    model.learn(16).save(tmp_path / "rl_model_16_steps.zip")

    def load(path):
        policy = loaders["load_recurrent"](path)
        return lambda observation: policy(observation)

    given = {"env": lambda config: gym.make(PENDULUM), "seeds": 3, "clips": None}
    told, silent = (
        tm.evaluate(tmp_path / "rl_model_16_steps.zip", policy=one, name=name, **given)
        for name, one in (("told", loaders["load_recurrent"]), ("silent", load))
    )
    assert "without reset(), it is loaded for each episode" in silent.checkpoints[0].note
    assert silent.checkpoints[0].return_mean == told.checkpoints[0].return_mean
