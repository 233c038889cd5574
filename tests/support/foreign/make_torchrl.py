"""A folder of TorchRL 0.14.1's CSVLogger: ``python -m tests.support.foreign.make_torchrl FOLDER``.

Its mp4 writer needs torchcodec and is replaced by tune_media's encoder; names and places are the logger's.
"""

import sys
from pathlib import Path

import torch
from torchrl.record.loggers import csv as torchrl_csv

from tests.support.foreign.tidy import tidy
from tests.support.foreign.toy_env import ENV_ID, clip, gains, make, play


def write_video(path, frames, **_):
    clip(frames.numpy(), Path(path))


def run(folder, seed, learning_rate):
    torchrl_csv._write_video = write_video
    logger = torchrl_csv.CSVLogger(f"ppo_{learning_rate}_{seed}", str(folder), video_format="mp4", video_fps=10)
    logger.log_hparams({"lr": learning_rate, "seed": seed, "env_name": ENV_ID})
    env = make()
    for number, gain in enumerate(gains(seed, 4, learning_rate), 1):
        episode_return, frames = play(env, gain, seed)
        logger.log_scalar("train/reward", episode_return / 8, step=8 * number)
        logger.log_scalar("eval/reward", episode_return, step=8 * number)
        if number in (1, 4):
            logger.log_video("eval_video", torch.as_tensor(frames).permute(0, 3, 1, 2)[None], step=8 * number)


def main(folder):
    for seed, learning_rate in ((1, 0.1), (2, 0.1), (1, 0.5)):
        run(folder / "torchrl_csv", seed, learning_rate)
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
