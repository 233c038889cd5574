"""A folder of rl_games 1.6.5: ``python -m tests.support.foreign.make_rl_games FOLDER``.

Its names and configs are those of Isaac Lab.
"""

import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
import yaml
from rl_games.common import env_configurations, vecenv
from rl_games.torch_runner import Runner

from tests.support.foreign.tidy import make_runs, tidy
from tests.support.foreign.toy_env import clip, make, play


class Points(vecenv.IVecEnv):
    """The toy, twice."""

    def __init__(self, *_, **__):
        same_step = gym.vector.AutoresetMode.SAME_STEP
        self.envs = gym.vector.SyncVectorEnv([make] * 2, autoreset_mode=same_step)

    def reset(self):
        return torch.as_tensor(self.envs.reset(seed=1)[0])

    def step(self, actions):
        observation, reward, terminated, truncated, _ = self.envs.step(np.asarray(actions))
        dones = torch.as_tensor(terminated | truncated)
        return torch.as_tensor(observation), torch.as_tensor(reward, dtype=torch.float32), dones, {}

    def get_env_info(self):
        return {"observation_space": self.envs.single_observation_space, "action_space": self.envs.single_action_space}

    def get_number_of_agents(self):
        return 1


def config(folder, seed, learning_rate):
    network = {
        "name": "actor_critic",
        "separate": False,
        "space": {
            "continuous": {
                "mu_activation": "None",
                "sigma_activation": "None",
                "mu_init": {"name": "default"},
                "sigma_init": {"name": "const_initializer", "val": 0},
                "fixed_sigma": True,
            }
        },
        "mlp": {"units": [8], "activation": "elu", "initializer": {"name": "default"}},
    }
    training = {
        "name": "toy_flat",
        "train_dir": str(folder.parent),
        "full_experiment_name": folder.name,
        "env_name": "rlgpu",
        "device": "cpu",
        "device_name": "cpu",
        "num_actors": 2,
        "reward_shaper": {"scale_value": 1.0},
        "normalize_advantage": True,
        "normalize_input": False,
        "normalize_value": False,
        "ppo": True,
        "gamma": 0.99,
        "tau": 0.95,
        "learning_rate": learning_rate,
        "lr_schedule": None,
        "e_clip": 0.2,
        "entropy_coef": 0.0,
        "critic_coef": 2,
        "clip_value": True,
        "grad_norm": 1.0,
        "truncate_grads": True,
        "horizon_length": 16,
        "minibatch_size": 32,
        "mini_epochs": 2,
        "max_epochs": 5,
        "bounds_loss_coef": 0.0001,
        "save_frequency": 0,
        "save_best_after": 100,
        "mixed_precision": False,
        "print_stats": False,
    }
    names = {"algo": {"name": "a2c_continuous"}, "model": {"name": "continuous_a2c_logstd"}, "network": network}
    return {"params": {"seed": seed, **names, "config": training}}


def run(folder, seed, learning_rate):
    told = config(folder, seed, learning_rate)
    (folder / "params").mkdir(parents=True)
    (folder / "params" / "agent.yaml").write_text(yaml.dump(told, default_flow_style=False, sort_keys=False))
    runner = Runner()
    runner.load(told)
    runner.reset()
    runner.run({"train": True, "play": False})
    for path in folder.rglob("*.pth"):
        path.unlink()
    clip(play(make(), 1, seed)[1], folder / "videos" / "train" / "rl-video-step-0.mp4")


def main(folder):
    vecenv.register("TOY", lambda config_name, num_actors, **_: Points())
    env_configurations.register("rlgpu", {"vecenv_type": "TOY", "env_creator": make})
    make_runs(run, folder / "rl_games" / "logs" / "rl_games" / "toy_flat")
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
