"""Folders of Gymnasium 1.2.2: ``python -m tests.support.foreign.make_gymnasium FOLDER``, with moviepy installed.

``gymnasium_recorded`` is of ``RecordVideo`` alone, ``cleanrl`` of a script that logs as CleanRL's scripts do.
"""

import sys
from pathlib import Path

import gymnasium as gym
from torch.utils.tensorboard import SummaryWriter

from tests.support.foreign.tidy import tidy
from tests.support.foreign.toy_env import ENV_ID, gains, make, play

STARTED = 1796000000


def recorded(folder, seed):
    env = gym.wrappers.RecordVideo(make(), str(folder), lambda number: number in (0, 3), disable_logger=True)
    for gain in gains(seed, 4):
        play(env, gain, seed)
    env.close()


def cleanrl(folder, seed, learning_rate):
    arguments = {
        "exp_name": "ppo_continuous_action",
        "seed": seed,
        "torch_deterministic": True,
        "cuda": False,
        "track": False,
        "capture_video": True,
        "env_id": ENV_ID,
        "total_timesteps": 64,
        "learning_rate": learning_rate,
        "num_envs": 1,
        "anneal_lr": True,
        "target_kl": None,
    }
    run_name = f"{ENV_ID}__{arguments['exp_name']}__{seed}__{STARTED + seed}"
    writer = SummaryWriter(str(folder / "runs" / run_name))
    rows = "\n".join(f"|{key}|{value}|" for key, value in arguments.items())
    writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}")
    env = gym.wrappers.RecordVideo(make(), str(folder / "videos" / run_name), disable_logger=True)
    env = gym.wrappers.RecordEpisodeStatistics(env)
    for number, gain in enumerate(gains(seed, 8, learning_rate), 1):
        observation, _ = env.reset(seed=seed)
        done = False
        while not done:
            observation, _, _, done, info = env.step(-gain * observation)
        writer.add_scalar("charts/episodic_return", info["episode"]["r"], 8 * number)
        writer.add_scalar("charts/episodic_length", info["episode"]["l"], 8 * number)
        writer.add_scalar("charts/SPS", 1000 + number, 8 * number)
        writer.add_scalar("losses/value_loss", 1 / number, 8 * number)
    env.close()
    writer.close()


def main(folder):
    for seed in (1, 2):
        recorded(folder / "gymnasium_recorded" / f"seed_{seed}", seed)
        for learning_rate in (0.1, 0.5):
            cleanrl(folder / "cleanrl", seed + (10 if learning_rate == 0.5 else 0), learning_rate)
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
