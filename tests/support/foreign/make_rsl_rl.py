"""Folders of rsl_rl 5.5.1: ``python -m tests.support.foreign.make_rsl_rl FOLDER``.

They are as Isaac Lab's ``train.py`` and ``play.py`` leave them: the configs are written by the same call of PyYAML on
dicts with tuples and a slice, which Isaac Lab's ``class_to_dict`` returns, and the clips by Gymnasium's recorder.
"""

import sys
from pathlib import Path

import torch
import yaml
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from tests.support.foreign.tidy import make_runs, tidy
from tests.support.foreign.toy_env import STEPS, clip, make, play

ENV = {
    "seed": None,
    "sim": {"dt": 0.005, "device": "cpu", "gravity": (0.0, 0.0, -9.81)},
    "scene": {"num_envs": 4, "env_spacing": 2.5},
    "viewer": {"eye": (7.5, 7.5, 7.5), "resolution": (1280, 720)},
    "actions": {"joint": {"class_type": "isaaclab.envs.mdp:JointAction", "ids": slice(None)}},
    "decimation": 4,
    "episode_length_s": 20.0,
}


class Points(VecEnv):
    """The toy, four times."""

    num_envs, num_actions, max_episode_length, device = 4, 1, STEPS, "cpu"
    cfg = ENV

    def __init__(self):
        self.at = torch.rand(self.num_envs, 1) * 2 - 1
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)

    def get_observations(self):
        return TensorDict({"policy": self.at.clone()}, batch_size=[self.num_envs])

    def step(self, actions):
        self.at = (self.at + 0.3 * actions).clamp(-1, 1)
        self.episode_length_buf += 1
        dones = self.episode_length_buf >= self.max_episode_length
        reward = 1 - self.at.abs()[:, 0]
        self.at[dones], self.episode_length_buf[dones] = torch.rand(int(dones.sum()), 1) * 2 - 1, 0
        return (
            self.get_observations(),
            reward,
            dones.long(),
            {"time_outs": dones, "log": {"distance": self.at.abs().mean()}},
        )


def config(seed, learning_rate):
    model = {"class_name": "MLPModel", "hidden_dims": (8,)}
    return {
        "seed": seed,
        "device": "cpu",
        "num_steps_per_env": 8,
        "max_iterations": 6,
        "save_interval": 50,
        "experiment_name": "toy_flat",
        "run_name": "",
        "logger": "tensorboard",
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
        "critic": model,
        "algorithm": {"class_name": "PPO", "learning_rate": learning_rate, "num_mini_batches": 1},
    }


def run(folder, seed, learning_rate):
    torch.manual_seed(seed)
    told = config(seed, learning_rate)
    (folder / "params").mkdir(parents=True)
    for name, content in (("env", ENV | {"seed": seed}), ("agent", told)):
        (folder / "params" / f"{name}.yaml").write_text(yaml.dump(content, default_flow_style=False, sort_keys=False))
    OnPolicyRunner(Points(), told, log_dir=str(folder), device="cpu").learn(6)
    for path in folder.glob("model_*.pt"):
        path.unlink()
    env = make()
    for step in (0, 24):
        clip(play(env, step / 24, seed)[1], folder / "videos" / "train" / f"rl-video-step-{step}.mp4")
    clip(play(env, 1, seed)[1], folder / "videos" / "play" / "rl-video-step-0.mp4")


def main(folder):
    make_runs(run, folder / "isaac_lab" / "logs" / "rsl_rl" / "toy_flat")
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
