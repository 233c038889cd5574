"""Folders of Lightning 2.6.6's loggers: ``python -m tests.support.foreign.make_lightning FOLDER``."""

import sys
from pathlib import Path

from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from tests.support.foreign.tidy import tidy
from tests.support.foreign.toy_env import ENV_ID, clip, gains, make, play


def run(logger, seed, learning_rate):
    logger.log_hyperparams({"seed": seed, "lr": learning_rate, "env_id": ENV_ID, "hidden": (8, 8)})
    env = make()
    for number, gain in enumerate(gains(seed, 4, learning_rate), 1):
        episode_return, frames = play(env, gain, seed)
        logger.log_metrics({"val/episode_return": episode_return, "train/loss": 1 / number}, step=8 * number)
        if number == 4:
            clip(frames, Path(logger.log_dir) / "videos" / f"val-step-{8 * number}.mp4")
    logger.save()
    logger.finalize("success")


def main(folder):
    for kind, name in ((TensorBoardLogger, "lightning_tensorboard"), (CSVLogger, "lightning_csv")):
        for seed, learning_rate in ((1, 0.1), (2, 0.1), (1, 0.5)):
            run(kind(str(folder / name), name="lightning_logs"), seed, learning_rate)
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
