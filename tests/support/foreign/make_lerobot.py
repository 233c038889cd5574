"""Folders of LeRobot 0.4.4: ``python -m tests.support.foreign.make_lerobot FOLDER``.

Its ``eval_policy_all`` (the new form) and ``eval_policy`` (the old form) play a policy that is no network, and its
``TrainPipelineConfig.save_pretrained`` writes ``train_config.json``; torchvision, of which they use nothing here, may
be missing.
"""

import json
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar
from unittest.mock import MagicMock

import gymnasium as gym
import numpy as np
import torch


class _NoTorchvision(ModuleType):
    __path__: ClassVar = []

    def __getattr__(self, name):
        return type(name, (torch.nn.Module,), {}) if name[0].isupper() else MagicMock()


for _name in ("", ".transforms", ".transforms.v2", ".transforms.functional"):
    sys.modules[f"torchvision{_name}"] = _NoTorchvision("torchvision")
    sys.modules[f"torchvision{_name}"].__spec__ = ModuleSpec("torchvision", None)

from lerobot.configs.default import DatasetConfig  # noqa: E402
from lerobot.configs.train import TrainPipelineConfig  # noqa: E402
from lerobot.envs.configs import PushtEnv  # noqa: E402
from lerobot.policies.act.configuration_act import ACTConfig  # noqa: E402
from lerobot.policies.pretrained import PreTrainedPolicy  # noqa: E402
from lerobot.scripts.lerobot_eval import eval_policy, eval_policy_all  # noqa: E402

from tests.support.foreign.tidy import tidy  # noqa: E402
from tests.support.foreign.toy_env import STEPS, make  # noqa: E402


class Robot(gym.Wrapper):
    """The toy with what LeRobot asks of an env."""

    task = "push"
    task_description = "Push the point to the middle."
    _max_episode_steps = STEPS

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Dict({"agent_pos": env.observation_space})

    def reset(self, **arguments):
        observation, info = self.env.reset(**arguments)
        return {"agent_pos": observation}, info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return {"agent_pos": observation}, reward, terminated, truncated, info | {"is_success": reward > 0.8}


class Policy(PreTrainedPolicy):
    config_class, name = ACTConfig, "toy"

    def __init__(self, gain):
        torch.nn.Module.__init__(self)
        self.gain = gain
        self.config = SimpleNamespace(device="cpu")

    def select_action(self, batch):
        return -self.gain * batch["observation.state"]

    def reset(self):
        pass

    forward = get_optim_params = predict_action_chunk = reset


def envs():
    same_step = gym.vector.AutoresetMode.SAME_STEP
    return gym.vector.SyncVectorEnv([lambda: Robot(make())] * 2, autoreset_mode=same_step)


def unchanged(value):
    return value


def arguments(gain, folder, rendered, seed=1000):
    return {
        "policy": Policy(gain),
        "env_preprocessor": unchanged,
        "env_postprocessor": unchanged,
        "preprocessor": unchanged,
        "postprocessor": unchanged,
        "n_episodes": 4,
        "max_episodes_rendered": rendered,
        "videos_dir": folder,
        "start_seed": seed,
    }


def evaluation(folder, gain):
    """As ``eval_main``: ``outputs/eval/<date>/<time>_<job>``."""
    info = eval_policy_all({"toy": {0: envs(), 1: envs()}}, **arguments(gain, Path(folder, "videos"), 2))
    Path(folder, "eval_info.json").write_text(json.dumps(info, indent=2))


def old_evaluation(folder, gain):
    """As ``eval_main`` of LeRobot 0.3: the clips lie in ``videos``."""
    info = eval_policy(envs(), **arguments(gain, Path(folder, "videos"), 2))
    Path(folder, "eval_info.json").write_text(json.dumps(info, indent=2))


def training(folder, seed, gain):
    """As ``train``: a checkpoint's config, and the clips of an evaluation, for each of two steps."""
    for step in (10, 20):
        config = TrainPipelineConfig(
            DatasetConfig("lerobot/pusht"), PushtEnv(), ACTConfig(push_to_hub=False), seed=seed
        )
        config.optimizer = config.policy.get_optimizer_preset()
        pretrained = folder / "checkpoints" / f"{step:06d}" / "pretrained_model"
        config.save_pretrained(pretrained)
        eval_policy_all(
            {"pusht": {0: envs()}}, **arguments(gain * step, folder / "eval" / f"videos_step_{step:06d}", 1)
        )


def main(folder):
    np.random.seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)  # its paths are those from the folder in which it was called
    evaluation(Path("lerobot_eval/outputs/eval/2026-11-29/14-00-00_toy_act"), 0.1)
    evaluation(Path("lerobot_eval/outputs/eval/2026-11-29/14-30-00_toy_act"), 1)
    old_evaluation(Path("lerobot_eval_old/outputs/eval/2025-05-29/14-00-00_toy_act"), 0.1)
    old_evaluation(Path("lerobot_eval_old/outputs/eval/2025-05-29/14-30-00_toy_act"), 1)
    for seed in (1, 2):
        training(Path(f"lerobot_train/outputs/train/2026-11-29/14-0{seed}-00_toy_act"), seed, 0.05)
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
