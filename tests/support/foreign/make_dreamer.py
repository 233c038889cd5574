"""A folder as of DreamerV3, by its logger, elements 3.22.4: ``python -m tests.support.foreign.make_dreamer FOLDER``.

The outputs are those of its ``main.py``, with its names. ``scope`` (its default, which Elements does not bring) has a
clip for each step.
"""

import sys
from pathlib import Path

import elements
import numpy as np

from tests.support.foreign.tidy import tidy
from tests.support.foreign.toy_env import clip, gains, make, play


def run(folder, seed):
    logdir = elements.Path(str(folder))
    logdir.mkdir()
    config = elements.Config(
        seed=seed,
        task="toy_reach",
        logdir=str(folder),
        run={"steps": 1e10, "train_ratio": 32.0, "envs": 16},
        agent={"opt": {"lr": 4e-5, "eps": 1e-20}, "enc": {"typ": "simple", "simple": {"depth": 64, "norm": "rms"}}},
    )
    config.save(logdir / "config.yaml")
    step = elements.Counter()
    outputs = [
        elements.logger.JSONLOutput(logdir, "metrics.jsonl", parallel=False),
        elements.logger.JSONLOutput(logdir, "scores.jsonl", "episode/score", parallel=False),
    ]
    logger = elements.Logger(step, outputs)
    env = make()
    for gain in gains(seed, 4):
        step.increment(8)
        episode_return, frames = play(env, gain, seed)
        logger.add({"score": episode_return, "length": np.int32(8)}, prefix="episode")
        logger.add({"loss/dyn": 1 / (1 + gain), "opt/updates": float(int(step))}, prefix="train")
        logger.write()
        clip(frames, folder / "scope" / "report" / "openloop" / "image" / f"{int(step):010d}.mp4")
    logger.close()


def main(folder):
    for seed in (1, 2):
        run(folder / "dreamerv3" / "logdir" / f"20261129T1{seed}0000", seed)
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
