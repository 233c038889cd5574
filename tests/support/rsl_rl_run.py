"""A run of rsl_rl on a toy env that draws its own frames and records them: ``FOLDER SEED LR ITERATIONS KILLED_AT``.

The env writes mp4 as Isaac Lab does with Gymnasium's RecordVideo: ``videos/train/rl-video-step-<n>.mp4``, counted from
0 in each process. Each file is half written for some steps. The process kills itself in the middle of an iteration; if
the folder has a checkpoint, the run goes on from the last one.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

import tune_media as tm

STEPS = 8  # of an iteration
INTERVAL, LENGTH, WRITING = 16, 4, 6  # steps


class Drift(VecEnv):
    """Points that the actions move; each is to come to 0."""

    num_envs, num_actions, max_episode_length, device = 4, 1, 10, "cpu"

    def __init__(self, folder, killed_at):
        self.cfg = {"log_dir": str(folder), "scene": {"num_envs": self.num_envs}, "speed": 0.5}
        self.folder, self.killed_at = folder / "videos" / "train", killed_at
        self.folder.mkdir(parents=True, exist_ok=True)
        self.at = torch.rand(self.num_envs, 1) * 4 - 2
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.count, self.frames = 0, []

    def get_observations(self):
        return TensorDict({"policy": self.at.clone()}, batch_size=[self.num_envs])

    def step(self, actions):
        if self.count == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.record()
        self.count += 1
        self.at = (self.at + self.cfg["speed"] * actions).clamp(-4, 4)
        self.episode_length_buf += 1
        dones = self.episode_length_buf >= self.max_episode_length
        self.at[dones], self.episode_length_buf[dones] = torch.rand(int(dones.sum()), 1) * 4 - 2, 0
        extras = {"time_outs": dones, "log": {"distance": self.at.abs().mean()}}
        return self.get_observations(), -self.at.abs()[:, 0], dones.long(), extras

    def record(self):
        phase = self.count % INTERVAL
        path = self.folder / f"rl-video-step-{self.count - phase}.mp4"
        if phase < LENGTH:
            frame = np.full((48, 64, 3), 40, np.uint8)
            left = round((float(self.at[0, 0]) + 4) * 7)
            frame[:, left : left + 4] = 220
            self.frames.append(frame)
        elif phase == LENGTH:
            self.data = tm.Video(self.frames, fps=10).data
            self.frames = []
            path.write_bytes(self.data[: len(self.data) // 2])
        elif phase == LENGTH + WRITING:
            path.write_bytes(self.data)


def main(folder, seed, learning_rate, iterations, killed_at):
    torch.manual_seed(seed)
    model = {"class_name": "MLPModel", "hidden_dims": [8]}
    config = {
        "seed": seed,
        "num_steps_per_env": STEPS,
        "save_interval": 2,
        "run_name": folder.name,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": model,
        "algorithm": {"class_name": "PPO", "learning_rate": learning_rate, "num_mini_batches": 1},
        "logger": {"class_name": "tune_media.rsl_rl:LogWriter"},
    }
    runner = OnPolicyRunner(Drift(folder, killed_at), config, log_dir=str(folder))
    saved = sorted(folder.glob("model_*.pt"), key=lambda path: int(path.stem.removeprefix("model_")))
    if saved:
        torch.manual_seed(seed + 1000)
        runner.load(str(saved[-1]))
    runner.learn(iterations)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
