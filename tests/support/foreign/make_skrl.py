"""A folder of skrl 2.1.1, with Isaac Lab's name and configs: ``python -m tests.support.foreign.make_skrl FOLDER``."""

import sys
from pathlib import Path

import torch
import yaml
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed

from tests.support.foreign.tidy import make_runs, tidy
from tests.support.foreign.toy_env import clip, make, play


class Policy(GaussianMixin, Model):
    def __init__(self, observation_space, action_space):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device="cpu")
        GaussianMixin.__init__(self)
        self.net = torch.nn.Linear(1, 1)
        self.deviation = torch.nn.Parameter(torch.zeros(1))

    def compute(self, inputs, role):
        return self.net(inputs["observations"]), {"log_std": self.deviation}


class Value(DeterministicMixin, Model):
    def __init__(self, observation_space, action_space):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device="cpu")
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Linear(1, 1)

    def compute(self, inputs, role):
        return self.net(inputs["observations"]), {}


def run(folder, seed, learning_rate):
    set_seed(seed)
    env = wrap_env(make())
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    models = {"policy": Policy(**spaces), "value": Value(**spaces)}
    experiment = {"directory": str(folder.parent), "experiment_name": folder.name, "write_interval": 32}
    settings = {"rollouts": 16, "learning_epochs": 2, "mini_batches": 1, "learning_rate": learning_rate}
    config = PPO_CFG(**settings, experiment=experiment | {"checkpoint_interval": 0})
    memory = RandomMemory(memory_size=16, num_envs=1, device="cpu")
    agent = PPO(models=models, memory=memory, cfg=config, **spaces, device="cpu")
    SequentialTrainer(
        cfg={"timesteps": 128, "headless": True, "disable_progressbar": True}, env=env, agents=agent
    ).train()
    (folder / "params").mkdir()
    told = {
        "seed": seed,
        "agent": {"class": "PPO", **settings},
        "trainer": {"class": "SequentialTrainer", "timesteps": 128},
    }
    (folder / "params" / "agent.yaml").write_text(yaml.dump(told, default_flow_style=False, sort_keys=False))
    clip(play(make(), 1, seed)[1], folder / "videos" / "train" / "rl-video-step-0.mp4")


def main(folder):
    make_runs(run, folder / "skrl" / "logs" / "skrl" / "toy_flat", "_ppo_torch")
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
